//! What is said over the control socket: one JSON object a line, in both directions.
//!
//! The server begins with `{"hello":{…}}`. After that a viewer may ask, and each request is answered by its id:
//!
//! | a viewer says | what it means |
//! |---|---|
//! | `{"id":7,"decide":{"choice":"next","reason":"…","gate":12}}` | a [`Decision`] for the runner |
//! | `{"id":8,"follow":{"from":0}}` | send the journal from this line on, and [`Live`] lines; once a connection |
//!
//! | the server says | what it means |
//! |---|---|
//! | `{"answer":{"id":7,"outcome":"accepted"}}` | it was done |
//! | `{"answer":{"id":7,"outcome":"refused","why":"…"}}` | it was not; `id` is `null` when the request had none |
//! | `{"seq":0,…}` | a line of the journal, byte for byte as on the disk, each once and in order |
//! | `{"live":{…}}` | a look at what is not stored |
//!
//! A line with another key was added in a later minor version and is passed over.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::measure::LiveCounts;
use crate::run::decision::Decision;
use crate::run::desk::Answer;
use crate::run::event::Schema;

/// Version of what is said over the socket. A viewer refuses a newer major version.
pub const CONTROL: Schema = Schema { major: 1, minor: 1 };

/// Longest line that a viewer may send, in bytes without its end.
pub const LONGEST_REQUEST: usize = 64 * 1024;

/// The server's first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of what is said.
    pub control: Schema,
    /// Version of aforo.
    pub aforo: String,
    /// Name of the run folder.
    pub run: String,
    /// Process id of the runner.
    pub pid: u32,
    /// The journal's next line: those before it are on the disk.
    pub next_seq: u64,
    /// What keeps the journal from growing, as a sentence; `None` when nothing does.
    #[serde(default)]
    pub trouble: Option<String>,
}

/// A look at what is not stored. At most five a second, only when something changed, and only to a viewer that has
/// the whole journal: it is about now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Live {
    /// Wall clock, for people.
    pub at: Timestamp,
    /// Counts of the running phase; `None` between phases.
    pub counts: Option<LiveCounts>,
    /// What keeps the journal from growing, as a sentence; `None` when nothing does.
    pub trouble: Option<String>,
    /// Looks that this viewer missed, since it began to follow, because it had not read what was sent before.
    pub dropped: u64,
}

/// What a viewer asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Asked {
    /// A decision for the runner.
    Decide(Decision),
    /// The journal from a line on, and live lines.
    Follow {
        /// Its first line; one that is still to come is waited for.
        from: u64,
    },
}

/// A request with the id by which it is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Request {
    /// Chosen by the viewer.
    pub id: u64,
    /// What it asks.
    #[serde(flatten)]
    pub asked: Asked,
}

impl Request {
    /// Reads a request; otherwise the answer that says what is wrong with it.
    pub fn parse(line: &[u8]) -> Result<Self, Answered> {
        let mut id = None;
        Self::read(line, &mut id).map_err(|why| Answered { id, outcome: Outcome::Refused { why } })
    }

    fn read(line: &[u8], found: &mut Option<u64>) -> Result<Self, String> {
        let value: Value = serde_json::from_slice(line).map_err(|error| format!("not JSON: {error}"))?;
        let Value::Object(mut request) = value else {
            return Err(format!("not a request: {ALLOWED}"));
        };
        let id = request.shift_remove("id");
        *found = id.as_ref().and_then(Value::as_u64);
        let Some(id) = *found else {
            return Err(format!("a request needs an \"id\", a whole number: {ALLOWED}"));
        };
        if request.len() != 1 {
            return Err(format!("a request asks one thing: {ALLOWED}"));
        }
        let asked = Asked::deserialize(Value::Object(request))
            .map_err(|error| format!("not a request: {error}; {ALLOWED}"))?;
        Ok(Self { id, asked })
    }
}

/// Shown with every refusal of a request that cannot be read.
const ALLOWED: &str =
    r#"allowed: {"id":1,"decide":{"choice":"next","reason":"…"}} and {"id":2,"follow":{"from":0}}"#;

