//! What the events of one answer say, apart from how they are cut out of its bytes.

use super::answer::{Outcome, OutputRead, Times};
use super::chunk::{Choice, Chunk, EngineTimes, Finish, Message, ToolCall, Usage};
use super::failure::{self, Failure};
use super::mold::Mold;
use super::sse::{Event, TooLarge};
use crate::engine::Stamp;
use crate::protocol::FailureReason;

/// The sum of the events so far.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) text: String,
    pub(super) reasoning: String,
    pub(super) refusal: String,
    pub(super) tool_calls: String,
    pub(super) finish: Option<Finish>,
    pub(super) usage: Option<Usage>,
    pub(super) engine_times: Option<EngineTimes>,
    pub(super) tokens_in_first_event: Option<u64>,
    pub(super) times: Times,
    pub(super) output_events: u32,
    pub(super) reads: Vec<OutputRead>,
    pub(super) bytes: u64,
    pub(super) outcome: Option<Outcome>,
    /// Index of the tool call that the last part belonged to.
    last_call: Option<u64>,
    events: u32,
    /// Events with output before the current read.
    output_before: u32,
    mold: Mold,
    /// The body's first bytes, until an event shows that it is an event stream.
    head: Vec<u8>,
    done: bool,
    failure: Option<Failure>,
}

/// Data of the event that ends a stream.
const DONE: &[u8] = b"[DONE]";

/// Bytes kept of a body without events.
const HEAD: usize = 1024;

impl Content {
    /// Back to nothing; the buffers stay.
    pub(super) fn clear(&mut self) {
        for text in [&mut self.text, &mut self.reasoning, &mut self.refusal, &mut self.tool_calls] {
            text.clear();
        }
        self.reads.clear();
        self.head.clear();
        *self = Self {
            text: std::mem::take(&mut self.text),
            reasoning: std::mem::take(&mut self.reasoning),
            refusal: std::mem::take(&mut self.refusal),
            tool_calls: std::mem::take(&mut self.tool_calls),
            reads: std::mem::take(&mut self.reads),
            head: std::mem::take(&mut self.head),
            ..Self::default()
        };
    }

    /// Whether nothing that may still arrive can change the answer.
    pub(super) fn is_over(&self) -> bool {
        self.done || self.failure.is_some() || self.outcome.is_some()
    }

