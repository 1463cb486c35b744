//! Recordings of real engines, replayed at every split and with the times of their reads.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aforo::engine::Stamp;
use aforo::engine::openai::answer::{Answer, End, Outcome};
use aforo::engine::openai::chunk::Finish;
use aforo::engine::openai::failure::{Headers, TooLong, is_memory, of_status};
use aforo::protocol::FailureReason;
use serde_json::Value;

use crate::splits::{at, at_every_split};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings").join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap()
}

/// Status, head and body of a recorded response.
fn response(name: &str) -> (u16, String, Vec<u8>) {
    let recorded = fs::read(path(name)).unwrap();
    let end = recorded.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(recorded[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase(), recorded[end + 4..].to_vec())
}

/// Every recorded response, by its engine's folder and its name.
fn responses() -> Vec<String> {
    let mut names = Vec::new();
    for engine in ["llama.cpp-b11549", "transformers-serve", "vllm-0.32-cpu"] {
        for file in fs::read_dir(path(engine)).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            if Path::new(&name).extension().is_some_and(|kind| kind == "http") {
                names.push(format!("{engine}/{name}"));
            }
        }
    }
    names.sort();
    names
}

struct Expected {
    name: &'static str,
    text: &'static str,
    finish: Finish,
    /// Prompt, completion and cached tokens.
    usage: Option<(u64, u64, Option<u64>)>,
    /// Prefill and decode in microseconds.
    engine: Option<(u64, u64)>,
    output_events: u32,
}

const fn expected(name: &'static str, text: &'static str, finish: Finish, output_events: u32) -> Expected {
    Expected { name, text, finish, usage: None, engine: None, output_events }
}

impl Expected {
    const fn usage(mut self, prompt: u64, completion: u64, cached: Option<u64>) -> Self {
        self.usage = Some((prompt, completion, cached));
        self
    }

    const fn engine(mut self, prefill: u64, decode: u64) -> Self {
        self.engine = Some((prefill, decode));
        self
    }

    fn check(&self, answer: &Answer) {
        let name = self.name;
        assert_eq!(answer.outcome(), Some(&Outcome::Complete { finish: self.finish.clone() }), "{name}");
        assert_eq!(answer.text(), self.text, "{name}");
        let usage =
            answer.usage().map(|usage| (usage.prompt.unwrap(), usage.completion.unwrap(), usage.cached));
        assert_eq!(usage, self.usage, "{name}");
        let micros = |time: Option<Duration>| time.unwrap().as_micros().try_into().unwrap();
        let engine = answer.engine_times().map(|times| (micros(times.prefill), micros(times.decode)));
        assert_eq!(engine, self.engine, "{name}");
        assert_eq!(answer.output_events(), self.output_events, "{name}");
    }
}

const PARIS: &str = "The capital of France is Paris, capital of the French language, culture, and culture.";

const STREAMS: &[Expected] = &[
    expected("llama.cpp-b11549/chat_stream_logprobs.http", "The capital of France", Finish::Length, 4)
        .engine(22_414, 54_965),
    expected("llama.cpp-b11549/chat_stream_nousage.http", "The capital of France is", Finish::Length, 5)
        .engine(17_533, 71_682),
    expected(
        "llama.cpp-b11549/chat_stream_timings_per_token.http",
        "The capital of France",
        Finish::Length,
        4,
    )
    .engine(17_546, 52_518),
    expected("llama.cpp-b11549/chat_stream_usage.http", PARIS, Finish::Stop, 18)
        .usage(37, 19, Some(36))
        .engine(17_248, 400_893),
    expected("llama.cpp-b11549/completions_stream.http", " capitalised as it is capital", Finish::Length, 6)
        .usage(5, 6, Some(0))
        .engine(31_804, 87_404),
    expected("llama.cpp-b11549/finish_length.http", "I'm a friendly and", Finish::Length, 5)
        .usage(35, 5, Some(24))
        .engine(63_942, 71_855),
    expected("transformers-serve/chat_stream_usage.http", "The capital of France is Paris.", Finish::Stop, 7)
        .usage(37, 8, None),
    expected(
        "vllm-0.32-cpu/chat_stream_continuous_usage.http",
        "The capital of France is Paris",
        Finish::Length,
        6,
    )
    .usage(37, 6, None),
    expected("vllm-0.32-cpu/chat_stream_logprobs.http", "The capital of France", Finish::Length, 4),
    expected("vllm-0.32-cpu/chat_stream_usage.http", "The capital of France is Paris.", Finish::Stop, 7)
        .usage(37, 8, None),
    expected("vllm-0.32-cpu/completions_stream.http", " Paris.\n\nThe answer", Finish::Length, 6)
        .usage(5, 6, None),
];

