//! Field cases of load tools whose runs did something else than their reports said: short runs of the binary.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use std::fmt::Write as _;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aforo::measure::Phase;
use aforo::results::cell::Cell;
use aforo::results::columns::{COLUMNS, Column};
use aforo::results::row;
use aforo::run::event::{Event, RunEnd};
use serde_json::{Value, json};
use support::stub::{self, Asked, Reply, right_answer};
use support::{RunFiles, Workplace, count, id};

/// The pages of a vLLM that has no metrics, and right answers.
fn well(asked: &Asked) -> Reply {
    match asked.path.as_str() {
        "/v1/models" => Reply::Page(200, json!({ "data": [{ "id": "m", "owned_by": "vllm" }] })),
        "/v1/chat/completions" => Reply::Answer(right_answer(&asked.user()), "stop"),
        _ => Reply::Page(404, Value::Null),
    }
}

#[test]
fn f14_prompt_tokens_with_images_are_what_the_engine_says() {
    let url = stub::start(|asked| {
        if asked.path != "/v1/chat/completions" {
            return well(asked);
        }
        let content = asked.body["messages"][1]["content"].as_array().cloned().unwrap_or_default();
        let image = content.iter().any(|part| part["type"] == "image_url");
        let prompt_tokens = if image { 1606 } else { 512 };
        let events = [
            json!({ "choices": [{ "delta": { "content": "{\"amount\": \"1\", \"shop\": \"s\"}" }, "finish_reason": "stop" }] }),
            json!({ "choices": [], "usage": { "prompt_tokens": prompt_tokens, "completion_tokens": 9 } }),
        ];
        let body: Vec<_> = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        Reply::Text(200, "text/event-stream", format!("{}data: [DONE]\n\n", body.concat()))
    });
    let place = Workplace::with_server(6, &url);
    std::fs::write(place.path("page.png"), b"\x89PNG\r\n\x1a\n and the rest of it").unwrap();
    let (mut texts, mut references) = (String::new(), String::new());
    for index in 0..6 {
        writeln!(texts, "{}", json!({ "id": id(index), "text": "Read it", "images": ["page.png"] })).unwrap();
        writeln!(references, "{}", json!({ "id": id(index), "amount": "1", "shop": "s" })).unwrap();
    }
    place.write("documents.jsonl", &texts);
    place.write("references.jsonl", &references);
    place.run(&[]).expect(0);
    let row = &place.run_folder().csv()[0];
    assert_eq!((count(row, "tokens_in"), count(row, "accepted")), (6 * 1606, 6));
    assert_eq!(row["tokens_source"], "engine");
}

/// A server before another one, which counts the connections that it is asked for.
fn counting(url: &str) -> (String, Arc<AtomicUsize>) {
    let behind = url.trim_start_matches("http://").trim_end_matches("/v1").to_owned();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let opened = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&opened);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            count.fetch_add(1, Ordering::SeqCst);
            let server = TcpStream::connect(&behind).unwrap();
            pass_on(client.try_clone().unwrap(), server.try_clone().unwrap());
            pass_on(server, client);
        }
    });
    (url, opened)
}

