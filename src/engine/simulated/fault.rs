//! Faults that a request asks for, so that tests can script them.
//!
//! The body field `simulate` is an object with any of:
//!
//! | field | effect |
//! |---|---|
//! | `status: 503` | that status with an error body; 429 and 503 carry `Retry-After` |
//! | `retry_after: 2` | seconds in `Retry-After`; 1 without it |
//! | `memory: true` | status 500 whose body is an out-of-memory text of CUDA; with `error_in_stream`, that error has the text |
//! | `html: true` | an HTML page, status 502 unless `status` says otherwise |
//! | `redirect: "/login"` | status 307 to that address |
//! | `error_in_stream: n` | after n tokens, an error event and `[DONE]` |
//! | `close_clean: n` | after n tokens the response ends, complete for HTTP, without a finish reason |
//! | `reset: n` | after n tokens the connection is reset in the middle of a chunk |
//! | `stall: n` | after n tokens, silence until the client leaves |
//! | `no_usage: true` | no usage event although it was asked for |
//! | `late_usage_ms: t` | the usage event comes t ms after the finish reason |
//! | `no_done: true` | no `[DONE]` |
//! | `bundle: n` | n tokens an event |
//! | `comments: true` | a comment line before each event that carries text |
//! | `role_first_ms: t` | the role event at once, the first token not before t ms later |
//!
//! At most one of the four faults that cut a stream can be asked for. An unknown field is refused.

use std::time::Duration;

use serde::Deserialize;

/// The field as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "the fields of a JSON object, not a state")]
struct Written {
    status: Option<u16>,
    retry_after: Option<u32>,
    memory: bool,
    html: bool,
    redirect: Option<String>,
    error_in_stream: Option<u32>,
    close_clean: Option<u32>,
    reset: Option<u32>,
    stall: Option<u32>,
    no_usage: bool,
    late_usage_ms: Option<u64>,
    no_done: bool,
    bundle: Option<u32>,
    comments: bool,
    role_first_ms: Option<u64>,
}

/// What is wrong with the response to one request.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Answer this instead of anything else.
    pub(super) instead: Option<Instead>,
    /// Where the stream is cut.
    pub(super) cut: Option<Cut>,
    pub(super) no_usage: bool,
    pub(super) late_usage: Duration,
    pub(super) no_done: bool,
    pub(super) bundle: Option<u32>,
    pub(super) comments: bool,
    pub(super) role_first: Option<Duration>,
}

/// A response that is no answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Instead {
    Status { status: u16, retry_after: Option<u32> },
    Memory,
    Html { status: u16 },
    Redirect { location: String },
}

/// The end of a stream before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    /// Tokens sent before it.
    pub(super) after: u32,
    pub(super) how: How,
}

/// How a stream is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Error,
    MemoryError,
    CloseClean,
    Reset,
    Stall,
}

impl Faults {
    /// Reads the field; the error says what is wrong with it.
    pub(super) fn read(field: &serde_json::Value) -> Result<Self, String> {
        let written = Written::deserialize(field).map_err(|error| error.to_string())?;
        let error = if written.memory { How::MemoryError } else { How::Error };
        let mut cuts = [
            (written.error_in_stream, error),
            (written.close_clean, How::CloseClean),
            (written.reset, How::Reset),
            (written.stall, How::Stall),
        ]
        .into_iter()
        .filter_map(|(after, how)| Some(Cut { after: after?, how }));
        let cut = cuts.next();
        if cuts.next().is_some() {
            return Err("only one of error_in_stream, close_clean, reset and stall".to_owned());
        }
        Ok(Self {
            instead: written.instead(),
            cut,
            no_usage: written.no_usage,
            late_usage: Duration::from_millis(written.late_usage_ms.unwrap_or(0)),
            no_done: written.no_done,
            bundle: written.bundle,
            comments: written.comments,
            role_first: written.role_first_ms.map(Duration::from_millis),
        })
    }
}

impl Written {
    fn instead(&self) -> Option<Instead> {
        if let Some(location) = &self.redirect {
            return Some(Instead::Redirect { location: location.clone() });
        }
        if self.html {
            return Some(Instead::Html { status: self.status.unwrap_or(502) });
        }
        if self.memory && self.error_in_stream.is_none() {
            return Some(Instead::Memory);
        }
        let status = self.status?;
        let retry_after = self.retry_after.or(matches!(status, 429 | 503).then_some(1));
        Some(Instead::Status { status, retry_after })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_field_is_read() {
        let faults = Faults::read(&json!({"reset": 3, "comments": true})).unwrap();
        assert_eq!(faults.cut, Some(Cut { after: 3, how: How::Reset }));
        assert!(faults.comments && faults.instead.is_none());
        let faults = Faults::read(&json!({"status": 429})).unwrap();
        assert_eq!(faults.instead, Some(Instead::Status { status: 429, retry_after: Some(1) }));
    }

    #[test]
    fn contradictions_and_unknown_faults_are_refused() {
        assert!(Faults::read(&json!({"reset": 3, "stall": 1})).is_err());
        assert!(Faults::read(&json!({"resett": 3})).unwrap_err().contains("resett"));
    }
}