const WHOLE: &[Expected] = &[
    expected("llama.cpp-b11549/chat_nonstream.http", PARIS, Finish::Stop, 0)
        .usage(37, 19, Some(0))
        .engine(167_402, 347_966),
    expected(
        "llama.cpp-b11549/context_overflow_gen.http",
        "\n\n\nI amadebrak\n\nI amadebrak\n\nI amadebrak\n\nI",
        Finish::Length,
        0,
    )
    .usage(4071, 25, Some(24))
    .engine(108_175_580, 3_255_932),
    expected(
        "llama.cpp-b11549/json_schema.http",
        "{\n    \"name\": \"Ava\",\n    \"age\": 25\n}",
        Finish::Stop,
        0,
    )
    .usage(37, 24, Some(24))
    .engine(83_246, 1_040_564),
    expected("llama.cpp-b11549/model_name_ignored.http", "Hello there,", Finish::Length, 0)
        .usage(31, 3, Some(24))
        .engine(109_973, 94_290),
    expected("transformers-serve/finish_length.http", "I'm sorry for any", Finish::Length, 0)
        .usage(34, 5, None),
    expected("vllm-0.32-cpu/chat_nonstream.http", "The capital of France is Paris.", Finish::Stop, 0)
        .usage(37, 8, None),
    expected("vllm-0.32-cpu/finish_length_nonstream.http", "I'm sorry for any", Finish::Length, 0)
        .usage(35, 5, None),
    expected("vllm-0.32-cpu/json_schema.http", "{\n  \"name\": \"John\",\n  \"age\": 25\n}", Finish::Stop, 0)
        .usage(37, 18, None),
];

/// Streams of servers that were killed or stopped: name and events with output.
const CUT: &[(&str, u32)] = &[
    ("llama.cpp-b11549/sse_killed_server.http", 70),
    ("transformers-serve/chat_stream_usage_cb.http", 0),
    ("vllm-0.32-cpu/sse_killed_server.http", 60),
];

#[test]
fn f22_streams_at_every_split() {
    for stream in STREAMS {
        let (status, head, body) = response(stream.name);
        assert!(status == 200 && head.contains("text/event-stream"));
        stream.check(&at_every_split(&body));
    }
}

#[test]
fn f81_vllm_counts_in_each_event_when_asked() {
    let (_, _, body) = response("vllm-0.32-cpu/chat_stream_continuous_usage.http");
    assert_eq!(at_every_split(&body).tokens_in_first_event(), Some(1));
    let (_, _, body) = response("vllm-0.32-cpu/chat_stream_usage.http");
    assert_eq!(at_every_split(&body).tokens_in_first_event(), None);
}

#[test]
fn whole_bodies() {
    for whole in WHOLE {
        let (status, _, body) = response(whole.name);
        assert_eq!(status, 200);
        let mut answer = Answer::new();
        answer.read_whole(&body, at(7));
        whole.check(&answer);
        assert_eq!(answer.times().first_token, None);
    }
}

#[test]
fn f43_killed_servers() {
    for (name, output_events) in CUT {
        let (status, _, body) = response(name);
        assert_eq!(status, 200);
        let answer = at_every_split(&body);
        let Some(Outcome::Failed { reason, text }) = answer.outcome() else {
            panic!("{name}: {:?}", answer.outcome())
        };
        assert_eq!(*reason, FailureReason::Engine, "{name}");
        assert!(text.contains("without a finish reason"), "{name}: {text}");
        assert_eq!(answer.output_events(), *output_events, "{name}");
    }
}

