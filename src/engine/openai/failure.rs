//! Why a request failed: a reason and one short line of what came back.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use serde_json::Value;

use crate::protocol::FailureReason;

/// A failed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The reason.
    pub reason: FailureReason,
    /// What came back, as [`short`] leaves it.
    pub text: String,
    /// All that the body says, in one line of at most [`WHOLE`] characters; empty when there was no body.
    pub whole: String,
    /// How long the server asks to wait before the next try (`Retry-After`).
    pub retry_after: Option<Duration>,
    /// The sizes, when the request does not fit the engine's context.
    pub too_long: Option<TooLong>,
}

/// A request that does not fit the engine's context, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong {
    /// Tokens of the prompt; `None` when the engine does not say.
    pub prompt: Option<u64>,
    /// Tokens of prompt and answer together at most.
    pub limit: u64,
}

/// Headers of a response that say why it is no answer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Headers<'a> {
    /// `Retry-After`: seconds or an HTTP date.
    pub retry_after: Option<&'a str>,
    /// `Location`: where a redirect leads.
    pub location: Option<&'a str>,
    /// `Content-Type`.
    pub content_type: Option<&'a str>,
}

/// Longest text that [`short`] gives, in characters.
pub const SHORT: usize = 300;
/// Longest text that is shown where a failure is shown in full, in characters.
pub const WHOLE: usize = 4_000;

/// Bytes of a body that are looked at.
const LOOKED_AT: usize = 64 << 10;

/// What a response means that is no answer: any status but 2xx, or 2xx with a body that is neither an event stream
/// nor JSON.
pub fn of_status(status: u16, headers: Headers<'_>, body: &[u8]) -> Failure {
    let body = &body[..body.len().min(LOOKED_AT)];
    let said = if is_html(headers.content_type, body) { html(body) } else { message(body) };
    let retry_after = headers.retry_after.and_then(retry_after);
    let mut text = match status {
        200..=299 if is_html(headers.content_type, body) => format!("answered with {said}"),
        200..=299 => format!("answered with {}: {said}", headers.content_type.unwrap_or("no content type")),
        300..=399 => match headers.location {
            Some(location) => format!("status {status}, a redirect to {location}, which is not followed"),
            None => format!("status {status}, a redirect without a target"),
        },
        _ if said.is_empty() => format!("status {status}"),
        _ => format!("status {status}: {said}"),
    };
    if let Some(wait) = retry_after {
        text = format!("retry after {} s, {text}", wait.as_secs());
    }
    let reason = match status {
        // A refusal may repeat the request, whose text says nothing about the engine.
        300..=499 if !is_memory(said.as_bytes()) => FailureReason::Rejected,
        _ if is_memory(body) => FailureReason::Memory,
        300..=499 => FailureReason::Rejected,
        _ => FailureReason::Engine,
    };
    let too_long = if (400..=499).contains(&status) { too_long(body) } else { None };
    Failure { reason, text: short(text.as_bytes()), whole: one_line(body, WHOLE), retry_after, too_long }
}

/// What an error object means that came inside a stream or in a body with status 200.
pub fn of_error(json: &[u8]) -> Failure {
    Failure::new(if is_memory(json) { FailureReason::Memory } else { FailureReason::Engine }, &message(json))
}

impl Failure {
    /// A failure with this reason and text, made short.
    pub fn new(reason: FailureReason, text: &str) -> Self {
        Self { reason, text: short(text.as_bytes()), whole: String::new(), retry_after: None, too_long: None }
    }
}

/// Texts of engines that ran out of device memory, in lower case. "Memory" alone is not one: engines log it all the
/// time. Nor is a full context, which is a limit of the request.
const MEMORY: &[&str] = &[
    // PyTorch, CUDA, HIP, Metal; also llama.cpp's "cudaMalloc failed: out of memory"
    "out of memory",
    "outofmemory",
    "out_of_memory",
    "cudaerrormemoryallocation",
    "cublas_status_alloc_failed",
    "insufficient memory",
    "not enough memory",
    "cannot allocate memory",
    "can't allocate memory",
    "std::bad_alloc",
    // vLLM at start
    "less than desired gpu memory utilization",
    "kv cache is needed, which is larger than the available",
    "larger than the available kv cache memory",
    "no available memory for the cache blocks",
    "can be stored in kv cache",
    // llama.cpp
    "failed to allocate",
    "unable to allocate",
    "free space in the kv cache",
    "find a memory slot",
    // SGLang
    "kv cache pool is full",
    // Ollama
    "requires more system memory",
];

