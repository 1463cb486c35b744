//! Where a run is, and what comes next: told by its fold alone, so that a runner that begins again goes on the same way.

use super::cause::GateCause;
use super::event::{PassEnd, PassId};
use super::state::{Course, Ending, State, StepState};

/// What the runner has to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Wait: a gate is open.
    Wait,
    /// Open a gate, because nobody has decided how it goes on.
    OpenGate {
        /// At this step.
        step: usize,
        /// For this reason.
        cause: GateCause,
    },
    /// Take a pass from its beginning.
    Take(PassId),
    /// Complete a pass that was cut.
    Complete(PassId),
    /// End: every step was taken or decided away.
    Done,
    /// End: a decision stopped the run.
    Stopped,
}

/// What comes next. Asked between passes: a pass that has no end in the fold was broken off.
pub fn next(state: &State) -> Next {
    if state.ending == Ending::Now {
        return Next::Stopped;
    }
    if state.gate.is_some() {
        return Next::Wait;
    }
    let step = state.current;
    if let Some(pass) = state.unfinished() {
        let id = PassId { step, pass: pass.number };
        if pass.course == Course::Continue {
            // Paused after it was decided, before it could begin.
            let paused = Next::OpenGate { step, cause: GateCause::Paused };
            return if state.paused { paused } else { Next::Complete(id) };
        }
        let cause = match &pass.end {
            Some(PassEnd::Cut(cause)) => GateCause::Cut(cause.clone()),
            Some(PassEnd::Stopped | PassEnd::Complete) | None => GateCause::Interrupted,
        };
        return Next::OpenGate { step, cause };
    }
    match ahead(state) {
        Next::Take(_) | Next::OpenGate { .. } if state.ending == Ending::AfterPass => Next::Stopped,
        // A gate that opens anyway is a pause too.
        Next::Take(_) if state.paused => Next::OpenGate { step, cause: GateCause::Paused },
        ahead => ahead,
    }
}

/// What comes after a pass that needs no decision.
fn ahead(state: &State) -> Next {
    let step = state.current;
    match state.steps.get(step) {
        Some(current) if !current.is_decided_away() && !current.is_done() => take(state, step),
        Some(current) if !current.is_decided_away() && !state.auto => {
            Next::OpenGate { step, cause: GateCause::StepDone }
        }
        _ => next_step(state).map_or(Next::Done, |step| take(state, step)),
    }
}

fn take(state: &State, step: usize) -> Next {
    let taken = state.steps.get(step).map_or(0, |step| step.passes.len());
    let pass = u32::try_from(taken).unwrap_or(u32::MAX).saturating_add(1);
    Next::Take(PassId { step, pass })
}

/// The step that is taken next when the current one is left: the first that is still to come, but before it one that a
/// decision opened and of which no pass was begun.
pub fn next_step(state: &State) -> Option<usize> {
    let is_to_come = |index: &usize| state.steps.get(*index).is_some_and(StepState::is_to_come);
    std::iter::once(state.current).chain(0..state.steps.len()).find(is_to_come)
}
