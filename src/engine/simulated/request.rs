//! A generation request, read and checked.

use serde_json::{Map, Value};

use super::fault::Faults;
use super::refusal::Refusal;
use super::token;
use crate::protocol::Api;

/// The only model that is served.
pub(super) const MODEL: &str = "simulated";

/// Output tokens of `/completions` when the request does not say, as in vLLM.
const COMPLETIONS_MAX_TOKENS: u32 = 16;

/// When a stream tells its token counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UsageReport {
    Never,
    /// In an event of its own after the last one.
    AtEnd,
    /// Also in every event.
    WithEachEvent,
}

/// A request that the engine can serve.
#[derive(Debug)]
pub(super) struct Generation {
    pub(super) api: Api,
    pub(super) prompt: String,
    pub(super) prompt_tokens: u32,
    /// At least 1; fits the context together with the prompt.
    pub(super) max_tokens: u32,
    pub(super) stream: bool,
    pub(super) usage: UsageReport,
    pub(super) cache_salt: Option<String>,
    /// Whether the output is asked to be JSON.
    pub(super) json: bool,
    /// Whether the output must go on to `max_tokens`.
    pub(super) ignore_eos: bool,
    pub(super) faults: Faults,
}

impl Generation {
    /// Reads a body. Checks in vLLM's order: form, model, context.
    pub(super) fn read(api: Api, body: &[u8], context: u32) -> Result<Self, Refusal> {
        let fields = object(body)?;
        let prompt = match api {
            Api::Chat => chat_prompt(&fields)?,
            Api::Completions => completions_prompt(&fields)?,
        };
        let wanted = max_tokens(&fields)?;
        let faults = fields.get("simulate").map(Faults::read).transpose();
        let faults = faults
            .map_err(|message| Refusal::bad_request(Some("simulate"), format!("simulate: {message}")))?
            .unwrap_or_default();
        check_model(&fields)?;
        if fields.get("n").is_some_and(|n| n.as_u64() != Some(1)) {
            return Err(Refusal::bad_request(
                Some("n"),
                "the simulated engine gives one choice (parameter=n)",
            ));
        }
        let prompt_tokens = token::count(&prompt);
        Ok(Self {
            api,
            prompt_tokens,
            max_tokens: fit(api, prompt_tokens, wanted, context)?,
            stream: flag(fields.get("stream")).unwrap_or(false),
            usage: usage_report(&fields),
            cache_salt: fields.get("cache_salt").and_then(Value::as_str).map(str::to_owned),
            json: asks_json(&fields),
            ignore_eos: flag(fields.get("ignore_eos")).unwrap_or(false),
            faults,
            prompt,
        })
    }
}

/// The prompt of a `/tokenize` request, which has either form.
pub(super) fn prompt_to_tokenize(body: &[u8]) -> Result<String, Refusal> {
    let fields = object(body)?;
    let prompt =
        if fields.contains_key("messages") { chat_prompt(&fields)? } else { completions_prompt(&fields)? };
    check_model(&fields)?;
    Ok(prompt)
}

fn object(body: &[u8]) -> Result<Map<String, Value>, Refusal> {
    serde_json::from_slice(body)
        .map_err(|error| Refusal::invalid(&error.column().to_string(), "json_invalid", "JSON decode error"))
}

fn flag(value: Option<&Value>) -> Option<bool> {
    value?.as_bool()
}

/// As in vLLM, counts in every event need `include_usage` too.
fn usage_report(fields: &Map<String, Value>) -> UsageReport {
    let asked = |name| fields.get("stream_options").and_then(|options| flag(options.get(name))) == Some(true);
    match (asked("include_usage"), asked("continuous_usage_stats")) {
        (false, _) => UsageReport::Never,
        (true, false) => UsageReport::AtEnd,
        (true, true) => UsageReport::WithEachEvent,
    }
}

fn missing(name: &str) -> Refusal {
    Refusal::invalid(name, "missing", "Field required")
}

/// vLLM takes a request without a model for the one it serves.
fn check_model(fields: &Map<String, Value>) -> Result<(), Refusal> {
    match fields.get("model") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(model)) if model == MODEL => Ok(()),
        Some(Value::String(model)) => Err(Refusal::unknown_model(model)),
        Some(_) => Err(Refusal::invalid("model", "string_type", "Input should be a valid string")),
    }
}

