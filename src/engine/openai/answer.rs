//! The answer to one request, added up from the reads of its body.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::chunk::{EngineTimes, Finish, Usage};
use super::content::Content;
use super::endpoint::ApiKey;
use super::sse::EventReader;
use crate::engine::Stamp;
use crate::protocol::FailureReason;

/// Collects the answer to one request. [`Answer::clear`] makes it ready for another and keeps its buffers.
#[derive(Debug, Default)]
pub struct Answer {
    reader: EventReader,
    content: Content,
}

/// When an answer came. Each is the stamp of a read, `None` when it never happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Times {
    /// First event of any kind; a comment is not an event.
    pub first_event: Option<Stamp>,
    /// First event with output: content, reasoning, refusal or a tool call. A role or an empty text is not output.
    pub first_token: Option<Stamp>,
    /// First event with output that is not reasoning.
    pub first_answer: Option<Stamp>,
    /// Last event with output; usage, finish reason and `[DONE]` may come later.
    pub last_token: Option<Stamp>,
    /// End of the body.
    pub end: Option<Stamp>,
}

/// A read that brought output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputRead {
    /// When it arrived.
    pub at: Stamp,
    /// Events with output that it completed, at least 1.
    pub events: u32,
}

/// How a body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End<'a> {
    /// As HTTP says: last chunk, content length reached, or a clean close.
    Complete,
    /// The client could not or would not read on.
    Broken {
        /// `connection`, `timeout` or `cancelled`.
        reason: FailureReason,
        /// What happened.
        text: &'a str,
    },
}

/// What a request came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The engine ended its answer. [`Finish::Length`] is an answer that a token limit cut.
    Complete {
        /// Why it ended.
        finish: Finish,
    },
    /// There is no answer, whatever text came before.
    Failed {
        /// The reason.
        reason: FailureReason,
        /// One short line of what came back.
        text: String,
    },
}

impl Answer {
    /// An empty answer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes bytes of an event stream. `at` is the moment when they were read from the socket.
    pub fn read(&mut self, bytes: &[u8], at: Stamp) {
        let Self { reader, content } = self;
        if !content.begin_read(bytes) {
            return;
        }
        let read = reader.push(bytes, |event| content.event(event, at));
        content.end_read(read, at);
    }

    /// Ends an event stream.
    pub fn end(&mut self, how: End<'_>, at: Stamp) -> &Outcome {
        let Self { reader, content } = self;
        match how {
            End::Complete => {
                if let Some(data) = reader.finish() {
                    content.cut(data);
                }
            }
            End::Broken { reason, text } => content.broken(reason, text),
        }
        content.settle(at)
    }

    /// Takes a whole body that is not a stream, read completely at `at`. Only the last token's time is known.
    pub fn read_whole(&mut self, body: &[u8], at: Stamp) -> &Outcome {
        self.content.whole(body, at);
        self.content.settle(at)
    }

    /// Makes it empty for the next request; the buffers stay.
    pub fn clear(&mut self) {
        self.reader.clear();
        self.content.clear();
    }

    /// What the request came to; `None` until the body ended.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.content.outcome.as_ref()
    }

    /// Takes the key out of what is said of a failure.
    pub(super) fn hide(&mut self, key: &ApiKey) {
        if let Some(Outcome::Failed { text, .. }) = &mut self.content.outcome {
            key.hide_in(text);
        }
    }

    /// Whether nothing that may still arrive can change the answer: `[DONE]` or an error came.
    pub fn is_over(&self) -> bool {
        self.content.is_over()
    }

    /// Content of the answer so far.
    pub fn text(&self) -> &str {
        &self.content.text
    }

    /// Reasoning so far.
    pub fn reasoning(&self) -> &str {
        &self.content.reasoning
    }

    /// Refusal so far.
    pub fn refusal(&self) -> &str {
        &self.content.refusal
    }

    /// Arguments of the tool calls so far, one call a line.
    pub fn tool_calls(&self) -> &str {
        &self.content.tool_calls
    }

    /// Why the engine ended the answer.
    pub fn finish(&self) -> Option<&Finish> {
        self.content.finish.as_ref()
    }

    /// The engine's count of tokens, the last one that came.
    pub fn usage(&self) -> Option<Usage> {
        self.content.usage
    }

    /// Output tokens up to and including the first event with output, from an engine that counts in each event.
    pub fn tokens_in_first_event(&self) -> Option<u64> {
        self.content.tokens_in_first_event
    }

    /// The engine's own times of this request.
    pub fn engine_times(&self) -> Option<EngineTimes> {
        self.content.engine_times
    }

    /// When the answer came.
    pub fn times(&self) -> Times {
        self.content.times
    }

    /// Number of events with output. An event is not a token.
    pub fn output_events(&self) -> u32 {
        self.content.output_events
    }

    /// The reads that brought output, in order.
    pub fn reads(&self) -> &[OutputRead] {
        &self.content.reads
    }

    /// Times between consecutive reads that brought output.
    pub fn gaps(&self) -> impl Iterator<Item = Duration> + '_ {
        self.content.reads.windows(2).map(|pair| pair[1].at.since(pair[0].at))
    }

    /// Bytes of the body.
    pub fn bytes(&self) -> u64 {
        self.content.bytes
    }
}
