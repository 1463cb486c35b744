//! A small client for the tests of the simulated engine.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::time::Duration;

use aforo::engine::simulated::{Answers, SimulatedEngine};
use aforo::protocol::Simulated;
use serde_json::{Map, Value, json};

/// A fast engine with room for everything.
pub fn config() -> Simulated {
    Simulated {
        seed: 7,
        wrong_rate: 0.0,
        broken_rate: 0.0,
        error_rate: 0.0,
        slots: 64,
        kv_tokens: 65_536,
        context: 4_096,
        prefill_tokens_per_second: 1e6,
        iteration: Duration::from_micros(200),
        iteration_per_sequence: Duration::from_micros(1),
        tokens_per_event: 1,
        prefix_cache: true,
    }
}

/// Text of document `n`.
pub fn document(n: usize) -> String {
    format!("RECEIPT {n} of the corner shop, ñandú street, total {n}.50 EUR, paid in cash, thank you!")
}

/// Reference of document `n`.
pub fn reference(n: usize) -> Map<String, Value> {
    let reference =
        json!({"date": format!("2024-03-{:02}", n % 28 + 1), "amount": format!("{n}.50"), "tip": null});
    reference.as_object().unwrap().clone()
}

/// What the engine must answer to document `n`.
pub fn answer(n: usize) -> String {
    Value::Object(reference(n)).to_string()
}

/// An engine on a free port that knows documents 0 to 199.
pub async fn start(config: &Simulated) -> SimulatedEngine {
    let answers = Answers::new((0..200).map(|n| (document(n), reference(n))));
    SimulatedEngine::start(config, answers, "127.0.0.1:0".parse().unwrap()).await.unwrap()
}

/// A streamed chat request about document `n` that wants usage.
pub fn chat(n: usize) -> Value {
    json!({
        "model": "simulated",
        "messages": [
            {"role": "system", "content": "Read the receipt."},
            {"role": "user", "content": format!("Give JSON. {}", document(n))},
        ],
        "stream": true,
        "stream_options": {"include_usage": true},
    })
}

/// `body` with the fields of `more` over its own.
pub fn with(mut body: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("an object") };
    for (name, value) in more {
        body[name] = value;
    }
    body
}

pub fn http() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap()
}

pub async fn post(engine: &SimulatedEngine, path: &str, body: &Value) -> reqwest::Response {
    let url = format!("http://{}{path}", engine.address());
    http().post(url).json(body).send().await.unwrap()
}

pub async fn get(engine: &SimulatedEngine, path: &str) -> reqwest::Response {
    http().get(format!("http://{}{path}", engine.address())).send().await.unwrap()
}

/// What came of a stream.
#[derive(Debug, Default)]
pub struct Stream {
    /// The JSON of each `data:` event, without `[DONE]`.
    pub events: Vec<Value>,
    pub comments: usize,
    pub done: bool,
    /// Whether the response ended as HTTP wants it.
    pub complete: bool,
    /// What was left after the last whole event.
    pub rest: String,
}

impl Stream {
    pub fn content_events(&self) -> Vec<&str> {
        let texts = self.events.iter().filter_map(|event| {
            let choice = &event["choices"][0];
            choice["delta"]["content"].as_str().or(choice["text"].as_str())
        });
        texts.filter(|text| !text.is_empty()).collect()
    }

    pub fn content(&self) -> String {
        self.content_events().concat()
    }

    pub fn finish_reason(&self) -> Option<&str> {
        self.events.iter().find_map(|event| event["choices"][0]["finish_reason"].as_str())
    }

    /// The counts of the event without choices.
    pub fn usage(&self) -> Option<&Value> {
        let last = self.events.iter().find(|event| event["choices"].as_array().is_some_and(Vec::is_empty))?;
        Some(&last["usage"])
    }

    pub fn error(&self) -> Option<&str> {
        self.events.iter().find_map(|event| event["error"]["message"].as_str())
    }
}

/// Reads a streamed response to its end, whatever the end is.
pub async fn read(mut response: reqwest::Response) -> Stream {
    assert_eq!(response.status(), 200);
    let mut stream = Stream::default();
    let mut bytes = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) => {
                stream.complete = true;
                break;
            }
            Err(_) => break,
        }
    }
    let text = String::from_utf8(bytes).unwrap();
    let mut events: Vec<&str> = text.split("\n\n").collect();
    events.pop().unwrap_or("").clone_into(&mut stream.rest);
    for event in events {
        if event.starts_with(':') {
            stream.comments += 1;
            continue;
        }
        assert!(!stream.done, "an event after [DONE]: {event}");
        let data = event.strip_prefix("data: ").unwrap();
        if data == "[DONE]" {
            stream.done = true;
        } else {
            stream.events.push(serde_json::from_str(data).unwrap());
        }
    }
    stream
}

/// Sends a streamed chat request and reads the answer.
pub async fn ask(engine: &SimulatedEngine, body: &Value) -> Stream {
    read(post(engine, "/v1/chat/completions", body).await).await
}

/// Sends all requests at once.
pub async fn ask_all(engine: &SimulatedEngine, bodies: Vec<Value>) -> Vec<Stream> {
    let (client, url) = (http(), format!("http://{}/v1/chat/completions", engine.address()));
    let mut tasks = Vec::new();
    for body in bodies {
        let (client, url) = (client.clone(), url.clone());
        tasks.push(tokio::spawn(
            async move { read(client.post(url).json(&body).send().await.unwrap()).await },
        ));
    }
    let mut streams = Vec::new();
    for task in tasks {
        streams.push(task.await.unwrap());
    }
    streams
}

/// The metrics page.
pub async fn metrics(engine: &SimulatedEngine) -> String {
    get(engine, "/metrics").await.text().await.unwrap()
}

/// The value of the only sample whose line contains all of `parts`.
pub fn sample(page: &str, parts: &[&str]) -> f64 {
    let lines: Vec<_> = page
        .lines()
        .filter(|line| !line.starts_with('#') && parts.iter().all(|part| line.contains(part)))
        .collect();
    assert_eq!(lines.len(), 1, "{parts:?}: {lines:?}");
    lines[0].rsplit(' ').next().unwrap().parse().unwrap()
}

/// Reads the page until `wanted` holds; fails after ten seconds.
pub async fn metrics_until(engine: &SimulatedEngine, wanted: impl Fn(&str) -> bool) -> String {
    let read = async {
        loop {
            let page = metrics(engine).await;
            if wanted(&page) {
                return page;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), read).await.unwrap()
}
