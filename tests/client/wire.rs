//! What engines write.

pub(crate) const STREAM_HEAD: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
pub(crate) const LAST_CHUNK: &str = "0\r\n\r\n";
pub(crate) const ROLE: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
pub(crate) const DONE: &str = "data: [DONE]\n\n";

/// A chunk of a chunked body.
pub(crate) fn chunk(bytes: &str) -> String {
    format!("{:x}\r\n{bytes}\r\n", bytes.len())
}

/// An event with content.
pub(crate) fn token(text: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
}

/// The event that ends an answer.
pub(crate) fn finish(reason: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"{reason}\"}}]}}\n\n")
}

/// The event that counts tokens.
pub(crate) fn usage(prompt: u64, completion: u64) -> String {
    let counts = format!("{{\"prompt_tokens\":{prompt},\"completion_tokens\":{completion}}}");
    format!("data: {{\"choices\":[],\"usage\":{counts}}}\n\n")
}

/// The events of a whole answer.
pub(crate) fn events(text: &str) -> String {
    [ROLE, &token(text), &finish("stop"), &usage(7, 1), DONE].concat()
}

/// A whole response, streamed.
pub(crate) fn answer(text: &str) -> String {
    format!("{STREAM_HEAD}{}{LAST_CHUNK}", chunk(&events(text)))
}

/// A response with this status and body, complete.
pub(crate) fn page(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
}

/// An error page as engines write it.
pub(crate) fn error(status: &str, message: &str) -> String {
    let body = serde_json::json!({ "error": { "message": message } }).to_string();
    page(status, "Content-Type: application/json\r\n", &body)
}
