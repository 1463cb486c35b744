//! Was it right: parse an output, compare its fields with the references, give a verdict.
//!
//! [`judge`] reads the raw text by the protocol's rule and compares each field. What had to be set right on the way is
//! listed as [`Repair`]s, so that an accepted output that is not what was asked for still shows as repaired. A text
//! with two readings is refused rather than guessed.

mod answer;
pub mod choice;
pub mod date;
pub mod decimal;
mod field;
mod fold;
pub mod json;
mod refusal;
mod repair;
mod shape;
mod think;

pub use field::{Outcome, check_reference};
pub use refusal::Refusal;
pub use repair::Repair;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::protocol::{Accept, FailureReason, QualityRule, Reference};
use refusal::clip;

/// Longest detail of a failure, in characters.
const DETAIL: usize = 200;
/// Longest value quoted in a detail, in characters.
const QUOTED: usize = 60;

/// What an engine gave back for one document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output<'a> {
    /// The raw text.
    pub text: &'a str,
    /// Whether it was cut at a token limit (finish reason `length`).
    pub truncated: bool,
}

/// The judgement of one output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// Accepted, or why not.
    pub verdict: Verdict,
    /// The object that holds the fields, when the output could be read.
    pub parsed: Option<Map<String, Value>>,
    /// What was set right to read it; any at all makes the output a repaired one.
    pub repairs: Vec<Repair>,
    /// One entry per field of the rule, in its order; empty when the output could not be read.
    pub fields: Vec<FieldOutcome>,
}

/// Accepted, or one failure reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every checked field matches, and at least one was checked.
    Accepted,
    /// Anything else.
    Failed {
        /// The reason.
        reason: FailureReason,
        /// One sentence, at most 200 characters; it may quote the output.
        detail: String,
    },
}

/// What became of one field of the rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FieldOutcome {
    /// The field's name.
    pub field: String,
    /// What became of it.
    pub outcome: Outcome,
}

/// Judges one output by the rule and the document's reference.
///
/// A truncated output fails as truncated whatever it holds. An output that cannot be read, or that has none of the
/// rule's fields (`{}`), fails by its format.
#[must_use]
pub fn judge(rule: &QualityRule, reference: &Reference, output: &Output<'_>) -> Judgement {
    let (parsed, repairs, fields, verdict) = match answer::read(rule, output.text) {
        Ok(answer) => {
            let fields = compare(rule, reference, &answer.values);
            let verdict = verdict(rule.accept, &fields);
            (Some(answer.values), answer.repairs, fields, verdict)
        }
        Err(why) => (None, Vec::new(), Vec::new(), failed(FailureReason::Format, &why.to_string())),
    };
    let verdict = if output.truncated {
        failed(FailureReason::Truncated, "the output was cut at the token limit")
    } else {
        verdict
    };
    Judgement { verdict, parsed, repairs, fields }
}

impl Judgement {
    /// The judgement of a request that brought no output to judge.
    pub fn failed(reason: FailureReason, detail: &str) -> Self {
        Self { verdict: failed(reason, detail), parsed: None, repairs: Vec::new(), fields: Vec::new() }
    }
}

fn compare(rule: &QualityRule, reference: &Reference, answered: &Map<String, Value>) -> Vec<FieldOutcome> {
    rule.fields
        .iter()
        .map(|(name, field)| FieldOutcome {
            field: name.clone(),
            outcome: field::outcome(field, reference.0.get(name), answered.get(name)),
        })
        .collect()
}

fn verdict(accept: Accept, fields: &[FieldOutcome]) -> Verdict {
    let Accept::AllFields = accept;
    if fields.iter().all(|field| field.outcome == Outcome::NotChecked) {
        return failed(FailureReason::Quality, "the document has no reference for any field");
    }
    let wrong: Vec<String> = fields.iter().filter_map(complaint).collect();
    match wrong.as_slice() {
        [] => Verdict::Accepted,
        [one] => failed(FailureReason::Quality, one),
        [first, others @ ..] => {
            failed(FailureReason::Quality, &format!("{first}; {} more wrong", others.len()))
        }
    }
}

/// What is wrong with a field, if anything.
fn complaint(field: &FieldOutcome) -> Option<String> {
    let name = clip(&field.field, QUOTED);
    let said = match &field.outcome {
        Outcome::Match | Outcome::NotChecked => return None,
        Outcome::Wrong { expected, answered } => {
            format!("expected {}, answered {}", quoted(expected), quoted(answered))
        }
        Outcome::Missing { expected } => format!("expected {}, not answered", quoted(expected)),
        Outcome::Unreadable { answered, why } => format!("{} cannot be compared: {why}", quoted(answered)),
    };
    Some(format!("{name}: {said}"))
}

fn quoted(value: &Value) -> String {
    clip(&value.to_string(), QUOTED)
}

fn failed(reason: FailureReason, detail: &str) -> Verdict {
    Verdict::Failed { reason, detail: clip(detail, DETAIL) }
}
