//! One row per pass: everything that a pass says, computed from the fold.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::stats::{Percentile, Sample};
use crate::engine::clock::Drift;
use crate::measure::{RequestRecord, TokenSource};
use crate::protocol::{Deadline, DeadlineFigure, FailureReason};
use crate::run::cause::CutCause;
use crate::run::event::{PassEnd, RunStarted};
use crate::run::plan::Step;
use crate::run::scrape::EngineFigures;
use crate::run::state::{PassState, State, StepState};

/// How far over its own shared prompt a pass's hit rate may be before it contradicts the isolation. The share is
/// counted in bytes and the rate in tokens and whole cache blocks, so that they agree only roughly.
const HIT_RATE_MARGIN: f64 = 0.10;

/// Minor version of the journal since which runners compare the clocks over each phase.
const COMPARES_CLOCKS: u32 = 1;

/// State of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassStatus {
    /// It goes on.
    Running,
    /// Every document was sent and ended.
    Complete,
    /// The run was stopped in it.
    Stopped,
    /// Something cut it.
    Cut,
    /// The run ended or broke off without ending it.
    Interrupted,
}

impl PassStatus {
    /// The word used in files and on screen.
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Stopped => "stopped",
            Self::Cut => "cut",
            Self::Interrupted => "interrupted",
        }
    }
}

/// A deadline and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptDeadline {
    /// The deadline.
    pub deadline: Deadline,
    /// Whether it was kept; `None` when the sample does not carry the percentile.
    pub kept: Option<bool>,
}

/// What one pass says. Only its measurement phase counts, but for `warm_up_*`.
#[derive(Debug, Clone)]
pub struct Row<'s> {
    /// The run, as its first event has it; `None` before that.
    pub started: Option<&'s RunStarted>,
    /// Index of the step, from 0.
    pub step_index: usize,
    /// The step.
    pub step: &'s Step,
    /// The pass.
    pub pass: &'s PassState,
    /// How it stands.
    pub status: PassStatus,
    /// Whether the simulated engine answered.
    pub simulated: bool,
    /// Documents of the corpus.
    pub documents: usize,
    /// Requests by failure reason.
    pub failed: HashMap<FailureReason, u64>,
    /// Accepted answers.
    pub accepted: u64,
    /// Accepted / documents; `None` before the pass is complete.
    pub accepted_share: Option<f64>,
    /// Whether the quality threshold was met; `None` before the pass is complete.
    pub quality_met: Option<bool>,
    /// Distinct documents with an output.
    pub ids_recovered: u64,
    /// Last `end` − first `sent`; `None` for a pass that was resumed, which has no undisturbed time.
    pub duration: Option<Duration>,
    /// Seconds to the first token, of requests with an answer.
    pub first_token: Sample,
    /// Seconds to the last token, of requests with an answer.
    pub whole_answer: Sample,
    /// Seconds per output token, of requests with an answer.
    pub per_token: Sample,
    /// Seconds between wanted and sent.
    pub client_wait: Sample,
    /// The deadlines of the protocol.
    pub deadlines: Vec<KeptDeadline>,
    /// How the pass is isolated; `None` before the engine was found.
    pub isolation: Option<&'static str>,
    /// Set when the measured hit rate is over what the pass can have by itself.
    pub cache_contradiction: bool,
}

/// The rows of all passes, in the order of the plan.
pub fn rows(state: &State) -> Vec<Row<'_>> {
    state
        .steps
        .iter()
        .enumerate()
        .flat_map(|(index, step)| step.passes.iter().map(move |pass| Row::new(state, index, step, pass)))
        .collect()
}