fn pass_on(mut from: TcpStream, mut to: TcpStream) {
    to.set_nodelay(true).unwrap();
    std::thread::spawn(move || {
        // However it ends, it is over.
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
}

#[test]
fn f28_connections_are_opened_before_the_measurement_and_kept() {
    let (url, opened) = counting(&stub::start(well));
    let place = Workplace::with_server(20, &url);
    place.run(&["baseline.concurrency=4", "measure.repetitions=3", "measure.warm_up.documents=3"]).expect(0);
    let rows = place.run_folder().csv();
    assert_eq!(rows.len(), 3);
    for row in &rows {
        assert_eq!(count(row, "sent"), 20);
        assert_eq!(count(row, "connections_opened"), 0);
    }
    // 70 requests on 4 connections; the pages before them have a connection or two of their own.
    let opened = opened.load(Ordering::SeqCst);
    assert!((4..=6).contains(&opened), "{opened} connections");
}

#[test]
fn f29_both_times_of_each_request_are_in_the_journal() {
    let place = Workplace::new(20);
    place.run(&["baseline.concurrency=4"]).expect(0);
    let journal = RunFiles::json_lines(&place.run_folder().path.join("journal.jsonl"));
    let requests: Vec<_> = journal.iter().filter(|line| line["event"] == "request").collect();
    assert_eq!(requests.len(), 1 + 3 + 20);
    for line in requests {
        let [scheduled, sent, first, last] = ["scheduled", "sent", "first_token", "last_token"]
            .map(|name| line["request"]["times"][name].as_u64().unwrap());
        assert!(scheduled <= sent && sent < first && first <= last, "{line}");
    }
}

/// Documents that share little with each other and much with themselves, passed twice.
fn two_passes(prefix_cache: &str) -> [(f64, String); 2] {
    let place = Workplace::new(20);
    let texts: Vec<_> = (0..20)
        .map(|index| {
            let line = json!({ "id": id(index), "text": format!("{index:02}").repeat(400) });
            format!("{line}\n")
        })
        .collect();
    place.write("documents.jsonl", &texts.concat());
    let prefix_cache = format!("measure.prefix_cache={prefix_cache}");
    let sets = [
        "measure.repetitions=2",
        "engine.simulated.prefix_cache=true",
        "engine.simulated.kv_tokens=1000000",
        &prefix_cache,
    ];
    place.run(&sets).expect(0);
    let rows = place.run_folder().csv();
    [0, 1].map(|pass| (rows[pass]["prefix_hit_rate"].parse().unwrap(), rows[pass]["isolation"].clone()))
}

#[test]
fn f32_f34_f79_a_second_pass_finds_nothing_of_the_first_unless_that_is_asked_for() {
    let [(first, isolation), (second, _)] = two_passes("isolated");
    assert_eq!(isolation, "cache-salt");
    assert!(second <= first && first < 0.2, "isolated: {first}, then {second}");

    let [(first, _), (second, isolation)] = two_passes("as-is");
    assert_eq!(isolation, "none");
    assert!(first < 0.4 && second > 0.8, "as it is: {first}, then {second}");
}

#[test]
fn f33_each_pass_and_phase_has_a_key_of_its_own() {
    let salts = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&salts);
    let url = stub::start(move |asked| {
        if asked.path == "/v1/chat/completions" {
            seen.lock().unwrap().push(asked.body["cache_salt"].as_str().unwrap_or_default().to_owned());
        }
        well(asked)
    });
    let place = Workplace::with_server(6, &url);
    place.append("[[sweep]]\nparameter = \"concurrency\"\nvalues = [2]");
    place.run(&["measure.repetitions=2"]).expect(0);

    // The phases one after another: the probe, then a warm-up and a measurement in each of two passes of two steps.
    let mut phases: Vec<(String, usize)> = Vec::new();
    for salt in salts.lock().unwrap().drain(..) {
        match phases.last_mut() {
            Some((last, requests)) if *last == salt => *requests += 1,
            _ => phases.push((salt, 1)),
        }
    }
    let requests: Vec<_> = phases.iter().map(|(_, requests)| *requests).collect();
    assert_eq!(requests, [1, 3, 6, 3, 6, 3, 6, 3, 6]);
    let mut different: Vec<_> = phases.iter().map(|(salt, _)| salt.as_str()).collect();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), phases.len(), "{phases:?}");
    assert!(different.iter().all(|salt| !salt.is_empty()));

    let keys = place.run_folder().events().into_iter().filter_map(|event| match event {
        Event::PassStarted { pass_key, .. } => Some(pass_key),
        _ => None,
    });
    let measured: Vec<_> = phases.iter().filter(|(_, n)| *n == 6).map(|(salt, _)| salt.clone()).collect();
    assert_eq!(keys.collect::<Vec<_>>(), measured, "the journal has the salts that were sent");
}

/// Number of the document that a request asks for.
fn document(asked: &Asked) -> usize {
    asked.user().trim_start_matches("Receipt number ").split(':').next().unwrap().parse().unwrap()
}

