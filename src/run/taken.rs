//! What was taken of a run: its steps and their passes, as the fold holds them.

use std::sync::Arc;

use super::cause::CutCause;
use super::event::{EngineFound, PassEnd};
use super::plan::Step;
use super::scrape::EngineFigures;
use crate::engine::clock::Drift;
use crate::measure::{Phase, RequestRecord};

/// A step and its passes.
#[derive(Debug, Clone, PartialEq)]
pub struct StepState {
    /// What was planned.
    pub step: Step,
    /// Passes begun, in order. Shared, so that a copy of the state is cheap however many requests it holds.
    pub passes: Vec<Arc<PassState>>,
    /// Complete passes that are wanted: its repetitions, and those of each time that it was repeated.
    pub wanted: u32,
    /// True when a decision left it out.
    pub skipped: bool,
    /// True when a decision went on to another step.
    pub left: bool,
}

/// How a pass that was cut goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Course {
    /// Nobody has decided; a pass that was not cut needs no decision.
    #[default]
    Open,
    /// It is to be completed.
    Continue,
    /// It stays as it is.
    GivenUp,
}

/// An attempt at a pass that was followed by another.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// How it ended; `None` when the runner died in it.
    pub end: Option<PassEnd>,
    /// Requests of the measurement that the pass had when it was over, those of the attempts before it included.
    pub requests: usize,
}

/// A pass.
#[derive(Debug, Clone, PartialEq)]
pub struct PassState {
    /// Number in its step, from 1.
    pub number: u32,
    /// Attempts at it: 1, and one for each time that it was continued.
    pub attempts: u32,
    /// The attempts before the last one.
    pub earlier: Vec<Attempt>,
    /// What answered when the last attempt began; `None` before anything was found.
    pub found: Option<Arc<EngineFound>>,
    /// Phase that runs or ran last.
    pub phase: Option<Phase>,
    /// Requests that the measurement will have sent, those of earlier attempts included.
    pub planned: usize,
    /// Requests of the warm-up: kept to be accounted for, excluded from every figure.
    pub warm_up: Vec<RequestRecord>,
    /// Requests of the measurement, in the order in which they ended.
    pub requests: Vec<RequestRecord>,
    /// Highest number of measurement requests in flight; `None` before the phase ended.
    pub in_flight_peak: Option<u32>,
    /// What the engine's metrics page said over the measurement; `None` for a pass that was continued, whose parts no
    /// reading spans.
    pub engine: Option<EngineFigures>,
    /// Sleep and steps of the wall clock that were seen in it.
    pub drifts: Vec<Drift>,
    /// How it goes on, when it was cut.
    pub course: Course,
    /// True when the runner ended in it without saying how, and began again.
    pub interrupted: bool,
    /// How it ended; `None` while it goes on, or when the run was interrupted in it.
    pub end: Option<PassEnd>,
}

impl StepState {
    pub(super) fn planned(step: Step) -> Self {
        Self { wanted: step.repetitions, step, passes: Vec::new(), skipped: false, left: false }
    }

    /// Whether it has as many complete passes as are wanted.
    pub fn is_done(&self) -> bool {
        let complete = self.passes.iter().filter(|pass| pass.is_complete()).count();
        complete >= usize::try_from(self.wanted).unwrap_or(usize::MAX)
    }

    /// Whether it is still to come: neither begun nor decided away.
    pub fn is_to_come(&self) -> bool {
        self.passes.is_empty() && !self.is_decided_away()
    }

    /// Whether a decision left it out, or went on to another step.
    pub fn is_decided_away(&self) -> bool {
        self.skipped || self.left
    }
}

impl PassState {
    pub(super) fn begun(number: u32, found: Option<Arc<EngineFound>>) -> Self {
        Self {
            number,
            attempts: 1,
            earlier: Vec::new(),
            found,
            phase: None,
            planned: 0,
            warm_up: Vec::new(),
            requests: Vec::new(),
            in_flight_peak: None,
            engine: None,
            drifts: Vec::new(),
            course: Course::Open,
            interrupted: false,
            end: None,
        }
    }

    pub(super) fn go_on(&mut self, attempt: u32, found: Option<Arc<EngineFound>>) {
        self.earlier.push(Attempt { end: self.end.take(), requests: self.requests.len() });
        (self.attempts, self.found) = (attempt, found);
        (self.engine, self.course, self.interrupted) = (None, Course::Open, false);
    }

    /// Whether every document was sent and ended.
    pub fn is_complete(&self) -> bool {
        self.end == Some(PassEnd::Complete)
    }

    /// Whether it was continued after something ended it early: its duration and its rates are then those of no
    /// undisturbed measurement.
    pub fn was_resumed(&self) -> bool {
        self.attempts > 1
    }

    /// What cut it, the last time that something did.
    pub fn cut(&self) -> Option<&CutCause> {
        let ends = self.earlier.iter().map(|attempt| &attempt.end).chain([&self.end]);
        ends.rev().find_map(|end| match end {
            Some(PassEnd::Cut(cause)) => Some(cause),
            _ => None,
        })
    }

    /// The requests of each attempt, in order.
    pub fn by_attempt(&self) -> impl Iterator<Item = &[RequestRecord]> {
        let ends = self.earlier.iter().map(|attempt| attempt.requests).chain([self.requests.len()]);
        ends.scan(0, |begin, end| {
            let requests = self.requests.get(*begin..end).unwrap_or_default();
            *begin = end;
            Some(requests)
        })
    }
}
