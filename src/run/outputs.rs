//! The texts of a pass: one line per document, as aforo writes it and as other files have it.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::batch;
use crate::engine::openai::Finish;
use crate::measure::{Capture, Tokens};
use crate::protocol::FailureReason;
use crate::quality::{FieldOutcome, Judgement, Repair, Verdict};

/// One line of `outputs/*.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutputLine {
    /// Id of the document.
    pub document: String,
    /// What is judged: the content, else the arguments of a tool call, else a refusal.
    pub text: String,
    /// Reasoning that came before it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// Why the engine ended the answer.
    pub finish: Option<Finish>,
    /// Why there is no answer to judge; `None` when there is one.
    pub failure: Option<RequestFailure>,
    /// The values that were read from the text.
    pub parsed: Option<Map<String, Value>>,
    /// Repairs that reading needed.
    pub repairs: Vec<Repair>,
    /// Accepted, or the one reason why not.
    pub verdict: Verdict,
    /// Outcome per field, with the values that differ.
    pub fields: Vec<FieldOutcome>,
    /// Token counts.
    pub tokens: Tokens,
    /// Seconds from `sent` to the first token.
    pub first_token_s: Option<f64>,
    /// Seconds from `sent` to the last token.
    pub whole_answer_s: Option<f64>,
    /// Reads that brought output: microseconds since `sent`, and events in the read.
    pub reads: Vec<(u64, u32)>,
}

/// Why a request has no answer to judge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestFailure {
    /// The reason.
    pub reason: FailureReason,
    /// One line of what came back.
    pub text: String,
}

impl OutputLine {
    /// The line of a judged request.
    pub fn new(document: &str, capture: &Capture, judgement: Judgement, tokens: Tokens) -> Self {
        let sent = capture.exchange.sent.unwrap_or(capture.scheduled);
        let micros = |at: crate::engine::Stamp| u64::try_from(at.since(sent).as_micros()).unwrap_or(u64::MAX);
        let times = capture.answer.times();
        let seconds =
            |at: Option<crate::engine::Stamp>| Some(at?.since(capture.exchange.sent?).as_secs_f64());
        Self {
            document: document.to_owned(),
            text: capture.output_text().to_owned(),
            reasoning: capture.answer.reasoning().to_owned(),
            finish: capture.answer.finish().cloned(),
            failure: capture.failure().map(|(reason, text)| RequestFailure { reason, text: text.to_owned() }),
            parsed: judgement.parsed,
            repairs: judgement.repairs,
            verdict: judgement.verdict,
            fields: judgement.fields,
            tokens,
            first_token_s: seconds(times.first_token),
            whole_answer_s: seconds(times.last_token),
            reads: capture.answer.reads().iter().map(|read| (micros(read.at), read.events)).collect(),
        }
    }
}

/// An output as any of the known files has it, ready to be judged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadOutput {
    /// Id of the document.
    pub document: String,
    /// Text to be judged.
    pub text: String,
    /// Reasoning that came before it; empty when there was none or the file does not say.
    pub reasoning: String,
    /// Why the engine ended the answer, in the API's word; `None` when the file does not say.
    pub finish: Option<String>,
    /// Prompt and output tokens, when both are known.
    pub tokens: Option<(u64, u64)>,
    /// Why there is no answer to judge.
    pub failure: Option<RequestFailure>,
}

impl ReadOutput {
    /// Whether a token limit cut it.
    pub fn truncated(&self) -> bool {
        self.finish.as_deref() == Some("length")
    }
}

/// An outputs file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file itself.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// One line of it.
    #[error("{}:{line}: {why}; a line is {{\"document\": id, \"text\": …}} or the OpenAI batch form with \"custom_id\"", path.display())]
    Line {
        /// Which file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
}

/// Reads an outputs file of aforo or of the `OpenAI` batch format, line by line. A last line without its end is
/// passed over: its writer was interrupted, or is still writing.
pub fn read(path: &Path) -> Result<Vec<ReadOutput>, ReadError> {
    let fail = |source| ReadError::File { path: path.to_owned(), source };
    let mut file = BufReader::new(File::open(path).map_err(fail)?);
    let (mut outputs, mut bytes, mut line) = (Vec::new(), Vec::new(), 0);
    while file.read_until(b'\n', &mut bytes).map_err(fail)? > 0 {
        line += 1;
        if !bytes.trim_ascii().is_empty() {
            let read = match serde_json::from_slice::<Value>(&bytes) {
                Err(error) if error.is_eof() && !bytes.ends_with(b"\n") => break,
                Err(error) => Err(error.to_string()),
                Ok(value) => output_of(&value),
            };
            outputs.push(read.map_err(|why| ReadError::Line { path: path.to_owned(), line, why })?);
        }
        bytes.clear();
    }
    Ok(outputs)
}

fn output_of(value: &Value) -> Result<ReadOutput, String> {
    if value.get("custom_id").is_some() {
        return batch::read(value);
    }
    let id = ["document", "id"].iter().find_map(|key| value.get(key)).and_then(id_text);
    let text = value.get("text").or_else(|| value.get("output")).and_then(Value::as_str);
    let failure = value.get("failure").filter(|failure| !failure.is_null());
    let tokens = &value["tokens"];
    Ok(ReadOutput {
        document: id.ok_or("no \"document\"")?,
        text: text.ok_or("no \"text\"")?.to_owned(),
        reasoning: value["reasoning"].as_str().unwrap_or_default().to_owned(),
        finish: finish_word(value.get("finish").or_else(|| value.get("finish_reason"))),
        tokens: tokens["in"].as_u64().zip(tokens["out"].as_u64()),
        failure: failure
            .map(|failure| RequestFailure::deserialize(failure).map_err(|error| format!("failure: {error}")))
            .transpose()?,
    })
}

/// The API's word for what an outputs line says: one of aforo's own words, or a word of the API itself.
fn finish_word(value: Option<&Value>) -> Option<String> {
    let value = value?;
    match Finish::deserialize(value) {
        Ok(finish) => Some(finish.word().to_owned()),
        Err(_) => value.as_str().map(str::to_owned),
    }
}

/// The text of an id, which some files write as a number.
pub(super) fn id_text(value: &Value) -> Option<String> {
    match value {
        Value::String(id) => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    }
}