    /// Counts a read; whether its events are still wanted.
    pub(super) fn begin_read(&mut self, bytes: &[u8]) -> bool {
        self.bytes += bytes.len() as u64;
        self.output_before = self.output_events;
        if self.events == 0 && self.head.len() < HEAD {
            let room = HEAD - self.head.len();
            self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        !self.is_over()
    }

    /// Notes the time of a read whose events brought output.
    pub(super) fn end_read(&mut self, read: Result<(), TooLarge>, at: Stamp) {
        if let Err(error) = read {
            self.fail(Failure::new(FailureReason::Engine, &error.to_string()));
        }
        let events = self.output_events - self.output_before;
        match self.reads.last_mut() {
            _ if events == 0 => {}
            // The parts of one read come one after the other, with its one stamp.
            Some(read) if read.at == at => read.events += events,
            _ => self.reads.push(OutputRead { at, events }),
        }
    }

    /// Takes one event.
    pub(super) fn event(&mut self, event: Event<'_>, at: Stamp) {
        let data = event.data.trim_ascii();
        // A data line without data keeps the connection open, as a comment does.
        if self.is_over() || data.is_empty() {
            return;
        }
        self.events += 1;
        self.times.first_event.get_or_insert(at);
        if event.kind.is_empty()
            && let Some(content) = self.mold.content(event.data)
        {
            self.text.push_str(content);
            self.times.first_answer.get_or_insert(at);
            self.count_output(at, None);
        } else if data == DONE {
            self.done = true;
        } else if event.kind == b"error" {
            self.fail(failure::of_error(data));
        } else {
            self.json(event, at);
        }
    }

    /// Takes a whole body that is not a stream.
    pub(super) fn whole(&mut self, body: &[u8], at: Stamp) {
        self.bytes += body.len() as u64;
        let json = String::from_utf8_lossy(body);
        let chunk = match Chunk::parse(&json) {
            Ok(chunk) if chunk.is_error() => return self.fail(failure::of_error(body)),
            Ok(chunk) => chunk,
            Err(_) if failure::is_html(None, body) => {
                return self.fail_with("answered with ", &failure::html(body));
            }
            Err(error) => return self.unreadable(&json, &error),
        };
        self.counts(&chunk);
        let Some(choice) = &chunk.choice else {
            return self.fail_with("no choices in the answer: ", &json);
        };
        if self.choice(choice, at) {
            self.times.last_token = Some(at);
        }
        if self.finish.is_none() {
            self.fail_with("no finish reason in the answer: ", &json);
        }
        // Everything came at once: when it began is not known.
        self.times.first_answer = None;
    }

    /// The body ended inside an event with this data.
    pub(super) fn cut(&mut self, data: &[u8]) {
        if data.trim_ascii() == DONE {
            self.done = true;
        }
        // A body without any event may be no event stream at all: `settle` says what it is.
        if !self.is_over() && self.events > 0 {
            self.fail_with("the stream ended inside an event: ", &String::from_utf8_lossy(data));
        }
    }

    /// The client did not get to the end of the body.
    pub(super) fn broken(&mut self, reason: FailureReason, text: &str) {
        if !self.is_over() {
            self.fail(Failure::new(reason, text));
        }
    }

    /// Decides what the request came to. The first decision stays.
    pub(super) fn settle(&mut self, at: Stamp) -> &Outcome {
        self.times.end.get_or_insert(at);
        let outcome = match (self.failure.take(), &self.finish) {
            (Some(Failure { reason, text, .. }), _) => Outcome::Failed { reason, text },
            (None, Some(finish)) if finish.is_abort() => Outcome::Failed {
                reason: FailureReason::Engine,
                text: format!("the engine gave the answer up: finish reason {}", finish.word()),
            },
            (None, Some(finish)) => Outcome::Complete { finish: finish.clone() },
            (None, None) => Outcome::Failed { reason: FailureReason::Engine, text: self.without_finish() },
        };
        self.outcome.get_or_insert(outcome)
    }

    fn json(&mut self, event: Event<'_>, at: Stamp) {
        // An event stream is decoded with replacement characters, so that bytes that are not UTF-8 do not break it.
        let json = String::from_utf8_lossy(event.data);
        match Chunk::parse(&json) {
            Ok(chunk) if chunk.is_error() => self.fail(failure::of_error(event.data)),
            Ok(chunk) => {
                self.chunk(&chunk, at);
                if let Some(content) = chunk.only_content().filter(|_| event.kind.is_empty()) {
                    self.mold.learn(&json, content);
                }
            }
            // Events of a type of their own are not part of the answer (`event: ping`).
            Err(_) if !matches!(event.kind, b"" | b"message") => {}
            Err(error) => self.unreadable(&json, &error),
        }
    }

    fn chunk(&mut self, chunk: &Chunk<'_>, at: Stamp) {
        self.counts(chunk);
        let Some(choice) = &chunk.choice else { return };
        if self.choice(choice, at) {
            self.count_output(at, chunk.usage());
        }
    }

    fn count_output(&mut self, at: Stamp, usage: Option<Usage>) {
        self.output_events += 1;
        self.times.last_token = Some(at);
        if self.times.first_token.is_none() {
            self.times.first_token = Some(at);
            self.tokens_in_first_event = usage.and_then(|usage| usage.completion);
        }
    }

    fn counts(&mut self, chunk: &Chunk<'_>) {
        if let Some(usage) = chunk.usage() {
            self.usage.get_or_insert_default().update(usage);
        }
        if let Some(times) = chunk.engine_times() {
            self.engine_times = Some(times);
        }
    }

    /// Adds a choice; whether it brought output.
    fn choice(&mut self, choice: &Choice<'_>, at: Stamp) -> bool {
        if let Some(finish) = choice.finish() {
            self.finish = Some(finish);
        }
        let message = choice.delta.as_ref().or(choice.message.as_ref());
        let content = choice.text().or_else(|| message.and_then(Message::content));
        let mut answered = add(&mut self.text, content);
        answered |= add(&mut self.refusal, message.and_then(Message::refusal));
        for call in message.and_then(|message| message.tool_calls.as_deref()).unwrap_or_default() {
            answered |= self.tool_call(call);
        }
        if answered {
            self.times.first_answer.get_or_insert(at);
        }
        add(&mut self.reasoning, message.and_then(Message::reasoning)) || answered
    }

    fn tool_call(&mut self, call: &ToolCall<'_>) -> bool {
        if call.index.is_some() && call.index != self.last_call {
            self.last_call = call.index;
            if !self.tool_calls.is_empty() {
                self.tool_calls.push('\n');
            }
        }
        add(&mut self.tool_calls, call.arguments()) || call.name().is_some()
    }

    fn without_finish(&self) -> String {
        if self.events > 0 {
            return format!(
                "the stream ended without a finish reason after {} events, {} with output",
                self.events, self.output_events
            );
        }
        let text = if failure::is_html(None, &self.head) {
            format!("answered with {}", failure::html(&self.head))
        } else {
            format!("the stream ended without an event: {}", String::from_utf8_lossy(&self.head))
        };
        failure::short(text.as_bytes())
    }

    fn unreadable(&mut self, json: &str, error: &serde_json::Error) {
        self.fail_with("not the JSON of an answer, ", &format!("{error}: {json}"));
    }

    fn fail_with(&mut self, what: &str, came_back: &str) {
        self.fail(Failure::new(FailureReason::Engine, &format!("{what}{came_back}")));
    }

    fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }
}

/// Adds a part to a text; whether there was one.
fn add(text: &mut String, part: Option<&str>) -> bool {
    text.push_str(part.unwrap_or_default());
    part.is_some()
}