/// Messages as one text: each is its role in brackets, a line end, its content and another line end.
fn chat_prompt(fields: &Map<String, Value>) -> Result<String, Refusal> {
    let messages = match fields.get("messages") {
        None => return Err(missing("messages")),
        Some(Value::Array(messages)) => messages,
        Some(_) => return Err(Refusal::invalid("messages", "list_type", "Input should be a valid list")),
    };
    let mut prompt = String::new();
    for message in messages {
        let role = message.get("role").and_then(Value::as_str).ok_or_else(|| missing("messages.role"))?;
        prompt.push('<');
        prompt.push_str(role);
        prompt.push_str(">\n");
        match message.get("content") {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => prompt.push_str(text),
            Some(Value::Array(parts)) => {
                for part in parts {
                    match part.get("type").and_then(Value::as_str) {
                        Some("text") => {
                            prompt.push_str(part.get("text").and_then(Value::as_str).unwrap_or(""));
                        }
                        _ => {
                            return Err(Refusal::bad_request(
                                None,
                                format!("{MODEL} is not a multimodal model"),
                            ));
                        }
                    }
                }
            }
            Some(_) => {
                return Err(Refusal::invalid(
                    "messages.content",
                    "string_type",
                    "Input should be a valid string",
                ));
            }
        }
        prompt.push('\n');
    }
    Ok(prompt)
}

fn completions_prompt(fields: &Map<String, Value>) -> Result<String, Refusal> {
    let prompt = match fields.get("prompt") {
        None => return Err(missing("prompt")),
        Some(Value::Array(prompts)) if prompts.len() == 1 => &prompts[0],
        Some(prompt) => prompt,
    };
    let text = prompt.as_str().map(str::to_owned);
    text.ok_or_else(|| Refusal::bad_request(Some("prompt"), "the simulated engine takes one prompt text"))
}

fn max_tokens(fields: &Map<String, Value>) -> Result<Option<u32>, Refusal> {
    for name in ["max_completion_tokens", "max_tokens"] {
        let Some(value) = fields.get(name).filter(|value| !value.is_null()) else { continue };
        let Some(tokens) = value.as_i64() else {
            return Err(Refusal::invalid(name, "int_parsing", "Input should be a valid integer"));
        };
        if tokens < 1 {
            let message =
                format!("{name} must be at least 1, got {tokens}. (parameter={name}, value={tokens})");
            return Err(Refusal::bad_request(Some(name), message));
        }
        return Ok(Some(u32::try_from(tokens).unwrap_or(u32::MAX)));
    }
    Ok(None)
}

/// The number of output tokens allowed, or vLLM's refusal of a request that does not fit the context.
fn fit(api: Api, prompt: u32, wanted: Option<u32>, context: u32) -> Result<u32, Refusal> {
    let too_long = |message: String| {
        let message = format!("{message} (parameter=input_tokens, value={prompt})");
        Err(Refusal::bad_request(Some("input_tokens"), message))
    };
    if let Some(wanted) = wanted.filter(|wanted| *wanted > context) {
        let message = format!(
            "max_tokens={wanted} cannot be greater than max_model_len={context}. Please request fewer output tokens. (parameter=max_tokens, value={wanted})"
        );
        return Err(Refusal::bad_request(Some("max_tokens"), message));
    }
    if prompt >= context {
        return too_long(format!(
            "This model's maximum context length is {context} tokens. However, your prompt contains at least {prompt} input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt."
        ));
    }
    let room = context - prompt;
    let default = match api {
        Api::Chat => room,
        Api::Completions => room.min(COMPLETIONS_MAX_TOKENS),
    };
    let tokens = wanted.unwrap_or(default);
    if tokens > room {
        let total = u64::from(prompt) + u64::from(tokens);
        return too_long(format!(
            "This model's maximum context length is {context} tokens. However, you requested {tokens} output tokens and your prompt contains at least {prompt} input tokens, for a total of at least {total} tokens. Please reduce the length of the input prompt or the number of requested output tokens."
        ));
    }
    Ok(tokens)
}

fn asks_json(fields: &Map<String, Value>) -> bool {
    let format = fields.get("response_format").and_then(|format| format.get("type")).and_then(Value::as_str);
    matches!(format, Some("json_object" | "json_schema"))
        || fields.get("structured_outputs").is_some_and(|wanted| wanted.get("json").is_some())
}
