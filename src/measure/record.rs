//! The record of one request: times, counts and verdict, as the journal keeps it. Texts are kept apart, in `outputs/`.

use std::time::Duration;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::load::{Capture, Phase};
use crate::engine::Stamp;
use crate::engine::openai::{self, Finish};
use crate::protocol::{FailureReason, QualityRule, Reference};
use crate::quality::{self, Judgement, Output, Verdict};

/// Times of one request. Stamps are nanoseconds of the machine's monotonic clock; `None` never happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// When the load wanted it sent.
    pub scheduled: Stamp,
    /// Just before it was handed to the connection.
    pub sent: Option<Stamp>,
    /// First event of any kind.
    pub first_event: Option<Stamp>,
    /// First event with real output.
    pub first_token: Option<Stamp>,
    /// First output that is not reasoning.
    pub first_answer: Option<Stamp>,
    /// Last event with real output.
    pub last_token: Option<Stamp>,
    /// End of the response, or of the attempt.
    pub end: Stamp,
}

/// Who counted the tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TokenSource {
    /// The engine's `usage`.
    Engine,
    /// Nobody: the counts are unknown.
    Unknown,
}

/// Token counts of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Who counted.
    pub source: TokenSource,
    /// Prompt tokens, cached ones included.
    #[serde(rename = "in")]
    pub input: Option<u64>,
    /// Output tokens, reasoning included.
    pub out: Option<u64>,
    /// Prompt tokens that came from the engine's prefix cache.
    pub cached: Option<u64>,
    /// Output tokens spent on reasoning.
    pub reasoning: Option<u64>,
    /// Output tokens that the first event with output carried, from an engine that counts in each event.
    pub first_event: Option<u64>,
}

/// The engine's own times of one request, in seconds. Kept apart from the client's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EngineTimes {
    /// In the engine's queue.
    pub wait_s: Option<f64>,
    /// From scheduling to the first token.
    pub prefill_s: Option<f64>,
    /// From the first token to the last.
    pub decode_s: Option<f64>,
}

/// One request: what the journal keeps of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// Id of the document.
    pub document: String,
    /// Phase in which it was sent.
    pub phase: Phase,
    /// When things happened.
    pub times: Times,
    /// Seconds that opening a connection took, when one was opened for it; not part of any other time.
    pub connected_in_s: Option<f64>,
    /// Sent once more, because a kept connection turned out to be closed.
    pub resent: bool,
    /// HTTP status; `None` without a response.
    pub status: Option<u16>,
    /// Token counts.
    pub tokens: Tokens,
    /// Events with output. An event is not a token.
    pub events: u32,
    /// Reads that brought output.
    pub reads: u32,
    /// Longest time between two reads that brought output, in seconds; `None` below two reads.
    pub longest_gap_s: Option<f64>,
    /// The engine's own times, where it reports them per request.
    pub engine: Option<EngineTimes>,
    /// Why the engine ended the answer.
    pub finish: Option<Finish>,
    /// Accepted, or the one reason why not.
    pub verdict: Verdict,
    /// Repairs that the output needed to be read.
    pub repairs: usize,
    /// Outcome per checked field, in the rule's order.
    pub fields: IndexMap<String, FieldVerdict>,
    /// All that the engine said when it refused the probe; kept of no other request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
}

/// A field's outcome, without its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FieldVerdict {
    /// As expected.
    Match,
    /// Another value.
    Wrong,
    /// Absent though a value was expected.
    Missing,
    /// There, but not readable as what it should be.
    Unreadable,
    /// No expected value to compare with.
    NotChecked,
}

impl From<&quality::Outcome> for FieldVerdict {
    fn from(outcome: &quality::Outcome) -> Self {
        match outcome {
            quality::Outcome::Match => Self::Match,
            quality::Outcome::Wrong { .. } => Self::Wrong,
            quality::Outcome::Missing { .. } => Self::Missing,
            quality::Outcome::Unreadable { .. } => Self::Unreadable,
            quality::Outcome::NotChecked => Self::NotChecked,
        }
    }
}

impl Capture {
    /// The text that is judged: the content, else the arguments of a tool call, else a refusal.
    pub fn output_text(&self) -> &str {
        [self.answer.text(), self.answer.tool_calls(), self.answer.refusal()]
            .into_iter()
            .find(|text| !text.is_empty())
            .unwrap_or_default()
    }