/// An answer with the id of its request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// Which request; `None` when what was said had no id.
    pub id: Option<u64>,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl Answered {
    /// The request was done.
    pub fn accepted(id: u64) -> Self {
        Self { id: Some(id), outcome: Outcome::Accepted }
    }

    /// The request was not done.
    pub fn refused(id: Option<u64>, why: impl Into<String>) -> Self {
        Self { id, outcome: Outcome::Refused { why: why.into() } }
    }
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// It was done. A decision is in the journal.
    Accepted,
    /// It was not.
    Refused {
        /// Why, as a sentence for the person.
        why: String,
    },
}

impl From<Answer> for Outcome {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Accepted => Self::Accepted,
            Answer::Refused { why } => Self::Refused { why },
        }
    }
}

impl From<Outcome> for Answer {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Accepted => Self::Accepted,
            Outcome::Refused { why } => Self::Refused { why },
        }
    }
}

/// What the server says beside lines of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Said {
    /// First of all.
    Hello(Hello),
    /// To a request.
    Answer(Answered),
    /// About now.
    Live(Live),
}

/// A line of the server, looked at from outside to see what it is.
#[derive(Debug, Deserialize)]
pub(super) struct Heard<'a> {
    #[serde(borrow)]
    pub(super) seq: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) hello: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) answer: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) live: Option<&'a RawValue>,
}

/// A value as a line.
pub(super) fn line_of(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::decision::Choice;

    fn text(value: &impl Serialize) -> String {
        serde_json::to_string(value).unwrap()
    }

    fn refusal(line: &str) -> (Option<u64>, String) {
        match Request::parse(line.as_bytes()).unwrap_err() {
            Answered { id, outcome: Outcome::Refused { why } } => (id, why),
            accepted @ Answered { .. } => panic!("{accepted:?}"),
        }
    }

    #[test]
    fn requests_are_read_as_they_are_written() {
        let decision = Decision { choice: Choice::Next, reason: "fine".to_owned(), gate: Some(12) };
        let request = Request { id: 7, asked: Asked::Decide(decision) };
        let line = r#"{"id":7,"decide":{"choice":"next","reason":"fine","gate":12}}"#;
        assert_eq!(text(&request), line);
        assert_eq!(Request::parse(line.as_bytes()), Ok(request));
        let follow = Request { id: 8, asked: Asked::Follow { from: 3 } };
        assert_eq!(text(&follow), r#"{"id":8,"follow":{"from":3}}"#);
        assert_eq!(Request::parse(text(&follow).as_bytes()), Ok(follow));
    }

    #[test]
    fn answers_are_read_as_they_are_written() {
        for (answered, line) in [
            (Answered::accepted(7), r#"{"id":7,"outcome":"accepted"}"#),
            (Answered::refused(None, "no"), r#"{"id":null,"outcome":"refused","why":"no"}"#),
        ] {
            assert_eq!(text(&answered), line);
            assert_eq!(serde_json::from_str::<Answered>(line).unwrap(), answered);
            assert_eq!(text(&Said::Answer(answered)), format!("{{\"answer\":{line}}}"));
        }
    }

    #[test]
    fn a_wrong_request_is_told_what_is_allowed() {
        for (line, id, word) in [
            ("", None, "not JSON"),
            ("{", None, "not JSON"),
            ("[1]", None, "not a request"),
            (r#"{"follow":{"from":0}}"#, None, "needs an \"id\""),
            (r#"{"id":-1,"follow":{"from":0}}"#, None, "needs an \"id\""),
            (r#"{"id":5}"#, Some(5), "one thing"),
            (r#"{"id":5,"follow":{"from":0},"decide":{"choice":"next"}}"#, Some(5), "one thing"),
            (r#"{"id":5,"quit":{}}"#, Some(5), "quit"),
            (r#"{"id":5,"follow":{}}"#, Some(5), "from"),
            (r#"{"id":5,"decide":{"choice":"dance"}}"#, Some(5), "dance"),
        ] {
            let (found, why) = refusal(line);
            assert_eq!(found, id, "{line}");
            assert!(why.contains(word), "{line}: {why}");
            assert!(why.contains("decide") || why.starts_with("not JSON"), "{line}: {why}");
        }
    }
}
