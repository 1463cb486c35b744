//! A server that writes prepared bytes: as many events a write as fit, each event alone, or paced like an engine.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How the events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// As fast as it goes, many events a write.
    Many,
    /// As fast as the reader takes them, each event in a write of its own.
    Alone,
    /// 50 ms to the first token, 10 ms a token.
    Paced,
}

/// One case.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) pace: Pace,
    pub(crate) streams: usize,
    pub(crate) requests: usize,
    /// Events with a token per request.
    pub(crate) events: usize,
}

impl Plan {
    pub(crate) fn total_events(&self) -> usize {
        self.requests * self.events
    }
}

/// A server in a child process.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
}

impl Server {
    pub(crate) fn start(plan: Plan) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["serve", &format!("{:?}", plan.pace), &plan.events.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, port: line.trim().parse().unwrap() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Ends a response, so that a reader knows without parsing.
pub(crate) const END: &[u8] = b"0\r\n\r\n";

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

fn event(delta: &str, finish: &str, usage: &str) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-9f8a7b6c5d4e3f21\",\"object\":\"chat.completion.chunk\",\"created\":1796066757,\
         \"model\":\"bench\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\"finish_reason\":{finish},\
         \"token_ids\":null}}]{usage}}}\n\n"
    )
}

fn chunk(text: &str) -> Vec<u8> {
    format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()
}

/// The tokens of the answer: a JSON object with one field.
fn tokens(events: usize) -> impl Iterator<Item = &'static str> {
    const WORDS: [&str; 8] = ["quality", " of", " the", " measured", " workload", " at", " this", " setting"];
    (0..events).map(move |index| match index {
        0 => "{\\\"answer\\\": \\\"",
        _ if index + 1 == events => "\\\"}",
        _ => WORDS[index % WORDS.len()],
    })
}

/// The value of the answer's field.
pub(crate) fn answer(events: usize) -> String {
    tokens(events).skip(1).take(events - 2).collect()
}

/// The writes of one response: head and role, each token, finish with usage and `[DONE]`.
fn writes(events: usize) -> Vec<Vec<u8>> {
    let first = [HEAD.as_bytes().to_vec(), chunk(&event(r#"{"role":"assistant","content":""}"#, "null", ""))]
        .concat();
    let usage = format!(
        ",\"usage\":{{\"prompt_tokens\":300,\"total_tokens\":{},\"completion_tokens\":{events}}}",
        300 + events
    );
    let last = [chunk(&event("{}", "\"stop\"", &usage)), chunk("data: [DONE]\n\n"), END.to_vec()].concat();
    let each = tokens(events).map(|token| chunk(&event(&format!("{{\"content\":\"{token}\"}}"), "null", "")));
    std::iter::once(first).chain(each).chain([last]).collect()
}

/// The child's main function.
pub(crate) fn serve(arguments: &[String]) {
    let pace = match arguments[0].as_str() {
        "Many" => Pace::Many,
        "Alone" => Pace::Alone,
        _ => Pace::Paced,
    };
    let writes = writes(arguments[1].parse().unwrap());
    let writes = Arc::new(if pace == Pace::Many { vec![writes.concat()] } else { writes });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    for socket in listener.incoming() {
        let (socket, writes) = (socket.unwrap(), Arc::clone(&writes));
        std::thread::Builder::new()
            .stack_size(64 * 1024)
            .spawn(move || {
                // A client that leaves ends its thread.
                let _ = connection(&socket, &writes, pace);
            })
            .unwrap();
    }
}

fn connection(socket: &TcpStream, writes: &[Vec<u8>], pace: Pace) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let mut requests = BufReader::new(socket);
    let mut answers = socket;
    loop {
        let (mut line, mut length, mut is_post) = (String::new(), 0, false);
        loop {
            line.clear();
            if requests.read_line(&mut line)? == 0 {
                return Ok(());
            }
            is_post |= line.starts_with("POST");
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        std::io::copy(&mut requests.by_ref().take(length), &mut std::io::sink())?;
        if !is_post {
            answers.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")?;
            continue;
        }
        let begun = Instant::now();
        for (index, bytes) in writes.iter().enumerate() {
            if pace == Pace::Paced && index > 0 {
                let due = begun + Duration::from_millis(50 + 10 * (index as u64 - 1));
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            answers.write_all(bytes)?;
        }
    }
}