impl<'s> Row<'s> {
    fn new(state: &'s State, step_index: usize, step: &'s StepState, pass: &'s PassState) -> Self {
        let requests = &pass.requests;
        let answered = || requests.iter().filter(|request| request.answered());
        let seconds = |of: fn(&RequestRecord) -> Option<Duration>| {
            answered().filter_map(of).map(|time| time.as_secs_f64()).collect::<Sample>()
        };
        let documents = state.started.as_ref().map_or(0, |started| started.documents);
        let accepted = requests.iter().filter(|request| request.accepted()).count() as u64;
        let status = match pass.end {
            Some(PassEnd::Complete) => PassStatus::Complete,
            Some(PassEnd::Stopped) => PassStatus::Stopped,
            Some(PassEnd::Cut(_)) => PassStatus::Cut,
            None if state.end.is_some() || pass.interrupted => PassStatus::Interrupted,
            None => PassStatus::Running,
        };
        let complete = status == PassStatus::Complete && documents > 0;
        let accepted_share = complete.then(|| accepted as f64 / documents as f64);
        let mut failed = HashMap::new();
        for reason in requests.iter().filter_map(RequestRecord::failure) {
            *failed.entry(reason).or_default() += 1;
        }
        let mut recovered: Vec<_> = answered().map(|request| request.document.as_str()).collect();
        recovered.sort_unstable();
        recovered.dedup();
        let first_token = seconds(RequestRecord::time_to_first_token);
        let whole_answer = seconds(RequestRecord::whole_answer);
        let deadlines = state.started.iter().flat_map(|started| &started.deadlines);
        let deadlines =
            deadlines.map(|deadline| KeptDeadline { deadline: deadline.clone(), kept: kept(deadline, pass) });
        let mut row = Self {
            started: state.started.as_ref(),
            step_index,
            step: &step.step,
            pass,
            status,
            simulated: state.simulated(),
            documents,
            failed,
            accepted,
            accepted_share,
            quality_met: accepted_share.and_then(|share| Some(share >= state.started.as_ref()?.threshold)),
            ids_recovered: recovered.len() as u64,
            duration: duration(requests).filter(|_| !pass.was_resumed()),
            deadlines: deadlines.collect(),
            first_token,
            whole_answer,
            per_token: answered().filter_map(RequestRecord::time_per_output_token).collect(),
            client_wait: requests
                .iter()
                .filter_map(RequestRecord::client_wait)
                .map(|wait| wait.as_secs_f64())
                .collect(),
            isolation: pass.found.as_ref().map(|engine| engine.isolation.word()),
            cache_contradiction: false,
        };
        row.cache_contradiction = pass.found.as_ref().is_some_and(|engine| {
            let allowed = engine.isolation.expected_hit_rate(engine.shared_prompt_share);
            matches!((row.hit_rate(), allowed), (Some(rate), Some(allowed)) if rate > allowed + HIT_RATE_MARGIN)
        });
        row
    }

    /// A sum over what the clocks were seen to do, less than what is notable being nothing; `None` where they were not
    /// compared over the whole pass and nothing was seen.
    pub fn drift(&self, of: fn(&Drift) -> f64) -> Option<f64> {
        let compares = self.started.is_some_and(|started| started.schema.minor >= COMPARES_CLOCKS);
        // A phase in which the runner died has no reading at its end.
        let died = self.pass.earlier.iter().any(|attempt| attempt.end.is_none());
        let whole = compares && self.status == PassStatus::Complete && !died;
        let drifts = &self.pass.drifts;
        (whole || !drifts.is_empty()).then(|| drifts.iter().map(of).sum())
    }

    /// Requests of the measurement that ended: accepted plus each failure.
    pub fn sent(&self) -> u64 {
        self.pass.requests.len() as u64
    }

    /// Requests that ended with this reason.
    pub fn failed(&self, reason: FailureReason) -> u64 {
        self.failed.get(&reason).copied().unwrap_or_default()
    }

    /// Requests that were not accepted.
    pub fn failed_total(&self) -> u64 {
        self.failed.values().sum()
    }

    /// Outputs of documents that had one already.
    pub fn duplicates(&self) -> u64 {
        self.pass.requests.iter().filter(|request| request.answered()).count() as u64 - self.ids_recovered
    }

