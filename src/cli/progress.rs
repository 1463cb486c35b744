//! The lines that a run without a screen prints on standard error.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::print::say_aside;
use crate::engine::Stamp;
use crate::measure::Phase;
use crate::protocol::FailureReason;
use crate::results::row::{self, Row};
use crate::results::table::grouped;
use crate::run::cause::GateCause;
use crate::run::decision::{self, Choice};
use crate::run::event::{Event, Line, PassEnd, RunEnd};
use crate::run::position;
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

/// What an event has to say to the person.
fn told(state: &State, line: &Line) -> Option<String> {
    match &line.event {
        Event::EngineFound(engine) => {
            let name = engine.found.engine.as_deref().unwrap_or("an unknown engine");
            let metrics = match engine.found.metrics {
                Some(_) => "",
                None => " · no metrics page: its own counts are n/a",
            };
            let isolation = engine.isolation.word();
            Some(format!("{name} at {} · passes isolated by {isolation}{metrics}", engine.base_url))
        }
        Event::Caution { text } => Some(format!("caution: {text}")),
        Event::PhaseStarted { id, phase: Phase::Measurement, requests } => {
            let step = state.steps.get(id.step)?;
            Some(format!("{} · pass {} · {requests} documents", heading(state, id.step, step), id.pass))
        }
        Event::PassEnded { id, .. } => {
            let rows = row::rows(state);
            let row = rows.iter().find(|row| row.step_index == id.step && row.pass.number == id.pass)?;
            Some(format!("  {}", summary(row)))
        }
        Event::GateOpened { step, cause } => Some(gate(state, *step, cause)),
        Event::Decision { step, choice, who, reason } => {
            let what = match choice {
                Choice::Set { parameter, value } => format!("set {} {value}", parameter.word()),
                Choice::Skip => {
                    let skipped = state.steps.get(*step).map_or("", |step| step.step.label.as_str());
                    format!("skip {skipped}")
                }
                other => other.word().to_owned(),
            };
            let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            Some(format!("{what} ({}){reason}", who.word()))
        }
        Event::PassContinued { id, requests, .. } => {
            Some(format!("step {} · pass {} goes on · {requests} documents are left", id.step + 1, id.pass))
        }
        Event::ClockNoted { id, drift, .. } => {
            Some(format!("caution: {drift} in step {} pass {}", id.step + 1, id.pass))
        }
        Event::RunResumed(_) => Some("resumed".to_owned()),
        Event::RunEnded { end: RunEnd::Stopped } => Some("stopped".to_owned()),
        _ => None,
    }
}

/// A gate: why it opened, and while it is open what comes next and what can be chosen. One that a rule has closed
/// already asks nobody.
fn gate(state: &State, step: usize, cause: &GateCause) -> String {
    let why = format!("GATE at step {}: {cause}", step + 1);
    if state.gate.is_none() {
        return why;
    }
    let next = position::next_step(state).and_then(|next| state.steps.get(next));
    let next = next.map_or("the end of the run", |step| step.step.label.as_str());
    let choices: Vec<_> = decision::choices(state)
        .into_iter()
        .map(|choice| if let Choice::Set { .. } = choice { "set VALUE" } else { choice.word() })
        .collect();
    format!("{why} · the next step is {next}\n  {}?", choices.join(" · "))
}

/// Where a run is, for somebody who has just come.
pub(super) fn standing(state: &State) -> String {
    let run = state.started.as_ref().map_or("a run that has not begun", |started| started.run.as_str());
    let heading = state.steps.get(state.current).map(|step| heading(state, state.current, step));
    let pass = state.steps.get(state.current).and_then(|step| step.passes.last()).map(|pass| {
        let number = pass.number;
        match (pass.planned, pass.requests.len()) {
            (0, _) => format!(" · pass {number} · warm-up"),
            (planned, ended) => format!(" · pass {number} · {ended} of {planned} requests ended"),
        }
    });
    let cautions = state.cautions.iter().fold(String::new(), |all, text| format!("{all}\ncaution: {text}"));
    let gate = state.gate.as_ref().map(|open| format!("\n{}", gate(state, open.step, &open.cause)));
    let parts = [heading.map(|heading| format!(" · {heading}")), pass, Some(cautions), gate];
    std::iter::once(run.to_owned()).chain(parts.into_iter().flatten()).collect()
}

fn heading(state: &State, index: usize, step: &StepState) -> String {
    format!("step {}/{} · {}", index + 1, state.steps.len(), step.step.label)
}

fn summary(row: &Row<'_>) -> String {
    let share =
        row.accepted_share.map_or_else(|| "n/a".to_owned(), |share| format!("{:.1} %", share * 100.0));
    let rate =
        row.accepted_per_hour().map_or_else(|| "n/a".to_owned(), |rate| grouped(&format!("{rate:.0}")));
    let first = row.first_token(50).value().map_or_else(|| "n/a".to_owned(), |s| format!("{s:.3} s"));
    format!(
        "{} · accepted {} of {} ({share}) · {rate} accepted per hour · first token p50 {first}{}",
        row.status.word(),
        row.accepted,
        row.documents,
        failures(|reason| row.failed(reason)),
    )
}

fn failures(count: impl Fn(FailureReason) -> u64) -> String {
    let parts: Vec<_> = FailureReason::ALL
        .into_iter()
        .filter(|reason| count(*reason) > 0)
        .map(|reason| format!("{reason} {}", count(reason)))
        .collect();
    if parts.is_empty() { String::new() } else { format!(" · failed: {}", parts.join(", ")) }
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
