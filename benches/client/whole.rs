//! The whole client: the runner with its load, judging, outputs and journal, on a protocol of its own.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use aforo::protocol::read;
use aforo::run::prepare::{Manner, Prepare};
use aforo::run::runner::Ended;
use tempfile::TempDir;

use super::cpu_time;
use super::server::{Plan, Server, answer};

/// CPU time of a run with one pass, from the checked protocol to the last line of the journal. Its probe is one more
/// request than the plan has.
pub(crate) fn run(server: &Server, plan: Plan) -> Duration {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("http://127.0.0.1:{}/v1", server.port);
    let path = write_protocol(&folder, &url, "bench", plan.requests, plan.streams, &answer(plan.events));
    let frozen = read(&path, &[]).unwrap();
    let before = cpu_time();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let prepared = Prepare::new(frozen).unwrap();
    let run_folder = prepared.create(&folder.path().join("runs")).unwrap();
    let runner = prepared.open(run_folder, Manner { auto: true, ..Manner::default() }).unwrap();
    let ended: Ended = runtime.block_on(runner.run()).unwrap();
    let cpu = cpu_time() - before;
    let pass = &ended.state.steps[0].passes[0];
    assert_eq!(pass.requests.len(), plan.requests);
    assert!(
        pass.requests.iter().all(|r| r.accepted() && r.events as usize == plan.events),
        "{:?}",
        pass.requests[0]
    );
    assert_eq!(pass.in_flight_peak, u32::try_from(plan.streams.min(plan.requests)).ok());
    cpu
}

/// A protocol whose every document has this answer.
pub(crate) fn write_protocol(
    folder: &TempDir,
    base_url: &str,
    model: &str,
    documents: usize,
    streams: usize,
    answer: &str,
) -> PathBuf {
    let (mut texts, mut references) = (String::new(), String::new());
    for index in 0..documents {
        writeln!(texts, "{{\"id\":\"d{index}\",\"text\":\"{index} {}\"}}", "x".repeat(900)).unwrap();
        writeln!(references, "{{\"id\":\"d{index}\",\"answer\":\"{answer}\"}}").unwrap();
    }
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("documents.jsonl", &texts);
    write("references.jsonl", &references);
    write("protocol.toml", &protocol(base_url, model, streams));
    folder.path().join("protocol.toml")
}

fn protocol(base_url: &str, model: &str, streams: usize) -> String {
    format!(
        r#"
name = "bench"
[corpus]
documents = "documents.jsonl"
references = "references.jsonl"
[prompt]
user = "{{{{text}}}}"
[generation]
max_tokens = 512
[engine]
kind = "openai"
base_url = "{base_url}"
model = "{model}"
[quality]
parse = "json"
threshold = 0.0
[quality.fields]
answer = {{ compare = "text" }}
[measure]
warm_up = {{ documents = 0 }}
repetitions = 1
prefix_cache = "as-is"
[baseline]
concurrency = {streams}
"#
    )
}
