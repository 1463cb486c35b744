//! A server for tests that answers each request as a closure says. It can do what no engine should: hang, hang up,
//! answer nonsense.

use std::io::{BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

/// A request as the server received it.
pub struct Asked {
    /// Position among all requests of this path, from 0.
    pub number: usize,
    /// For example `/v1/models`.
    pub path: String,
    /// The `x-request-id` header.
    pub id: Option<String>,
    /// The body; `Null` without one.
    pub body: Value,
}

impl Asked {
    /// The user message of a chat request.
    pub fn user(&self) -> String {
        let messages = self.body["messages"].as_array().cloned().unwrap_or_default();
        messages
            .iter()
            .filter_map(|message| message["content"].as_str())
            .next_back()
            .unwrap_or_default()
            .to_owned()
    }
}

/// What the server does.
pub enum Reply {
    /// A status with a JSON body.
    Page(u16, Value),
    /// A status with a body as it is.
    Text(u16, &'static str, String),
    /// A streamed answer with this text and finish reason.
    Answer(String, &'static str),
    /// Nothing, until the client leaves.
    Hang,
    /// Closes the connection without a word.
    HangUp,
}

/// The page that lists one model.
pub fn models(id: &str) -> Reply {
    Reply::Page(
        200,
        json!({ "object": "list", "data": [{ "id": id, "object": "model", "owned_by": "stub" }] }),
    )
}

/// The answer that the reference of a [`Workplace`](super::Workplace) document asks for, read from its text.
pub fn right_answer(user: &str) -> String {
    let text = user.split("paid ").nth(1).unwrap_or_default();
    let (amount, shop) = text.split_once(" at ").unwrap_or_default();
    json!({ "amount": amount, "shop": shop }).to_string()
}

/// Starts a server that lives as long as the test process; the URL ends in `/v1`.
pub fn start(reply: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let reply = Arc::new(reply);
    let counts = Arc::new([const { AtomicUsize::new(0) }; 3]);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (reply, counts) = (Arc::clone(&reply), Arc::clone(&counts));
            std::thread::spawn(move || serve(stream, &*reply, &counts));
        }
    });
    url
}

fn serve(stream: TcpStream, reply: &dyn Fn(&Asked) -> Reply, counts: &[AtomicUsize; 3]) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    while let Some((path, id, body)) = request(&mut reader) {
        let kind = match path.as_str() {
            "/v1/chat/completions" => 0,
            "/metrics" => 1,
            _ => 2,
        };
        let number = counts[kind].fetch_add(1, Ordering::SeqCst);
        let written = match reply(&Asked { number, path, id, body }) {
            Reply::Page(status, body) => page(&mut writer, status, "application/json", &body.to_string()),
            Reply::Text(status, kind, body) => page(&mut writer, status, kind, &body),
            Reply::Answer(text, finish) => answer(&mut writer, &text, finish),
            Reply::Hang => {
                // Ends when the client does.
                let _ = reader.read(&mut [0]);
                return;
            }
            Reply::HangUp => return,
        };
        if written.is_err() {
            return;
        }
    }
}

fn request(reader: &mut impl std::io::BufRead) -> Option<(String, Option<String>, Value)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let (mut length, mut id) = (0, None);
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        } else if let Some(value) = line.to_ascii_lowercase().strip_prefix("x-request-id:") {
            id = Some(value.trim().to_owned());
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, id, serde_json::from_slice(&body).unwrap_or_default()))
}

fn page(writer: &mut TcpStream, status: u16, kind: &str, body: &str) -> std::io::Result<()> {
    write!(
        writer,
        "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn answer(writer: &mut TcpStream, text: &str, finish: &str) -> std::io::Result<()> {
    let choice = |delta: Value, finish: Value| json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] });
    let events = [
        choice(json!({ "role": "assistant", "content": "" }), Value::Null),
        choice(json!({ "content": text }), Value::Null),
        choice(json!({}), finish.into()),
        json!({ "choices": [], "usage": { "prompt_tokens": 10, "completion_tokens": 5 } }),
    ];
    let body: Vec<_> = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    page(writer, 200, "text/event-stream", &format!("{}data: [DONE]\n\n", body.concat()))
}