#[test]
fn error_responses() {
    let mut errors = 0;
    for name in responses() {
        let (status, head, body) = response(&name);
        let known =
            STREAMS.iter().chain(WHOLE).map(|expected| expected.name).chain(CUT.iter().map(|cut| cut.0));
        if known.into_iter().any(|known| known == name) {
            continue;
        }
        errors += 1;
        let failure = of_status(status, Headers::default(), &body);
        let reason = if status == 500 { FailureReason::Engine } else { FailureReason::Rejected };
        assert!(status >= 400 && head.contains("application/json"), "{name} has no expectation");
        assert_eq!(failure.reason, reason, "{name}");
        assert!(failure.text.starts_with(&format!("status {status}: ")), "{name}: {}", failure.text);
        assert!(
            !failure.text.contains(r#"{"error"#),
            "{name}: the sentence, not its wrapping: {}",
            failure.text
        );
        let limit = match name.as_str() {
            "llama.cpp-b11549/err_too_long.http" | "llama.cpp-b11549/err_too_long_stream.http" => {
                Some(TooLong { prompt: Some(6031), limit: 4096 })
            }
            "vllm-0.32-cpu/err_too_long.http" | "vllm-0.32-cpu/err_too_long_stream.http" => {
                Some(TooLong { prompt: Some(2049), limit: 2048 })
            }
            "vllm-0.32-cpu/err_max_tokens_too_big.http" => Some(TooLong { prompt: None, limit: 2048 }),
            _ => None,
        };
        assert_eq!(failure.too_long, limit, "{name}");
    }
    assert!(errors >= 15, "{errors}");
}

/// The reads of a recorded stream: time and bytes of the body.
type Reads = Vec<(Stamp, Vec<u8>)>;

fn stamp(ms: f64) -> Stamp {
    Stamp::from_nanos(Duration::from_secs_f64(ms / 1e3).as_nanos().try_into().unwrap())
}

/// Times of the first and the last read in which some text is seen, found in the raw bytes.
fn first_and_last_text(reads: &Reads) -> (Stamp, Stamp) {
    let text = regex::bytes::Regex::new(r#""(content|text)":"[^"]"#).unwrap();
    let mut times = reads.iter().filter(|(_, bytes)| text.is_match(bytes)).map(|(at, _)| *at);
    let first = times.next().unwrap();
    (first, times.next_back().unwrap_or(first))
}

fn replay_timed(reads: &Reads) -> Answer {
    let mut answer = Answer::new();
    for (at, bytes) in reads {
        answer.read(bytes, *at);
    }
    answer.end(End::Complete, reads.last().unwrap().0);
    let (first, last) = first_and_last_text(reads);
    let times = answer.times();
    assert_eq!(times.first_token, Some(first));
    assert_eq!(times.last_token, Some(last));
    assert_eq!(times.first_event, Some(reads.iter().find(|(_, bytes)| !bytes.is_empty()).unwrap().0));
    assert!(times.end >= times.last_token);
    let gaps: Duration = answer.gaps().sum();
    assert_eq!(gaps, last.since(first), "the gaps fill the time from the first to the last token");
    answer
}

#[test]
fn f70_timed_reads_of_vllm_on_a_gpu() {
    let entries: Vec<Value> = serde_json::from_str(&text("vllm-0.24/recordings.json")).unwrap();
    let mut streams = 0;
    for entry in &entries {
        let reads: Reads = entry["chunks_ms"]
            .as_array()
            .unwrap()
            .iter()
            .map(|read| (stamp(read[0].as_f64().unwrap()), read[1].as_str().unwrap().as_bytes().to_vec()))
            .collect();
        let body: Vec<u8> = reads.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        if entry["headers"]["Content-Type"].as_str().is_some_and(|kind| kind.starts_with("text/event-stream"))
        {
            streams += 1;
            let answer = replay_timed(&reads);
            assert!(matches!(answer.outcome(), Some(Outcome::Complete { .. })), "{}", entry["name"]);
            assert_eq!(at_every_split(&body).text(), answer.text(), "{}", entry["name"]);
        } else if entry["status"].as_u64() == Some(400) {
            assert_eq!(of_status(400, Headers::default(), &body).reason, FailureReason::Rejected);
        }
    }
    assert_eq!(streams, 7);
}

/// Takes the framing of HTTP's chunks off reads that were recorded at the socket.
fn unframed(file: &str) -> Reads {
    let mut reads = Reads::new();
    let (mut size_line, mut left) = (Vec::new(), 0_usize);
    let mut in_head = true;
    for line in text(file).lines() {
        let read: Value = serde_json::from_str(line).unwrap();
        let mut body = Vec::new();
        let bytes = read["bytes"].as_str().unwrap();
        let bytes =
            if std::mem::take(&mut in_head) { bytes.split_once("\r\n\r\n").unwrap().1 } else { bytes };
        for byte in bytes.bytes() {
            if left > 0 {
                left -= 1;
                // The CRLF after each chunk is counted in `left`, and is not part of the body.
                if left >= 2 {
                    body.push(byte);
                }
            } else if byte == b'\n' {
                let size = std::str::from_utf8(&size_line).unwrap().trim().to_owned();
                size_line.clear();
                if !size.is_empty() && size != "0" {
                    left = usize::from_str_radix(&size, 16).unwrap() + 2;
                }
            } else {
                size_line.push(byte);
            }
        }
        reads.push((stamp(read["t_ms"].as_f64().unwrap()), body));
    }
    reads
}

#[test]
fn f72_timed_reads_of_llama_cpp_and_vllm_on_a_cpu() {
    for (file, first_ms, tokens) in [
        ("llama.cpp-b11549/sse_timed_request0.jsonl", 1128.909, 100),
        ("vllm-0.32-cpu/sse_timed_request0.jsonl", 550.829, 200),
    ] {
        let reads = unframed(file);
        let answer = replay_timed(&reads);
        assert_eq!(answer.times().first_token, Some(stamp(first_ms)), "{file}");
        assert_eq!(answer.usage().unwrap().completion, Some(tokens), "{file}");
        assert_eq!(answer.outcome(), Some(&Outcome::Complete { finish: Finish::Length }), "{file}");
        let body: Vec<u8> = reads.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        assert_eq!(at_every_split(&body).text(), answer.text(), "{file}");
    }
}

#[test]
fn vllm_killed_in_mid_stream() {
    let recorded = text("vllm-0.24/engine-killed-mid-stream.txt");
    let mut streams = 0;
    for line in recorded.lines().filter(|line| line.starts_with("[200")) {
        streams += 1;
        let stream: Value = serde_json::from_str(line).unwrap();
        let mut answer = Answer::new();
        for read in [&stream[1], &stream[2]].into_iter().flat_map(|reads| reads.as_array().unwrap()) {
            if let Some(seconds) = read[0].as_f64() {
                answer.read(read[1].as_str().unwrap().as_bytes(), stamp(seconds * 1e3));
            }
        }
        answer.end(End::Complete, at(3000));
        let Some(Outcome::Failed { reason, text }) = answer.outcome() else {
            panic!("{:?}", answer.outcome())
        };
        assert_eq!(*reason, FailureReason::Engine);
        assert!(text.starts_with("EngineCore encountered an issue"), "{text}");
        assert!(answer.times().first_token.is_some());
    }
    assert_eq!(streams, 3);
}

#[test]
fn memory_failures_of_vllm_and_pytorch() {
    for name in ["torch-oom.txt", "start-no-free-memory.log", "start-kv-too-small.log"] {
        assert!(is_memory(text(&format!("vllm-0.24/{name}")).as_bytes()), "{name}");
    }
    assert!(!is_memory(text("vllm-0.24/vllm-start.log").as_bytes()), "a normal start");
}