/// Whether a text says that the engine ran out of memory: a body, an error object, lines of a log.
pub fn is_memory(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text).to_ascii_lowercase();
    MEMORY.iter().any(|known| text.contains(known))
}

/// Texts of a GPU that the engine's process cannot use again, in lower case. After the errors of the second group CUDA
/// answers every further call of the process with the same error, whatever the card is like; the process has to be
/// started again.
///
/// Not among them: memory that is short and full caches, which pass; "CUDA error" and cuBLAS or NCCL failures by
/// themselves, which may concern one request; "no kernel image is available" and invalid arguments, which are the
/// build's or the request's.
const GPU_LOST: &[&str] = &[
    // The card: NVML and the driver, CUDA, HIP
    "gpu is lost",
    "gpu_is_lost",
    "fallen off the bus",
    "uncorrectable ecc",
    "ecc_uncorrectable",
    "eccuncorrectable",
    "uncorrectable nvlink",
    // A running engine holds its card; it looks for one only after it has lost it.
    "is/are busy or unavailable",
    "no cuda-capable device is detected",
    "no cuda gpus are available",
    // The context on the card
    "illegal memory access was encountered",
    "illegal instruction was encountered",
    "cuda error: misaligned address",
    "unspecified launch failure",
    "device-side assert triggered",
    "launch timed out and was terminated",
    "context is destroyed",
];

/// Whether what an engine said of its failure means that it has lost its GPU for good: no request that it is sent
/// afterwards can be answered.
pub fn is_gpu_lost(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text).to_ascii_lowercase();
    GPU_LOST.iter().any(|known| text.contains(known))
}

/// What an engine's server says when the process behind it is gone, in lower case: vLLM since 0.8, and before.
const ENGINE_DEAD: [&str; 3] =
    ["enginecore encountered an issue", "enginedeaderror", "background loop has errored already"];

/// Whether a server said that its engine is gone for good: it answers requests with failures until it ends too.
pub fn is_engine_dead(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text).to_ascii_lowercase();
    ENGINE_DEAD.iter().any(|known| text.contains(known))
}

/// Whether a body is a web page, by its type or by its first bytes.
pub fn is_html(content_type: Option<&str>, body: &[u8]) -> bool {
    let starts = |text: &[u8], with: &str| {
        text.get(..with.len()).is_some_and(|head| head.eq_ignore_ascii_case(with.as_bytes()))
    };
    let body = body.trim_ascii_start();
    content_type.is_some_and(|kind| starts(kind.trim_start().as_bytes(), "text/html"))
        || starts(body, "<!doctype html")
        || starts(body, "<html")
}

/// Names a web page by its title, or by its start.
pub(super) fn html(body: &[u8]) -> String {
    let page = String::from_utf8_lossy(body);
    let lower = page.to_ascii_lowercase();
    let title = lower.find("<title>").map(|at| at + "<title>".len()).and_then(|from| {
        let to = from + lower[from..].find("</title>")?;
        Some(page[from..to].trim())
    });
    match title {
        Some(title) if !title.is_empty() => format!("an HTML page, title: {title}"),
        _ => format!("an HTML page: {page}"),
    }
}

/// The sentence inside an error body, or the body itself.
fn message(body: &[u8]) -> String {
    serde_json::from_slice::<Value>(body)
        .ok()
        .as_ref()
        .and_then(sentence)
        .map_or_else(|| String::from_utf8_lossy(body).into_owned(), str::to_owned)
}

/// Looks where engines write it: `error` as an object or a text, `message`, `FastAPI`'s `detail` and `msg`.
fn sentence(json: &Value) -> Option<&str> {
    match json {
        Value::String(text) => Some(text.as_str()).filter(|text| !text.is_empty()),
        Value::Array(list) => list.iter().find_map(sentence),
        Value::Object(fields) => {
            ["error", "message", "detail", "msg"].iter().find_map(|name| fields.get(*name).and_then(sentence))
        }
        _ => None,
    }
}

/// Seconds, or an HTTP date counted from now.
fn retry_after(value: &str) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
    Some(Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or(Duration::ZERO))
}

/// What engines write before the limit of their context: llama.cpp's field, vLLM, llama.cpp, `SGLang`, TGI.
const LIMIT_AFTER: &[&str] = &[
    "\"n_ctx\":",
    "maximum context length is ",
    "maximum context length of ",
    "model's context length (",
    "available context size (",
    "max_total_tokens=",
    "max_model_len=",
    "`max_new_tokens` must be <= ",
];

