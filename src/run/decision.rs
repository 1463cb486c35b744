//! What can be chosen while a run goes on, and whether a choice is possible now.

use serde::{Deserialize, Serialize};

use super::cause::GateCause;
use super::position;
use super::state::{Ending, OpenGate, State};
use crate::protocol::{Parameter, Setting};

/// What a person or a rule can choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// At a gate: go on with the next step. A pass that was cut is given up.
    Next,
    /// At a gate: take the step's passes once more, or the pass that was cut. The earlier ones are kept.
    Repeat,
    /// At a gate: leave the next step out.
    Skip,
    /// At a gate: go on where the run was. A pass that was cut is completed, and marked.
    Continue,
    /// At a gate: measure another value of a swept parameter, in a new step or in one that was left out.
    Set {
        /// Which parameter.
        parameter: Parameter,
        /// Its value in the new step.
        value: u32,
    },
    /// Go from step to step without gates.
    Auto,
    /// Wait at a gate after each step again.
    AutoOff,
    /// Send nothing new, let what is in flight end, and wait.
    Pause,
    /// End the run now: what is in flight is cancelled.
    Stop,
    /// End the run when the pass that goes on is over.
    StopAfterPass,
    /// Change nothing; the reason is what is to be remembered.
    Note,
}

impl Choice {
    /// The word used in files and on screen.
    pub fn word(self) -> &'static str {
        match self {
            Self::Next => "next",
            Self::Repeat => "repeat",
            Self::Skip => "skip",
            Self::Continue => "continue",
            Self::Set { .. } => "set",
            Self::Auto => "auto",
            Self::AutoOff => "auto-off",
            Self::Pause => "pause",
            Self::Stop => "stop",
            Self::StopAfterPass => "stop-after-pass",
            Self::Note => "note",
        }
    }

    /// Whether it says how the run goes on from a gate.
    pub fn closes_gate(self) -> bool {
        matches!(self, Self::Next | Self::Repeat | Self::Skip | Self::Continue | Self::Set { .. })
    }
}

/// Who chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Who {
    /// A person.
    Person,
    /// A rule of the run.
    Rule,
}

impl Who {
    /// The word used in files and on screen.
    pub fn word(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Rule => "rule",
        }
    }
}

/// A choice with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// What was chosen.
    pub choice: Choice,
    /// Why; empty when nobody said.
    #[serde(default)]
    pub reason: String,
    /// Place in the journal of the gate that it is about. With it a decision that comes too late, because somebody
    /// else decided meanwhile, is refused instead of being taken for the next gate.
    #[serde(default)]
    pub gate: Option<u64>,
}

impl Decision {
    /// A choice for whatever gate is open.
    pub fn new(choice: Choice, reason: impl Into<String>) -> Self {
        Self { choice, reason: reason.into(), gate: None }
    }
}

/// Why a choice is not possible now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// What can be chosen at the open gate, in the order in which it is offered; for `set` with whatever value is possible.
/// Empty when no gate is open.
pub fn choices(state: &State) -> Vec<Choice> {
    let Some(gate) = &state.gate else { return Vec::new() };
    let parameter = Parameter::Concurrency;
    let free = (1..=Setting::MAX_CONCURRENCY)
        .find(|value| state.steps.iter().all(|step| step.step.setting.value(parameter) != *value));
    let set = Choice::Set { parameter, value: free.unwrap_or(1) };
    let first = if gate.cause == GateCause::StepDone { Choice::Next } else { Choice::Continue };
    let offered =
        [Choice::Next, Choice::Continue, Choice::Repeat, Choice::Skip, set, Choice::Auto, Choice::Stop];
    let rest = offered.into_iter().filter(|choice| *choice != first);
    std::iter::once(first)
        .chain(rest)
        .filter(|choice| check(state, &Decision::new(*choice, "")).is_ok())
        .collect()
}

