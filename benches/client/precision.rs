//! How far the client's time of the first token is from the moment when the server wrote it, by the simulated
//! engine's own record on the same clock.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use aforo::engine::simulated::{Answers, SimulatedEngine};
use aforo::protocol::{EngineKind, read};
use aforo::run::prepare::{Manner, Prepare};
use serde_json::{Map, Value};

use super::whole::write_protocol;

const STREAMS: usize = 64;
const REQUESTS: usize = 1_024;

fn answer() -> String {
    "measured ".repeat(40).trim_end().to_owned()
}

/// The child: the simulated engine, recording, until its standard input closes.
pub(crate) fn simulate() {
    let folder = tempfile::tempdir().unwrap();
    let toml = "name = \"s\"\n[corpus]\ndocuments = \"d\"\nreferences = \"r\"\n[prompt]\nuser = \"{{text}}\"\n\
                [generation]\nmax_tokens = 1\n[engine]\nkind = \"simulated\"\n[engine.simulated]\niteration = \"10ms\"\n\
                iteration_per_sequence = \"10us\"\nprefill_tokens_per_second = 100000.0\nkv_tokens = 1000000\n\
                wrong_rate = 0.0\nbroken_rate = 0.0\n[quality]\nparse = \"json\"\nthreshold = 0.0\n[quality.fields]\n\
                answer = { compare = \"text\" }\n";
    let path = folder.path().join("p.toml");
    std::fs::write(&path, toml).unwrap();
    let EngineKind::Simulated(model) = read(&path, &[]).unwrap().protocol.engine.kind else { unreachable!() };
    let fields: Map<String, Value> = [("answer".to_owned(), Value::from(answer()))].into_iter().collect();
    let answers =
        Answers::new((0..REQUESTS).map(|index| (format!("{index} {}", "x".repeat(900)), fields.clone())));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let engine =
        runtime.block_on(SimulatedEngine::start(&model, answers, ([127, 0, 0, 1], 0).into())).unwrap();
    engine.start_recording(REQUESTS + 1);
    println!("{}", engine.base_url());
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    runtime.block_on(engine.stop());
}

pub(crate) fn report() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .arg("simulate")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let url = url.trim();
    let stamps = client(url);
    let mut errors: Vec<f64> = server(url)
        .into_iter()
        .filter_map(|(id, written)| Some((*stamps.get(&id)? as f64 - written as f64) / 1e6))
        .collect();
    assert_eq!(errors.len(), REQUESTS);
    errors.sort_by(f64::total_cmp);
    let at = |percent: usize| errors[(errors.len() * percent).div_ceil(100) - 1];
    println!("## Error of the first token's time\n");
    println!("{STREAMS} streams, {REQUESTS} requests: client's stamp minus the server's, in ms.\n");
    println!("| min | p50 | p90 | p99 | max |\n|---|---|---|---|---|");
    println!(
        "| {:.3} | {:.3} | {:.3} | {:.3} | {:.3} |\n",
        errors[0],
        at(50),
        at(90),
        at(99),
        errors[errors.len() - 1]
    );
    drop(child.stdin.take());
    child.wait().unwrap();
}

/// Request id and time of the first token as the client saw it, in nanoseconds.
fn client(url: &str) -> HashMap<String, u64> {
    let folder = tempfile::tempdir().unwrap();
    let path = write_protocol(&folder, url, "simulated", REQUESTS, STREAMS, &answer());
    let prepared = Prepare::new(read(&path, &[]).unwrap()).unwrap();
    let run_folder = prepared.create(&folder.path().join("runs")).unwrap();
    let runner = prepared.open(run_folder, Manner { auto: true, ..Manner::default() }).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let ended = runtime.block_on(runner.run()).unwrap();
    let pass = &ended.state.steps[0].passes[0];
    assert_eq!(pass.in_flight_peak, u32::try_from(STREAMS).ok(), "exactly the asked number in flight");
    let stamped = pass.requests.iter().map(|request| {
        let id = format!("aforo-1-1-measurement-{}", request.document.trim_start_matches('d'));
        (id, request.times.first_token.unwrap().nanos())
    });
    stamped.collect()
}

/// Request id and time at which the server wrote the first token, in nanoseconds.
fn server(url: &str) -> Vec<(String, u64)> {
    let address = url.trim_start_matches("http://").trim_end_matches("/v1");
    let mut socket = TcpStream::connect(address).unwrap();
    write!(socket, "GET /record HTTP/1.0\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    socket.read_to_string(&mut page).unwrap();
    let json = page.split_once("\r\n\r\n").unwrap().1;
    let records: Value = serde_json::from_str(json).unwrap();
    let records = records.as_array().cloned().unwrap();
    let measured = records.into_iter().filter_map(|record| {
        let id = record["request_id"].as_str()?.to_owned();
        id.contains("measurement").then_some((id, record["first_content_ns"].as_u64()?))
    });
    measured.collect()
}
