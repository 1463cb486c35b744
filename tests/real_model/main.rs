//! A real engine with a real small model: llama.cpp's own server serving SmolLM2-135M.
//!
//! The engine and the documents are outside the project (`AFORO_SHARED`, default `../shared`); without them these
//! tests say that they are skipped. Nothing here asserts a speed or a quality: only relations that must hold whatever
//! the machine and the model do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod engine;
mod protocols;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use aforo::measure::Phase;
use aforo::quality::Verdict;
use aforo::run::journal;
use aforo::run::state::{PassState, State};
use engine::Engine;

/// The folder with the engine and the corpora, or a note that the test is skipped.
fn shared() -> Option<PathBuf> {
    let folder = std::env::var_os("AFORO_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let found = folder.join("engine/llama-server").is_file() && folder.join("corpus/receipts").is_dir();
    if !found {
        println!("skipped: {} holds no engine and corpus (set AFORO_SHARED)", folder.display());
    }
    found.then_some(folder)
}

#[test]
fn receipts_in_json() {
    let Some(shared) = shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::start(&shared);
    let protocol = protocols::receipts(&shared, folder.path(), &engine);
    check(&protocol, 12);
}

#[test]
fn news_by_category() {
    let Some(shared) = shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::start(&shared);
    let protocol = protocols::news(&shared, folder.path(), &engine);
    check(&protocol, 20);
}

/// Runs a protocol with the real program and checks everything that must hold.
fn check(protocol: &Path, documents: usize) {
    let runs = protocol.with_file_name("runs");
    let output = aforo(&["run", "--headless", "--auto", "--runs"]).arg(&runs).arg(protocol).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    println!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(matches!(output.status.code(), Some(0 | 3)), "{:?}: {told}", output.status);
    let run = std::fs::read_dir(&runs).unwrap().next().unwrap().unwrap().path();
    let state = State::fold(&journal::read(&run.join("journal.jsonl")).unwrap().lines);
    assert_eq!(state.steps.len(), 3);
    let rows = csv(&run.join("results.csv"));
    assert_eq!(rows.len(), 6, "three steps, two repetitions");
    for row in &rows {
        accounted(row, documents);
        agrees_with_engine(row);
    }
    for (index, step) in state.steps.iter().enumerate() {
        for pass in &step.passes {
            tokens_are_the_engines(pass);
            let outputs = run.join(format!("outputs/step-{:02}-pass-{}.jsonl", index + 1, pass.number));
            scored_again(protocol, &outputs, pass);
        }
    }
}

fn aforo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aforo"));
    command.args(arguments);
    command
}

type Row = HashMap<String, String>;

fn csv(path: &Path) -> Vec<Row> {
    csv::Reader::from_path(path).unwrap().deserialize().collect::<Result<_, _>>().unwrap()
}

fn number(row: &Row, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} is {:?}", row[column]))
}

/// Every document has its answer, and every request its place in the balance.
fn accounted(row: &Row, documents: usize) {
    let documents = documents as f64;
    assert_eq!(row["status"], "complete");
    assert_eq!(row["simulated"], "false");
    let failed: f64 =
        row.keys().filter(|name| name.starts_with("failed_")).map(|name| number(row, name)).sum();
    for (column, expected) in [
        ("sent", documents),
        ("ids_recovered", documents),
        ("duplicates", 0.0),
        ("first_token_n", documents),
        ("in_flight_peak", number(row, "concurrency")),
        ("accepted", documents - failed),
    ] {
        assert!((number(row, column) - expected).abs() < 1e-9, "{column} is {}, not {expected}", row[column]);
    }
}

/// The client's counts and the engine's own are two witnesses of the same tokens; neither sees more requests than
/// were sent.
fn agrees_with_engine(row: &Row) {
    for (client, engine) in
        [("tokens_in", "engine_prompt_tokens"), ("tokens_out", "engine_generation_tokens")]
    {
        assert_eq!(row[client], row[engine], "{client} and {engine}");
    }
    let seen = number(row, "engine_running_peak") + number(row, "engine_waiting_peak");
    // The two peaks may be of two moments, each of which saw at most what was in flight.
    assert!(number(row, "engine_running_peak") <= number(row, "concurrency"), "{seen}");
    assert!(number(row, "engine_waiting_peak") <= number(row, "concurrency"), "{seen}");
    assert!(number(row, "engine_readings") > 0.0);
    assert_eq!(row["isolation"], "cache-prompt-off");
    assert!(number(row, "prefix_hit_rate").abs() < 1e-9, "a pass found another's prompts in the cache");
}

fn tokens_are_the_engines(pass: &PassState) {
    for request in &pass.requests {
        assert_eq!(request.phase, Phase::Measurement);
        assert_eq!(request.tokens.source, aforo::measure::TokenSource::Engine);
        let out = request.tokens.out.unwrap();
        // llama.cpp sends a token an event; a token that ends no character waits for the next.
        assert!(u64::from(request.events) <= out, "{} events of {out} tokens", request.events);
        let times = [
            request.times.sent,
            request.times.first_event,
            request.times.first_token,
            request.times.last_token,
        ];
        let times: Vec<_> = times.into_iter().map(Option::unwrap).collect();
        assert!(times.is_sorted(), "{times:?}");
    }
}

/// `aforo score` comes to the same verdict for each document.
fn scored_again(protocol: &Path, outputs: &Path, pass: &PassState) {
    let output = aforo(&["score", "--json", "--protocol"])
        .arg(protocol)
        .arg("--outputs")
        .arg(outputs)
        .output()
        .unwrap();
    let score: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let again: HashMap<&str, Verdict> = score["verdicts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| {
            let verdict = serde_json::from_value(v["judgement"]["verdict"].clone()).unwrap();
            (v["document"].as_str().unwrap(), verdict)
        })
        .collect();
    assert_eq!(again.len(), pass.requests.len());
    for request in &pass.requests {
        assert_eq!(again[request.document.as_str()], request.verdict, "{}", request.document);
    }
}
