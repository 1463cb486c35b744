//! The few fields of a streamed event, or of a whole body, that count.
//!
//! Contents stay in the event's bytes where JSON escapes allow it, and everything else is skipped. Usage and the
//! engine's own times are rare: they are kept as raw JSON and read only when they are there.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// One event of a stream, or a whole body.
#[derive(Debug, Deserialize)]
pub struct Chunk<'a> {
    /// The choice with index 0. Absent in chunks that carry usage only.
    #[serde(borrow, default, rename = "choices", deserialize_with = "first_choice")]
    pub choice: Option<Choice<'a>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    timings: Option<&'a RawValue>,
    #[serde(borrow)]
    metrics: Option<&'a RawValue>,
    #[serde(borrow)]
    object: Option<Text<'a>>,
    error: Option<IgnoredAny>,
}

/// One choice of a chunk.
#[derive(Debug, Deserialize)]
pub struct Choice<'a> {
    index: Option<u64>,
    /// New parts of the message, in a stream of the chat form.
    #[serde(borrow)]
    pub delta: Option<Message<'a>>,
    /// The whole message, in a body of the chat form.
    #[serde(borrow)]
    pub message: Option<Message<'a>>,
    #[serde(borrow)]
    text: Option<Text<'a>>,
    #[serde(borrow)]
    finish_reason: Option<Text<'a>>,
}

/// A message, or the new parts of one.
#[derive(Debug, Deserialize)]
pub struct Message<'a> {
    #[serde(borrow)]
    content: Option<Text<'a>>,
    #[serde(borrow)]
    reasoning: Option<Text<'a>>,
    #[serde(borrow)]
    reasoning_content: Option<Text<'a>>,
    #[serde(borrow)]
    refusal: Option<Text<'a>>,
    /// Calls of tools, in parts.
    #[serde(borrow)]
    pub tool_calls: Option<Vec<ToolCall<'a>>>,
}

/// A call of a tool, or a part of one.
#[derive(Debug, Deserialize)]
pub struct ToolCall<'a> {
    /// Which call of the message this part belongs to.
    pub index: Option<u64>,
    #[serde(borrow)]
    function: Option<Function<'a>>,
}

#[derive(Debug, Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    arguments: Option<Text<'a>>,
}

/// Text that is borrowed where possible. Serde borrows a bare `Cow` only, never one inside an `Option`.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The text, without the empty one, which says no more than an absent one.
fn said<'t>(text: Option<&'t Text<'_>>) -> Option<&'t str> {
    text.map(|text| text.0.as_ref()).filter(|text| !text.is_empty())
}

impl<'a> Chunk<'a> {
    /// Reads the JSON of one event or body.
    pub fn parse(json: &'a str) -> serde_json::Result<Self> {
        serde_json::from_str(json)
    }

    /// Whether this is an error object instead of a part of an answer.
    pub fn is_error(&self) -> bool {
        self.error.is_some() || said(self.object.as_ref()) == Some("error")
    }

    /// The content, when it is all that the chunk says.
    pub fn only_content(&self) -> Option<&str> {
        let Self { choice: Some(choice), usage: None, timings: None, metrics: None, error: None, .. } = self
        else {
            return None;
        };
        let message = choice.delta.as_ref().or(choice.message.as_ref());
        let says_more = choice.finish().is_some()
            || self.is_error()
            || message
                .is_some_and(|m| m.tool_calls.is_some() || m.refusal().is_some() || m.reasoning().is_some());
        let content = choice.text().or_else(|| message.and_then(Message::content));
        content.filter(|_| !says_more)
    }

    /// The engine's count of tokens, so far or in all.
    pub fn usage(&self) -> Option<Usage> {
        let wire: WireUsage = serde_json::from_str(self.usage?.get()).ok()?;
        let of_prompt = wire.prompt_tokens_details.and_then(|details| details.cached_tokens);
        let of_completion = wire.completion_tokens_details.and_then(|details| details.reasoning_tokens);
        let count = |number: Option<serde_json::Number>| number?.as_u64();
        Some(Usage {
            prompt: count(wire.prompt_tokens),
            completion: count(wire.completion_tokens),
            cached: count(of_prompt),
            reasoning: count(of_completion.or(wire.reasoning_tokens)),
        })
    }

    /// The engine's own times of this request.
    pub fn engine_times(&self) -> Option<EngineTimes> {
        if let Some(metrics) =
            self.metrics.and_then(|raw| serde_json::from_str::<VllmMetrics>(raw.get()).ok())
        {
            return Some(EngineTimes {
                wait: metrics.wait.and_then(from_ms),
                prefill: metrics.prefill.and_then(from_ms),
                decode: metrics.decode.and_then(from_ms),
            });
        }
        let timings: LlamaTimings = serde_json::from_str(self.timings?.get()).ok()?;
        Some(EngineTimes {
            wait: None,
            prefill: timings.prefill.and_then(from_ms),
            decode: timings.decode.and_then(from_ms),
        })
    }
}