    /// Whether the pass was continued after something ended it early.
    pub fn resumed(&self) -> bool {
        self.pass.was_resumed()
    }

    /// What cut it, the last time that something did; `None` when nothing did.
    pub fn cut_by(&self) -> Option<&'s CutCause> {
        self.pass.cut()
    }

    /// Accepted outputs / duration, per hour; `None` before the pass is complete, and when it was resumed.
    pub fn accepted_per_hour(&self) -> Option<f64> {
        let hours = self.duration?.as_secs_f64() / 3600.0;
        (self.status == PassStatus::Complete && hours > 0.0).then(|| self.accepted as f64 / hours)
    }

    /// What the metrics page said.
    pub fn engine(&self) -> Option<&EngineFigures> {
        self.pass.engine.as_ref()
    }

    /// Share of prompt tokens that came from the prefix cache: by the metrics page, else by the requests' usage.
    pub fn hit_rate(&self) -> Option<f64> {
        self.engine().and_then(|engine| engine.delta.hit_rate()).or_else(|| {
            let (cached, prompt) = (self.tokens(|t| t.cached)?, self.tokens(|t| t.input)?);
            (prompt > 0).then(|| cached as f64 / prompt as f64)
        })
    }

    /// A sum of tokens over all requests with an answer; `None` when one of them has no count.
    pub fn tokens(&self, of: fn(&crate::measure::Tokens) -> Option<u64>) -> Option<u64> {
        let mut counted = self.pass.requests.iter().filter(|request| request.answered()).peekable();
        counted.peek()?;
        counted.map(|request| of(&request.tokens)).sum()
    }

    /// Who counted the tokens; `None` when nothing was answered.
    pub fn token_source(&self) -> Option<&'static str> {
        let mut answered = self.pass.requests.iter().filter(|request| request.answered()).peekable();
        answered.peek()?;
        let all_known = answered.all(|request| request.tokens.source == TokenSource::Engine);
        Some(if all_known { "engine" } else { "unknown" })
    }

    /// A percentile of the time to the first token.
    pub fn first_token(&self, percent: u8) -> Percentile {
        self.first_token.percentile(percent)
    }

    /// Whether all deadlines were kept; `None` when there is none or one cannot be told.
    pub fn deadlines_kept(&self) -> Option<bool> {
        if self.deadlines.is_empty() {
            return None;
        }
        if self.deadlines.iter().any(|deadline| deadline.kept == Some(false)) {
            return Some(false);
        }
        self.deadlines.iter().all(|deadline| deadline.kept == Some(true)).then_some(true)
    }
}

/// Whether a deadline was kept, over all requests: one without an answer has missed every deadline, unless its document
/// was asked again.
fn kept(deadline: &Deadline, pass: &PassState) -> Option<bool> {
    let time = |request: &RequestRecord| {
        let time = match deadline.figure {
            DeadlineFigure::FirstToken => request.time_to_first_token(),
            DeadlineFigure::WholeAnswer => request.whole_answer(),
        };
        time.filter(|_| request.answered()).map_or(f64::MAX, |time| time.as_secs_f64())
    };
    let mut later = HashSet::new();
    let mut times = Vec::with_capacity(pass.requests.len());
    for request in pass.requests.iter().rev() {
        if later.insert(request.document.as_str()) || request.answered() {
            times.push(time(request));
        }
    }
    let reached = times.into_iter().collect::<Sample>().percentile(deadline.percentile).value();
    reached.map(|seconds| seconds <= deadline.limit.as_secs_f64())
}

/// Last `end` − first `sent` of the measurement.
fn duration(requests: &[RequestRecord]) -> Option<Duration> {
    let first = requests.iter().filter_map(|request| request.times.sent).min()?;
    let last = requests.iter().map(|request| request.times.end).max()?;
    Some(last.since(first))
}