#[test]
fn f48_f62_failures_are_shown_with_their_reasons_meanwhile_and_at_the_end() {
    let url = stub::start(|asked| match (asked.path.as_str(), document_of_chat(asked)) {
        (_, Some(4 | 5)) => Reply::Page(400, json!({ "error": { "message": "too long" } })),
        (_, Some(6)) => Reply::Page(503, json!({ "error": { "message": "busy" } })),
        (_, Some(7)) => Reply::Answer("{\"amount\": \"7".to_owned(), "length"),
        // Keeps the pass going for longer than the time between two lines.
        (_, Some(11)) => Reply::Hang,
        _ => well(asked),
    });
    let place = Workplace::with_server(12, &url);
    let said = place.run(&["measure.timeout=9s"]).expect(3);
    let progress = said.err.lines().find(|line| line.contains(" ended · ")).expect("a line meanwhile");
    for part in [
        "11/12 ended",
        "7 accepted",
        "1 in flight",
        "failed: truncated 1, rejected 2, engine 1",
        "s left in this pass, 0 more after it",
    ] {
        assert!(progress.contains(part), "{part:?} is not in {progress}");
    }
    let all = "failed: truncated 1, timeout 1, rejected 2, engine 1";
    let last = said.err.lines().find(|line| line.contains("accepted 7 of 12")).expect("a line at the end");
    assert!(last.contains(all), "{last}");
    // A narrow table breaks the list between its words.
    let table: Vec<_> = said.out.split_whitespace().collect();
    for word in ["truncated 1,", "timeout 1,", "rejected 2,", "engine 1"] {
        let words: Vec<_> = word.split(' ').collect();
        assert!(table.windows(2).any(|pair| pair == words), "{word:?} is not in\n{}", said.out);
    }
}

fn document_of_chat(asked: &Asked) -> Option<usize> {
    (asked.path == "/v1/chat/completions").then(|| document(asked))
}

#[test]
fn f49_memory_that_runs_out_under_load_is_a_memory_failure_though_the_start_went_well() {
    // The probe, three of the warm-up and ten of the measurement are answered.
    let url = stub::start(|asked| match asked.path.as_str() {
        "/v1/chat/completions" if asked.number >= 14 => Reply::Page(
            500,
            json!({ "error": { "message": "CUDA out of memory. Tried to allocate 2.00 GiB", "code": 500 } }),
        ),
        _ => well(asked),
    });
    let place = Workplace::with_server(20, &url);
    let said = place.run(&["baseline.concurrency=4"]).expect(3);
    let folder = place.run_folder();
    assert_eq!(folder.state().end, Some(RunEnd::Done), "the pass goes on, and its row says what happened");
    let row = &folder.csv()[0];
    let counts = ["accepted", "failed_memory", "failed_engine", "sent"].map(|column| count(row, column));
    assert_eq!(counts, [10, 10, 0, 20]);
    assert_eq!(row["quality_met"], "false");
    assert!(said.err.contains("failed: memory 10"), "{}", said.err);
}

#[test]
fn f53_f54_each_pass_of_each_step_is_warmed_up_and_no_figure_has_it() {
    let place = Workplace::new(12);
    place.append("[[sweep]]\nparameter = \"concurrency\"\nvalues = [2, 4]");
    place.run(&["measure.repetitions=2"]).expect(0);
    let folder = place.run_folder();
    let mut phases = Vec::new();
    for event in folder.events() {
        match event {
            Event::PhaseStarted { id, phase, .. } if phase != Phase::Probe => phases.push((id, phase, 0)),
            Event::Request { id, request } if request.phase != Phase::Probe => {
                let (of, phase, requests) = phases.last_mut().unwrap();
                assert_eq!((*of, *phase), (id, request.phase), "a phase begins when the one before is over");
                *requests += 1;
            }
            _ => {}
        }
    }
    assert_eq!(phases.len(), 3 * 2 * 2);
    for pair in phases.chunks(2) {
        assert_eq!(pair[0].0, pair[1].0);
        assert_eq!((pair[0].1, pair[0].2), (Phase::WarmUp, 3));
        assert_eq!((pair[1].1, pair[1].2), (Phase::Measurement, 12));
    }
    for (row, outputs) in folder.csv().iter().zip(folder.outputs()) {
        assert_eq!(count(row, "warm_up_sent"), 3);
        for column in ["sent", "accepted", "first_token_n", "ids_recovered", "engine_requests"] {
            assert_eq!(count(row, column), 12, "{column}");
        }
        assert_eq!(RunFiles::json_lines(&outputs).len(), 12);
    }
}

