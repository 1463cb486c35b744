//! The events of a stream and the body of a whole answer, in vLLM's shapes.

use bytes::Bytes;
use serde_json::{Value, json};

use super::request::MODEL;
use crate::protocol::Api;

/// Stands where vLLM has its version and the hash of its configuration.
const FINGERPRINT: &str = "aforo-simulated";

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finish {
    Stop,
    Length,
}

impl Finish {
    fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
        }
    }
}

/// Token counts of one answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usage {
    pub(super) prompt: u32,
    pub(super) completion: u32,
    /// Prompt tokens found in the prefix cache; `None` when there is no such cache.
    pub(super) cached: Option<u32>,
}

impl Usage {
    fn json(self) -> Value {
        let mut usage = json!({
            "prompt_tokens": self.prompt,
            "total_tokens": self.prompt + self.completion,
            "completion_tokens": self.completion,
        });
        if let Some(cached) = self.cached {
            usage["prompt_tokens_details"] = json!({ "cached_tokens": cached });
        }
        usage
    }
}

/// Writes the events of one answer.
#[derive(Debug)]
pub(super) struct Writer {
    api: Api,
    id: String,
    created: u64,
    /// What every event starts with, up to and including `"choices":[`.
    start: String,
}

impl Writer {
    /// For an answer with this number, made at `created` seconds since 1970.
    pub(super) fn new(api: Api, number: u64, created: u64) -> Self {
        let (prefix, object) = match api {
            Api::Chat => ("chatcmpl", "chat.completion.chunk"),
            Api::Completions => ("cmpl", "text_completion"),
        };
        let id = format!("{prefix}-{number:016x}");
        let start = format!(
            "data: {{\"id\":\"{id}\",\"object\":\"{object}\",\"created\":{created},\"model\":\"{MODEL}\",\"choices\":["
        );
        Self { api, id, created, start }
    }

    fn event(&self, choice: &str, usage: Option<Usage>, rest: &str) -> Bytes {
        let usage = usage.map(|usage| format!(",\"usage\":{}", usage.json())).unwrap_or_default();
        [&self.start, choice, "]", &usage, rest, "}\n\n"].concat().into()
    }

    /// The event that names the role and carries no text; `/completions` has none.
    pub(super) fn role(&self, usage: Option<Usage>) -> Option<Bytes> {
        let choice =
            r#"{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}"#;
        (self.api == Api::Chat)
            .then(|| self.event(choice, usage, r#","prompt_token_ids":null,"prompt_text":null"#))
    }

    /// An event with text, or the last one, with or without text.
    pub(super) fn text(&self, text: &str, finish: Option<Finish>, usage: Option<Usage>) -> Bytes {
        let text = Value::from(text);
        let reason = Value::from(finish.map(Finish::name));
        let choice = match self.api {
            Api::Chat => {
                let stop_reason = if finish.is_some() { r#","stop_reason":null"# } else { "" };
                format!(
                    r#"{{"index":0,"delta":{{"content":{text}}},"logprobs":null,"finish_reason":{reason}{stop_reason},"token_ids":null}}"#
                )
            }
            Api::Completions => format!(
                r#"{{"index":0,"text":{text},"logprobs":null,"finish_reason":{reason},"stop_reason":null,"prompt_token_ids":null,"token_ids":null}}"#
            ),
        };
        self.event(&choice, usage, "")
    }

    /// The event after the last one that carries only the counts.
    pub(super) fn usage(&self, usage: Usage) -> Bytes {
        self.event("", Some(usage), &format!(r#","system_fingerprint":"{FINGERPRINT}""#))
    }

    /// The body of an answer that is not streamed.
    pub(super) fn whole(&self, text: &str, finish: Finish, usage: Usage) -> String {
        let choice = match self.api {
            Api::Chat => json!({
                "index": 0,
                "message": { "role": "assistant", "content": text, "refusal": null, "reasoning": null },
                "logprobs": null, "finish_reason": finish.name(), "stop_reason": null, "token_ids": null,
            }),
            Api::Completions => json!({
                "index": 0, "text": text,
                "logprobs": null, "finish_reason": finish.name(), "stop_reason": null, "token_ids": null,
            }),
        };
        let object = match self.api {
            Api::Chat => "chat.completion",
            Api::Completions => "text_completion",
        };
        json!({
            "id": self.id, "object": object, "created": self.created, "model": MODEL,
            "choices": [choice], "system_fingerprint": FINGERPRINT, "usage": usage.json(),
        })
        .to_string()
    }
}

/// An error inside a stream whose status was 200.
pub(super) fn error(message: &str) -> Bytes {
    let error =
        json!({"error": {"message": message, "type": "InternalServerError", "param": null, "code": 500}});
    format!("data: {error}\n\n").into()
}

/// The end of a stream.
pub(super) const DONE: Bytes = Bytes::from_static(b"data: [DONE]\n\n");

/// A line that keeps a connection alive and means nothing.
pub(super) const COMMENT: Bytes = Bytes::from_static(b": ping\n\n");
