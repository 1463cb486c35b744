//! The lines that a run without a screen prints on standard error.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::print::say_aside;
use crate::engine::Stamp;
use crate::measure::Phase;
use crate::results::story::{failures, told};
use crate::run::event::{Event, PassEnd};
use crate::run::runner::View;
use crate::run::state::{PassState, State, StepState};

/// Time between two lines of a running measurement.
const PERIOD: Duration = Duration::from_secs(5);

/// Prints until the run's last line. What is printed is composed under the lock and written without it: a terminal
/// that does not take it must not hold up the recorder.
pub(super) async fn show(mut view: View) {
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let state = Arc::clone(&view.state);
    let locked = || state.lock().unwrap_or_else(PoisonError::into_inner);
    let mut last = None;
    let mut untroubled = false;
    loop {
        tokio::select! {
            line = view.lines.recv() => {
                let Some(line) = line else { return };
                let told = told(&locked(), &line);
                if let Some(told) = told {
                    say_aside(told).await;
                }
                if matches!(line.event, Event::RunEnded { .. }) {
                    return;
                }
                ticks.reset();
            }
            changed = view.trouble.changed(), if !untroubled => {
                untroubled = changed.is_err();
                let trouble = view.trouble.borrow_and_update().clone();
                match trouble {
                    Some(text) => {
                        say_aside(format!("PAUSED: {text}; once it can be written the run goes on by itself")).await;
                    }
                    None if !untroubled => say_aside("the run folder can be written again".to_owned()).await,
                    None => {}
                }
            }
            // While nothing can be recorded nothing is sent.
            _ = ticks.tick(), if view.trouble.borrow().is_none() => {
                let running = running(&locked(), &view);
                // A line that says the same as the one before says nothing.
                if let Some((counts, line)) = running.filter(|(counts, _)| last.as_ref() != Some(counts)) {
                    say_aside(line).await;
                    last = Some(counts);
                }
            }
        }
    }
}

/// One line of a measurement that goes on: counts, rate and the time that is left; and the counts alone, to tell
/// whether anything changed.
fn running(state: &State, view: &View) -> Option<(String, String)> {
    let pass = state.steps.get(state.current)?.passes.last()?;
    if pass.end.is_some() || pass.phase != Some(Phase::Measurement) || pass.planned == 0 {
        return None;
    }
    let in_flight = (view.live)().map_or_else(String::new, |live| format!(" · {} in flight", live.in_flight));
    let accepted = pass.requests.iter().filter(|request| request.accepted()).count();
    let failed = failures(|reason| {
        pass.requests.iter().filter(|request| request.failure() == Some(reason)).count() as u64
    });
    let ended = pass.requests.len();
    let counts = format!("  {ended}/{} ended · {accepted} accepted{in_flight}{failed}", pass.planned);
    let whole = format!("{counts}{}", left(state, pass));
    Some((counts, whole))
}

/// Time left in this pass, from its own rate, and the passes that follow it.
fn left(state: &State, pass: &PassState) -> String {
    // A pass that goes on has a rate of its own.
    let attempt = pass.by_attempt().last().unwrap_or_default();
    let Some(begun) = attempt.iter().filter_map(|request| request.times.sent).min() else {
        return String::new();
    };
    let elapsed = Stamp::now().since(begun).as_secs_f64();
    let rest = pass.planned.saturating_sub(pass.requests.len()) as f64 * elapsed / attempt.len() as f64;
    let more = passes_left(state);
    format!(" · about {rest:.0} s left in this pass, {more} more after it")
}

/// Passes that follow the running one: those that its step still wants, and the steps that were not begun.
fn passes_left(state: &State) -> u32 {
    let complete = |step: &StepState| {
        let complete = step.passes.iter().filter(|pass| pass.end == Some(PassEnd::Complete)).count();
        u32::try_from(complete).unwrap_or(u32::MAX)
    };
    let here = state.steps.get(state.current).map_or(0, |step| {
        // The running one is counted among those that are wanted.
        step.wanted.saturating_sub(complete(step)).saturating_sub(1)
    });
    let later = state.steps.iter().enumerate().filter(|(index, step)| {
        *index != state.current && step.passes.is_empty() && !step.skipped && !step.left
    });
    later.fold(here, |left, (_, step)| left.saturating_add(step.wanted))
}