/// The step that a decision is about, if it is possible in this state.
pub fn check(state: &State, decision: &Decision) -> Result<usize, Refusal> {
    let refuse = |why: String| Err(Refusal(why));
    if state.end.is_some() || state.ending == Ending::Now {
        return refuse("the run is over".to_owned());
    }
    if let Some(meant) = decision.gate
        && state.gate.as_ref().is_none_or(|gate| gate.seq != meant)
    {
        return refuse("that gate is closed: somebody decided before".to_owned());
    }
    let word = decision.choice.word();
    match decision.choice {
        Choice::Pause if state.gate.is_some() => refuse("the run waits at a gate already".to_owned()),
        Choice::Pause if state.paused => refuse("the run is about to pause".to_owned()),
        Choice::Auto if state.auto => refuse("the run goes on without gates already".to_owned()),
        Choice::AutoOff if !state.auto => {
            refuse("the run waits at a gate after each step already".to_owned())
        }
        Choice::StopAfterPass if state.ending == Ending::AfterPass => {
            refuse("the run ends after this pass already".to_owned())
        }
        Choice::Note if decision.reason.trim().is_empty() => refuse("a note needs a text".to_owned()),
        Choice::StopAfterPass if state.gate.is_some() => {
            refuse("no pass goes on: stop ends the run here".to_owned())
        }
        Choice::Pause
        | Choice::Auto
        | Choice::AutoOff
        | Choice::Stop
        | Choice::StopAfterPass
        | Choice::Note => Ok(state.current),
        Choice::Next | Choice::Repeat | Choice::Skip | Choice::Continue | Choice::Set { .. } => {
            let Some(gate) = &state.gate else {
                return refuse(format!("{word} is a decision at a gate, and none is open: pause opens one"));
            };
            at_gate(state, gate, decision.choice)
        }
    }
}

fn at_gate(state: &State, gate: &OpenGate, choice: Choice) -> Result<usize, Refusal> {
    let refuse = |why: String| Err(Refusal(why));
    let step = gate.step;
    let unfinished = state.unfinished().is_some();
    let goes_on = state.steps.get(step).is_some_and(|step| !step.is_done() && !step.left);
    match choice {
        Choice::Continue if gate.cause == GateCause::StepDone => {
            refuse("the step is done: next goes on, repeat takes its passes once more".to_owned())
        }
        Choice::Repeat if goes_on && !unfinished => {
            refuse("no pass was cut and the step is not done: continue takes its passes".to_owned())
        }
        Choice::Skip => match position::next_step(state) {
            Some(skipped) => Ok(skipped),
            None => refuse("no step is left to skip: next ends the run".to_owned()),
        },
        Choice::Set { parameter, value } => new_value(state, parameter, value).map(|()| step),
        _ => Ok(step),
    }
}

/// Whether a step with this value can be opened.
fn new_value(state: &State, parameter: Parameter, value: u32) -> Result<(), Refusal> {
    let word = parameter.word();
    if value == 0 || value > Setting::MAX_CONCURRENCY {
        return Err(Refusal(format!(
            "{word} {value} is out of bounds; allowed: 1 to {}",
            Setting::MAX_CONCURRENCY
        )));
    }
    if let Some((index, same)) =
        state.steps.iter().enumerate().find(|(_, step)| step.step.setting.value(parameter) == value)
    {
        let number = index + 1;
        let what = match same.passes.is_empty() {
            // It is taken after all.
            true if same.is_decided_away() => return Ok(()),
            true => "which is still to come",
            false => "which was taken: repeat takes a step's passes once more at its gate",
        };
        return Err(Refusal(format!("{word} {value} is step {number}, {what}")));
    }
    if let Some(started) = &state.started
        && usize::try_from(value).is_ok_and(|value| value > started.documents)
    {
        let documents = started.documents;
        return Err(Refusal(format!(
            "{word} {value} is more than the {documents} documents: so many are never in flight"
        )));
    }
    Ok(())
}
