//! The numbers of a run's steps and of the pass that goes on, ready to be shown. Everything here is a fold of the run's
//! state; nothing missing is 0.

use crate::protocol::{DeadlineFigure, FailureReason};
use crate::results::row::{self, PassStatus, Row};
use crate::results::stats::{Percentile, Spread};
use crate::results::step::{self, Standing};
use crate::run::state::State;

/// What is shown of a run besides its state.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// One line per step, in the order of the plan and then of the decisions that opened them.
    pub steps: Vec<StepFigures>,
    /// The last pass of the current step.
    pub pass: Option<PassFigures>,
}

/// A step in one line.
#[derive(Debug, Clone)]
pub struct StepFigures {
    /// Its label.
    pub label: String,
    /// How far it is.
    pub progress: Progress,
    /// Complete passes.
    pub complete: usize,
    /// Complete passes that are wanted.
    pub wanted: u32,
    /// Accepted of the documents, a share.
    pub accepted: Option<Spread>,
    /// Accepted outputs per hour.
    pub per_hour: Option<Spread>,
    /// First token, 90th percentile, in seconds.
    pub first_token: Option<Spread>,
    /// Whether it may be ranked.
    pub standing: Standing,
}

/// How far a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It is taken now, or the run waits at its gate.
    Current,
    /// It was taken.
    Taken,
    /// A decision left it out.
    LeftOut,
    /// It is still to come.
    ToCome,
}

/// A pass while it goes on, and after.
#[derive(Debug, Clone)]
pub struct PassFigures {
    /// Number in its step.
    pub number: u32,
    /// Attempts at it.
    pub attempts: u32,
    /// How it stands.
    pub status: PassStatus,
    /// Requests that the measurement will have sent; 0 before it began.
    pub planned: usize,
    /// Those that ended.
    pub ended: usize,
    /// Accepted outputs.
    pub accepted: u64,
    /// Documents of the corpus.
    pub documents: usize,
    /// Failures by reason, those that there are.
    pub failed: Vec<(FailureReason, u64)>,
    /// Distinct documents with an output.
    pub ids: u64,
    /// Outputs beyond the first of a document.
    pub duplicates: u64,
    /// Accepted outputs per hour; of what ended so far, while it goes on.
    pub per_hour: Option<f64>,
    /// Seconds until the last request has ended, if the rest takes as long as this attempt did so far.
    pub seconds_left: Option<f64>,
    /// First token in seconds: 50th, 90th and 95th percentile.
    pub first_token: [Percentile; 3],
    /// Whole answer likewise.
    pub whole_answer: [Percentile; 3],
    /// Deadlines: what is bounded, by how many seconds, and whether it is kept.
    pub deadlines: Vec<DeadlineState>,
    /// How passes are kept apart in the prefix cache.
    pub isolation: Option<&'static str>,
    /// Share of prompt tokens that came from the cache.
    pub hit_rate: Option<f64>,
}

/// A deadline and whether it is kept.
#[derive(Debug, Clone, Copy)]
pub struct DeadlineState {
    /// What is bounded.
    pub figure: DeadlineFigure,
    /// At this percentile.
    pub percentile: u8,
    /// By this many seconds.
    pub limit_s: f64,
    /// Whether it is kept; `None` when that is not known.
    pub kept: Option<bool>,
}

/// The percentiles that are shown.
pub const PERCENTILES: [u8; 3] = [50, 90, 95];

impl Figures {
    /// The figures of a state. It takes time that grows with the requests: not for every frame.
    pub fn of(state: &State) -> Self {
        let rows = row::rows(state);
        let steps = step::summaries(state, &rows);
        let steps = state.steps.iter().zip(&steps).enumerate().map(|(index, (taken, summary))| StepFigures {
            label: taken.step.label.clone(),
            progress: match () {
                () if taken.is_decided_away() && taken.passes.is_empty() => Progress::LeftOut,
                () if index == state.current && state.end.is_none() => Progress::Current,
                () if taken.passes.is_empty() => Progress::ToCome,
                () => Progress::Taken,
            },
            complete: summary.complete,
            wanted: taken.wanted,
            accepted: summary.spread(|row| row.accepted_share),
            per_hour: summary.timing(Row::accepted_per_hour),
            first_token: summary.timing(|row| row.first_token(90).value()),
            standing: summary.standing,
        });
        let current = rows.iter().rev().find(|row| row.step_index == state.current);
        Self { steps: steps.collect(), pass: current.map(PassFigures::of) }
    }
}

impl PassFigures {
    fn of(row: &Row<'_>) -> Self {
        let failed = FailureReason::ALL.map(|reason| (reason, row.failed(reason)));
        Self {
            number: row.pass.number,
            attempts: row.pass.attempts,
            status: row.status,
            planned: row.pass.planned,
            ended: row.pass.requests.len(),
            accepted: row.accepted,
            documents: row.documents,
            failed: failed.into_iter().filter(|(_, count)| *count > 0).collect(),
            ids: row.ids_recovered,
            duplicates: row.duplicates(),
            per_hour: row.accepted_per_hour().or_else(|| so_far(row)),
            seconds_left: seconds_left(row),
            first_token: PERCENTILES.map(|percent| row.first_token.percentile(percent)),
            whole_answer: PERCENTILES.map(|percent| row.whole_answer.percentile(percent)),
            deadlines: row
                .deadlines
                .iter()
                .map(|kept| DeadlineState {
                    figure: kept.deadline.figure,
                    percentile: kept.deadline.percentile,
                    limit_s: kept.deadline.limit.as_secs_f64(),
                    kept: kept.kept,
                })
                .collect(),
            isolation: row.isolation,
            hit_rate: row.hit_rate(),
        }
    }
}

/// Seconds from the first request of the last attempt to the last end in it, and how many requests ended.
fn span(row: &Row<'_>) -> Option<(f64, usize)> {
    let attempt = row.pass.by_attempt().last()?;
    let first = attempt.iter().filter_map(|request| request.times.sent).min()?;
    let last = attempt.iter().map(|request| request.times.end).max()?;
    let seconds = last.since(first).as_secs_f64();
    (seconds > 0.0).then_some((seconds, attempt.len()))
}

/// The rate of a pass that goes on; one that was resumed has none.
fn so_far(row: &Row<'_>) -> Option<f64> {
    let (seconds, _) = span(row).filter(|_| row.status == PassStatus::Running && !row.resumed())?;
    Some(row.accepted as f64 * 3600.0 / seconds)
}

fn seconds_left(row: &Row<'_>) -> Option<f64> {
    let (seconds, ended) = span(row)?;
    Some(row.pass.planned.saturating_sub(row.pass.requests.len()) as f64 * seconds / ended as f64)
}