    /// Why there is no answer to judge: the transport failed, the stream did, or the run was stopped before.
    pub fn failure(&self) -> Option<(FailureReason, &str)> {
        if let Some(failure) = &self.exchange.failure {
            return Some((failure.reason, &failure.text));
        }
        match self.answer.outcome() {
            Some(openai::Outcome::Complete { .. }) => None,
            Some(openai::Outcome::Failed { reason, text }) => Some((*reason, text)),
            None if self.cancelled => {
                Some((FailureReason::Cancelled, "the run was stopped while it was in flight"))
            }
            None => Some((FailureReason::Engine, "the answer did not end")),
        }
    }

    /// Judges the output, or carries the failure of the request over.
    pub fn judge(&self, rule: &QualityRule, reference: &Reference) -> Judgement {
        let truncated = self.answer.finish() == Some(&Finish::Length);
        let output = Output { text: self.output_text(), truncated };
        match self.failure() {
            Some((reason, detail)) => Judgement::failed(reason, detail),
            None => quality::judge(rule, reference, &output),
        }
    }
}

impl RequestRecord {
    /// The record of a judged request.
    pub fn new(document: &str, capture: &Capture, judgement: &Judgement) -> Self {
        let Capture { exchange, answer, .. } = capture;
        let times = answer.times();
        let usage = answer.usage();
        Self {
            document: document.to_owned(),
            phase: capture.phase,
            times: Times {
                scheduled: capture.scheduled,
                sent: exchange.sent,
                first_event: times.first_event,
                first_token: times.first_token,
                first_answer: times.first_answer,
                last_token: times.last_token,
                end: times.end.unwrap_or(capture.ended),
            },
            connected_in_s: exchange.connected_in.map(|d| d.as_secs_f64()),
            resent: exchange.resent,
            status: exchange.status,
            tokens: Tokens {
                source: if usage.is_some() { TokenSource::Engine } else { TokenSource::Unknown },
                input: usage.and_then(|u| u.prompt),
                out: usage.and_then(|u| u.completion),
                cached: usage.and_then(|u| u.cached),
                reasoning: usage.and_then(|u| u.reasoning),
                first_event: answer.tokens_in_first_event(),
            },
            events: answer.output_events(),
            reads: u32::try_from(answer.reads().len()).unwrap_or(u32::MAX),
            longest_gap_s: answer.gaps().max().map(|gap| gap.as_secs_f64()),
            engine: answer.engine_times().map(|times| EngineTimes {
                wait_s: times.wait.map(|d| d.as_secs_f64()),
                prefill_s: times.prefill.map(|d| d.as_secs_f64()),
                decode_s: times.decode.map(|d| d.as_secs_f64()),
            }),
            finish: answer.finish().cloned(),
            verdict: judgement.verdict.clone(),
            repairs: judgement.repairs.len(),
            fields: judgement.fields.iter().map(|f| (f.field.clone(), (&f.outcome).into())).collect(),
            said: exchange
                .failure
                .as_ref()
                .filter(|failure| capture.phase == Phase::Probe && !failure.whole.is_empty())
                .map(|failure| failure.whole.clone()),
        }
    }

    /// Whether the answer was accepted.
    pub fn accepted(&self) -> bool {
        self.verdict == Verdict::Accepted
    }

    /// The failure reason of a request that was not accepted.
    pub fn failure(&self) -> Option<FailureReason> {
        match &self.verdict {
            Verdict::Accepted => None,
            Verdict::Failed { reason, .. } => Some(*reason),
        }
    }

    /// Whether an answer came back whole or truncated. Times of requests that failed before are no times of answers
    /// and stay out of every distribution.
    pub fn answered(&self) -> bool {
        matches!(
            self.failure(),
            None | Some(FailureReason::Quality | FailureReason::Format | FailureReason::Truncated)
        )
    }

    /// `first_token − sent`.
    pub fn time_to_first_token(&self) -> Option<Duration> {
        Some(self.times.first_token?.since(self.times.sent?))
    }

    /// `last_token − sent`.
    pub fn whole_answer(&self) -> Option<Duration> {
        Some(self.times.last_token?.since(self.times.sent?))
    }

    /// `sent − scheduled`, without the time that opening a connection took.
    pub fn client_wait(&self) -> Option<Duration> {
        let opening = self.connected_in_s.map_or(Duration::ZERO, Duration::from_secs_f64);
        Some(self.times.sent?.since(self.times.scheduled).saturating_sub(opening))
    }

    /// `(last_token − first_token) / (output tokens − tokens of the first event)`, in seconds. Where the engine does
    /// not count in each event, one token is assumed in the first. `None` below two tokens.
    pub fn time_per_output_token(&self) -> Option<f64> {
        let after_first = self.tokens.out?.checked_sub(self.tokens.first_event.unwrap_or(1))?;
        let span = self.times.last_token?.since(self.times.first_token?);
        (after_first > 0).then(|| span.as_secs_f64() / after_first as f64)
    }
}