/// What they write before the size of the prompt.
const PROMPT_AFTER: &[&str] = &[
    "\"n_prompt_tokens\":",
    "your prompt contains at least ",
    "request (",
    "the input (",
    "input tokens (",
    "tokens: ",
    "given: ",
];

fn too_long(body: &[u8]) -> Option<TooLong> {
    let text = String::from_utf8_lossy(body).to_ascii_lowercase();
    let number = |phrases: &[&str]| phrases.iter().find_map(|phrase| number_after(&text, phrase));
    Some(TooLong { limit: number(LIMIT_AFTER)?, prompt: number(PROMPT_AFTER) })
}

fn number_after(text: &str, phrase: &str) -> Option<u64> {
    let rest = text[text.find(phrase)? + phrase.len()..].trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// One line of at most [`SHORT`] characters: runs of white space become one space, other control characters and
/// marks that reverse the writing direction become `\u{FFFD}`, and credentials of an `Authorization` header go.
pub fn short(text: &[u8]) -> String {
    one_line(text, SHORT)
}

fn one_line(text: &[u8], longest: usize) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(LOOKED_AT)]);
    let mut line = String::with_capacity(text.len().min(longest));
    let mut secrets = 0;
    for word in text.split(|c: char| c.is_whitespace()).filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        let (shown, next) = without_secret(word, secrets);
        line.extend(shown.chars().map(|c| if is_unsafe(c) { char::REPLACEMENT_CHARACTER } else { c }));
        secrets = next;
        // Counting characters only where there are bytes enough for too many of them.
        if line.len() > longest && line.chars().count() > longest {
            return line.chars().take(longest - 1).chain(['…']).collect();
        }
    }
    line
}

/// The part of a word that may be shown, and how many words after it are secret.
fn without_secret(word: &str, secrets: u8) -> (&str, u8) {
    const REMOVED: &str = "[removed]";
    let lower = word.to_ascii_lowercase();
    let scheme = ["bearer", "basic"].iter().any(|scheme| lower.ends_with(scheme));
    if secrets > 0 {
        return (REMOVED, if scheme { 1 } else { secrets - 1 });
    }
    if let Some(at) = lower.find("authorization") {
        let name_end = at + "authorization".len();
        let value = lower[name_end..].trim_start_matches(['"', '\'', '\\']);
        if value.starts_with([':', '=']) {
            let alone = !value.contains(|c: char| c.is_alphanumeric());
            return (&word[..name_end], u8::from(alone || scheme));
        }
    }
    (word, u8::from(scheme))
}

fn is_unsafe(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_is_one_line_of_bounded_length() {
        assert_eq!(short(b"  a\r\n\tb\x1b[31m  c\x00 "), "a b\u{FFFD}[31m c\u{FFFD}");
        assert_eq!(short("x\u{202E}y".as_bytes()), "x\u{FFFD}y");
        let long = short("é ".repeat(1000).as_bytes());
        assert_eq!(long.chars().count(), SHORT);
        assert!(long.ends_with('…'));
        assert_eq!(short(&[b'a'; SHORT]).len(), SHORT);
        assert_eq!(short(b"a\xFFb"), "a\u{FFFD}b");
    }

    #[test]
    fn short_shows_no_credentials() {
        for text in [
            "sent Authorization: Bearer s3cret to it",
            "sent authorization:Bearer s3cret to it",
            "sent Authorization: s3cret to it",
            r#"{"Authorization": "Bearer s3cret"}"#,
            r#"{"authorization":"Bearer s3cret"}"#,
            r#"{"authorization":"s3cret"}"#,
            r#"{\"authorization\":\"Basic s3cret\"}"#,
            "AUTHORIZATION=s3cret",
            "invalid bearer s3cret",
        ] {
            assert!(!short(text.as_bytes()).contains("s3cret"), "{}", short(text.as_bytes()));
        }
        assert_eq!(short(b"Missing Authorization header"), "Missing Authorization header");
        assert!(short(b"sent Authorization: Bearer k to it").ends_with("to it"));
    }

    #[test]
    fn retry_after_in_both_forms() {
        assert_eq!(retry_after(" 120 "), Some(Duration::from_secs(120)));
        assert_eq!(retry_after("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        assert!(retry_after("Sun, 06 Nov 2033 08:49:37 GMT") > Some(Duration::from_secs(86_400)));
        assert_eq!(retry_after("soon"), None);
    }
}
