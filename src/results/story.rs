//! A run in words: what each event, each gate and each pass has to say to a person.

use super::row::{self, Row};
use super::table::grouped;
use crate::measure::Phase;
use crate::protocol::FailureReason;
use crate::run::cause::GateCause;
use crate::run::decision::{self, Choice};
use crate::run::event::{Event, Line, RunEnd};
use crate::run::position;
use crate::run::state::{State, StepState};

/// What an event has to say to the person.
pub fn told(state: &State, line: &Line) -> Option<String> {
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
pub fn gate(state: &State, step: usize, cause: &GateCause) -> String {
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
pub fn standing(state: &State) -> String {
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

/// A step by its number and label.
pub fn heading(state: &State, index: usize, step: &StepState) -> String {
    format!("step {}/{} · {}", index + 1, state.steps.len(), step.step.label)
}

/// A pass in one line.
pub fn summary(row: &Row<'_>) -> String {
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

/// Failures by reason, those that there are; empty when there are none.
pub fn failures(count: impl Fn(FailureReason) -> u64) -> String {
    let parts: Vec<_> = FailureReason::ALL
        .into_iter()
        .filter(|reason| count(*reason) > 0)
        .map(|reason| format!("{reason} {}", count(reason)))
        .collect();
    if parts.is_empty() { String::new() } else { format!(" · failed: {}", parts.join(", ")) }
}