/// First words of the definitions of counts.
const COUNTED: [&str; 9] = [
    "Attempts",
    "Requests",
    "Failures",
    "Outputs",
    "Documents",
    "Distinct",
    "Connections",
    "Readings",
    "Number",
];

#[test]
fn f61_every_figure_is_printed_with_its_formula_unit_and_source() {
    let place = Workplace::new(12);
    place.append("[objective]\nfirst_token_p50 = \"20s\"");
    place.run(&[]).expect(0);
    let state = place.run_folder().state();
    let rows = row::rows(&state);
    let printed = place.aforo(&["columns"]).expect(0).out;
    for column in COLUMNS {
        if matches!((column.cell)(&rows[0]), Cell::Word(_) | Cell::Flag(_)) {
            continue;
        }
        let Column { name, unit, source, definition, .. } = *column;
        // A count has no unit but what is counted, and that it says first.
        let counted = COUNTED.iter().any(|what| definition.starts_with(what));
        assert!(!unit.is_empty() || counted, "{name}: {definition}");
        let formula: &[&str] = match (unit, source) {
            ("s", "engine") => &["histogram"],
            ("s", _) => &[" minus "],
            ("0 to 1", _) => &[" / ", "hare of "],
            _ if unit.contains('/') => &[" / "],
            _ => &[""],
        };
        assert!(formula.iter().any(|part| definition.contains(part)), "{name} [{unit}]: {definition}");
        assert!(["client", "engine", "protocol", "quality rule"].contains(&source), "{name}: {source}");
        let unit = if unit.is_empty() { String::new() } else { format!(" [{unit}]") };
        let entry = format!("{name}{unit}\n    {definition} Source: {source}.\n");
        assert!(printed.contains(&entry), "{entry}");
    }
}

#[test]
fn f67_rows_carry_the_fingerprint_of_everything_fixed() {
    let fingerprint = |sets: &[&str]| {
        let place = Workplace::new(6);
        place.append("[[sweep]]\nparameter = \"concurrency\"\nvalues = [2]");
        // Answers that are cut are not accepted, but measured they are.
        let said = place.run(sets);
        let folder = place.run_folder();
        assert_eq!(folder.state().end, Some(RunEnd::Done), "{said:?}");
        let started = folder.state().started.unwrap().fingerprint;
        let rows = folder.csv();
        assert_eq!(rows.len(), 2);
        assert!(rows.iter().all(|row| row["fingerprint"] == started), "the same in every row of a run");
        started
    };
    let plain = fingerprint(&[]);
    assert_eq!(plain.len(), 64);
    assert_eq!(fingerprint(&["baseline.concurrency=3"]), plain, "what is swept is not fixed");
    for other in
        ["generation.max_tokens=65", "generation.extra.ignore_eos=true", "generation.temperature=0.5"]
    {
        assert_ne!(fingerprint(&[other]), plain, "{other}");
    }
}

#[test]
fn f26_f82_only_the_engines_pages_come_before_the_first_request() {
    let paths = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&paths);
    let url = stub::start(move |asked| {
        seen.lock().unwrap().push(asked.path.clone());
        match asked.path.as_str() {
            "/metrics" => Reply::Text(200, "text/plain", "vllm:num_requests_running 0\n".to_owned()),
            _ => well(asked),
        }
    });
    let place = Workplace::with_server(20, &url);
    place.run(&[]).expect(0);
    let paths = paths.lock().unwrap();
    let first = paths.iter().position(|path| path == "/v1/chat/completions").unwrap();
    let before: Vec<_> = paths[..first].iter().map(String::as_str).collect();
    assert_eq!(before, ["/v1/models", "/metrics", "/version"], "each page once, and nothing else");
    // What the client itself adds is published in each row.
    let row = &place.run_folder().csv()[0];
    assert!(row["client_wait_max_s"].parse::<f64>().is_ok(), "{:?}", row["client_wait_max_s"]);
}