impl Choice<'_> {
    /// Text of the plain completions form.
    pub fn text(&self) -> Option<&str> {
        said(self.text.as_ref())
    }

    /// Why the answer ended; only in the last chunk of the choice.
    pub fn finish(&self) -> Option<Finish> {
        said(self.finish_reason.as_ref()).map(Finish::of)
    }
}

impl Message<'_> {
    /// Content of the answer.
    pub fn content(&self) -> Option<&str> {
        said(self.content.as_ref())
    }

    /// Reasoning. Some engines write it under both names: it is one text.
    pub fn reasoning(&self) -> Option<&str> {
        said(self.reasoning.as_ref()).or_else(|| said(self.reasoning_content.as_ref()))
    }

    /// Why the model refuses to answer.
    pub fn refusal(&self) -> Option<&str> {
        said(self.refusal.as_ref())
    }
}

impl ToolCall<'_> {
    /// Name of the function; in the first part of a call.
    pub fn name(&self) -> Option<&str> {
        said(self.function.as_ref()?.name.as_ref())
    }

    /// Arguments, as text.
    pub fn arguments(&self) -> Option<&str> {
        said(self.function.as_ref()?.arguments.as_ref())
    }
}

/// Why an answer ended, in the engine's words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finish {
    /// The model ended it.
    Stop,
    /// A token limit cut it.
    Length,
    /// The model calls a tool.
    ToolCalls,
    /// A filter cut it.
    ContentFilter,
    /// Another word.
    Other(String),
}

impl Finish {
    fn of(word: &str) -> Self {
        match word {
            "stop" | "eos_token" | "stop_sequence" => Self::Stop,
            "length" => Self::Length,
            "tool_calls" | "function_call" => Self::ToolCalls,
            "content_filter" => Self::ContentFilter,
            other => Self::Other(other.to_owned()),
        }
    }

    /// The word as the API has it.
    pub fn word(&self) -> &str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
            Self::Other(word) => word,
        }
    }

    /// Whether the engine gave the answer up: it has a finish reason, but not an end.
    pub fn is_abort(&self) -> bool {
        matches!(self, Self::Other(word) if word == "abort" || word == "error")
    }
}

/// The engine's count of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt: Option<u64>,
    /// Tokens of the answer, reasoning included.
    pub completion: Option<u64>,
    /// Tokens of the prompt that came from a prefix cache.
    pub cached: Option<u64>,
    /// Tokens of the answer that are reasoning.
    pub reasoning: Option<u64>,
}

impl Usage {
    /// Takes over what `newer` knows.
    pub fn update(&mut self, newer: Self) {
        self.prompt = newer.prompt.or(self.prompt);
        self.completion = newer.completion.or(self.completion);
        self.cached = newer.cached.or(self.cached);
        self.reasoning = newer.reasoning.or(self.reasoning);
    }
}

/// One request's times as the engine reports them (vLLM's `--enable-per-request-metrics`, llama.cpp's `timings`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EngineTimes {
    /// In the engine's queue, before it was scheduled.
    pub wait: Option<Duration>,
    /// From scheduling to the first token.
    pub prefill: Option<Duration>,
    /// From the first to the last token.
    pub decode: Option<Duration>,
}

#[derive(Deserialize)]
struct WireUsage {
    prompt_tokens: Option<serde_json::Number>,
    completion_tokens: Option<serde_json::Number>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
    reasoning_tokens: Option<serde_json::Number>,
}

#[derive(Deserialize)]
struct PromptDetails {
    cached_tokens: Option<serde_json::Number>,
}

#[derive(Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<serde_json::Number>,
}

/// `metrics` of vLLM, in milliseconds.
#[derive(Deserialize)]
struct VllmMetrics {
    #[serde(rename = "queue_time_ms")]
    wait: Option<f64>,
    #[serde(rename = "time_to_first_token_ms")]
    prefill: Option<f64>,
    #[serde(rename = "generation_time_ms")]
    decode: Option<f64>,
}

/// `timings` of llama.cpp, in milliseconds.
#[derive(Deserialize)]
struct LlamaTimings {
    #[serde(rename = "prompt_ms")]
    prefill: Option<f64>,
    #[serde(rename = "predicted_ms")]
    decode: Option<f64>,
}

/// `None` for what is not a length of time.
fn from_ms(ms: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(ms / 1e3).ok()
}

/// Reads `choices` without a list: the choice with index 0 (or without an index), others are skipped.
fn first_choice<'de, D: Deserializer<'de>>(source: D) -> Result<Option<Choice<'de>>, D::Error> {
    struct First;

    impl<'de> Visitor<'de> for First {
        type Value = Option<Choice<'de>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of choices")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut first = None;
            while let Some(choice) = list.next_element::<Choice<'de>>()? {
                if first.is_none() && choice.index.unwrap_or(0) == 0 {
                    first = Some(choice);
                }
            }
            Ok(first)
        }
    }

    source.deserialize_any(First)
}
