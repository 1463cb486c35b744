//! Every request is in exactly one count, and only answers are in the times.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use std::fmt::Write as _;

use aforo::measure::{Phase, RequestRecord};
use aforo::protocol::FailureReason;
use aforo::results::{row, step};
use aforo::run::event::{Event, PassEnd, PassId, RunEnd};
use aforo::run::state::State;
use serde_json::json;
use support::records::{ended, lines, request, started};
use support::stub::{self, Asked, Reply};
use support::{CsvRow, RunFiles, Workplace, count, id};

/// A failure of each kind that a server can cause, chosen by the document; the others are right. The probe and the
/// warm-up ask for the first documents, which are.
fn moody(asked: &Asked) -> Reply {
    let user = asked.user();
    let number: usize =
        user.trim_start_matches("Receipt number ").split(':').next().unwrap().parse().unwrap();
    match number {
        4 => Reply::Answer("{\"amount\": \"4".to_owned(), "length"),
        5 => Reply::Answer("I cannot read it".to_owned(), "stop"),
        6 => Reply::Answer(json!({ "amount": "0", "shop": "nowhere" }).to_string(), "stop"),
        7 => Reply::Page(400, json!({ "error": { "message": "too long" } })),
        8 => Reply::Page(500, json!({ "error": { "message": "boom" } })),
        9 => {
            Reply::Page(500, json!({ "error": { "message": "CUDA out of memory. Tried to allocate 2 GiB" } }))
        }
        10 => Reply::HangUp,
        11 => Reply::Hang,
        12 => Reply::Text(200, "text/html", "<html><title>Log in</title></html>".to_owned()),
        13 => Reply::Text(
            200,
            "text/event-stream",
            "data: {\"choices\":[{\"delta\":{\"content\":\"{\"}}]}\n\n".to_owned(),
        ),
        _ => Reply::Answer(stub::right_answer(&user), "stop"),
    }
}

fn moody_server() -> String {
    stub::start(|asked| match asked.path.as_str() {
        "/v1/models" => stub::models("m"),
        "/v1/chat/completions" => moody(asked),
        _ => Reply::Page(404, json!({})),
    })
}

/// What must hold in each row, whatever happened.
#[track_caller]
fn balanced(row: &CsvRow) {
    let failed: u64 = FailureReason::ALL.iter().map(|reason| count(row, &format!("failed_{reason}"))).sum();
    assert_eq!(count(row, "sent"), count(row, "accepted") + failed, "{row:?}");
    let judged =
        ["truncated", "format", "quality"].iter().map(|reason| count(row, &format!("failed_{reason}")));
    let answered = count(row, "accepted") + judged.sum::<u64>();
    assert_eq!(count(row, "ids_recovered") + count(row, "duplicates"), answered, "{row:?}");
    assert!(count(row, "first_token_n") <= answered, "{row:?}");
    for (column, cell) in row {
        let lower = cell.to_ascii_lowercase();
        assert!(!["nan", "inf", "-inf", "null", "-"].contains(&lower.as_str()), "{column} is {cell}");
        assert!(!cell.starts_with(['=', '+', '-', '@', '\t', '\r']), "{column} is {cell}");
    }
}

#[test]
fn each_fault_is_in_the_column_of_its_reason() {
    let place = Workplace::with_server(20, &moody_server());
    let said = place.run(&["measure.timeout=500ms", "baseline.concurrency=4"]).expect(3);
    let folder = place.run_folder();
    let row = &folder.csv()[0];
    balanced(row);
    let failed: Vec<_> =
        FailureReason::ALL.iter().map(|r| (r.word(), count(row, &format!("failed_{r}")))).collect();
    let expected = [
        ("memory", 1),
        ("truncated", 1),
        ("format", 1),
        ("quality", 1),
        ("timeout", 1),
        ("connection", 1),
        ("rejected", 1),
        ("engine", 3),
        ("cancelled", 0),
    ];
    assert_eq!(failed, expected);
    assert_eq!((count(row, "accepted"), count(row, "ids_recovered")), (10, 13));
    assert_eq!(row["quality_met"], "false");
    assert!(said.out.contains("memory 1") && said.out.contains("engine 3"), "{}", said.out);
    assert!(said.err.contains("timeout 1"), "{}", said.err);
}

#[test]
fn f36_j06_times_of_failed_requests_are_in_no_sample() {
    let place = Workplace::with_server(20, &moody_server());
    place.run(&["measure.timeout=500ms", "baseline.concurrency=4"]).expect(3);
    let folder = place.run_folder();
    let row = &folder.csv()[0];
    assert_eq!(count(row, "first_token_n"), 13, "accepted, truncated, format and quality");
    let state = folder.state();
    let rows = row::rows(&state);
    let longest = rows[0].whole_answer.spread().unwrap().max;
    assert!(longest < 0.5, "the request that hung for half a second is among the times: {longest}");
    // It is in the duration: the pass took as long as it took.
    assert!(row["duration_s"].parse::<f64>().unwrap() >= 0.5);
    assert!(!row["tokens_out"].is_empty(), "tokens of the answers are known");
}

#[test]
fn f53_f54_a_slow_and_failing_warm_up_changes_no_figure() {
    let pass = |warm_up: Vec<RequestRecord>| {
        let id = PassId { step: 0, pass: 1 };
        let mut events = vec![Event::RunStarted(Box::new(started(12, 1)))];
        events.push(Event::PassStarted { id, pass_key: String::new() });
        events.push(Event::PhaseStarted { id, phase: Phase::WarmUp, requests: warm_up.len() });
        events.extend(warm_up.into_iter().map(|request| ended(0, 1, request)));
        events.push(Event::PhaseStarted { id, phase: Phase::Measurement, requests: 12 });
        let sent = |number: u64| 900_000_000_000 + number * 3_000_000;
        let documents =
            (0..12).map(|number| request(&format!("d{number}"), Phase::Measurement, sent(number), None));
        events.extend(documents.map(|request| ended(0, 1, request)));
        events.push(Event::PassEnded { id, end: PassEnd::Complete });
        events.push(Event::RunEnded { end: RunEnd::Done });
        let state = State::fold(&lines(events));
        let rows = row::rows(&state);
        aforo::results::export::row_json(&rows[0])
    };
    let mut slow = request("d0", Phase::WarmUp, 0, None);
    slow.times.last_token = Some(aforo::engine::Stamp::from_nanos(800_000_000_000));
    slow.times.end = aforo::engine::Stamp::from_nanos(800_000_000_000);
    slow.connected_in_s = Some(3.0);
    let failed = request("d1", Phase::WarmUp, 0, Some(FailureReason::Timeout));
    let (mut with, without) = (pass(vec![slow, failed]), pass(Vec::new()));
    assert_eq!((with["warm_up_sent"].take(), with["warm_up_failed"].take()), (json!(2), json!(1)));
    (with["warm_up_sent"], with["warm_up_failed"]) = (json!(0), json!(0));
    assert_eq!(with, without);
}

#[test]
fn faults_of_the_simulated_engine_are_counted_and_no_step_meets_the_threshold() {
    let place = Workplace::new(30);
    place.append("[[sweep]]\nparameter = \"concurrency\"\nvalues = [3, 6]");
    let sets = [
        "engine.simulated.wrong_rate=0.4",
        "engine.simulated.broken_rate=0.2",
        "engine.simulated.error_rate=0.2",
        "measure.repetitions=2",
        "quality.threshold=0.9",
        "engine.simulated.seed=3",
    ];
    let said = place.run(&sets).expect(3);
    let rows = place.run_folder().csv();
    assert_eq!(rows.len(), 6);
    for row in &rows {
        balanced(row);
        for column in ["failed_quality", "failed_format", "failed_engine"] {
            assert!(count(row, column) > 0, "{column}: {row:?}");
            assert_eq!(row[column], rows[0][column], "the same seed has the same faults in each pass");
        }
        assert_eq!((row["quality_met"].as_str(), row["simulated"].as_str()), ("false", "true"));
    }
    assert!(said.out.contains("SIMULATED") && said.out.contains("quality not met"), "{}", said.out);
}

#[test]
fn answers_cut_at_the_token_limit_are_truncated_and_nothing_else() {
    let place = Workplace::new(12);
    place.run(&["generation.max_tokens=4"]).expect(3);
    let row = &place.run_folder().csv()[0];
    balanced(row);
    assert_eq!(
        (count(row, "failed_truncated"), count(row, "ids_recovered"), count(row, "accepted")),
        (12, 12, 0)
    );
}

/// Some documents are long; the first, which the probe asks for, is not.
fn with_long_documents(documents: usize, long: impl Fn(usize) -> bool, answer: &str) -> Workplace {
    let place = Workplace::new(documents);
    let (mut texts, mut references) = (String::new(), String::new());
    for index in 0..documents {
        let (text, shop) = if long(index) { ("word ".repeat(400), answer) } else { (String::new(), "s") };
        let text = format!("Receipt {index} {text}");
        writeln!(texts, "{}", json!({ "id": id(index), "text": text })).unwrap();
        writeln!(references, "{}", json!({ "id": id(index), "amount": "1", "shop": shop })).unwrap();
    }
    place.write("documents.jsonl", &texts);
    place.write("references.jsonl", &references);
    place
}

#[test]
fn prompts_beyond_the_context_are_rejected() {
    let place = with_long_documents(12, |index| index >= 10, "s");
    place.run(&["engine.simulated.context=256"]).expect(0);
    let folder = place.run_folder();
    let row = &folder.csv()[0];
    balanced(row);
    assert_eq!(
        (count(row, "failed_rejected"), count(row, "accepted"), count(row, "ids_recovered")),
        (2, 10, 10)
    );
    let failure =
        RunFiles::json_lines(&folder.outputs()[0]).into_iter().find(|line| line["document"] == "doc-11");
    let failure = failure.unwrap()["failure"].clone();
    assert_eq!(failure["reason"], "rejected");
    assert!(failure["text"].as_str().unwrap().contains("256"), "{failure}");
}

#[test]
fn prompts_that_do_not_fit_the_cache_are_memory_failures() {
    let place = with_long_documents(12, |index| index >= 10, "s");
    place.run(&["engine.simulated.kv_tokens=256"]).expect(0);
    let row = &place.run_folder().csv()[0];
    balanced(row);
    assert_eq!((count(row, "failed_memory"), count(row, "accepted")), (2, 10));
}

#[test]
fn answers_beyond_the_time_limit_are_timeouts() {
    let place = with_long_documents(6, |index| index == 5, &"x".repeat(400));
    let sets = [
        "measure.timeout=400ms",
        "engine.simulated.iteration=10ms",
        "generation.max_tokens=200",
        "baseline.concurrency=6",
    ];
    place.run(&sets).expect(0);
    let row = &place.run_folder().csv()[0];
    balanced(row);
    assert_eq!((count(row, "failed_timeout"), count(row, "accepted")), (1, 5));
}

#[test]
fn without_usage_tokens_are_unknown_and_never_zero() {
    let place = Workplace::new(12);
    let said = place.run(&["generation.extra.simulate.no_usage=true"]).expect(0);
    assert!(said.err.contains("no token usage"), "{}", said.err);
    let row = &place.run_folder().csv()[0];
    balanced(row);
    for column in ["tokens_in", "tokens_out", "tokens_out_per_s", "time_per_output_token_p50_s"] {
        assert_eq!(row[column], "", "{column}");
    }
    assert_eq!(row["tokens_source"], "unknown");
    assert!(row["accepted_per_hour"].parse::<f64>().unwrap() > 0.0);
}

#[test]
fn f63_f74_requests_add_up_to_the_documents_at_any_concurrency() {
    let place = Workplace::new(40);
    place.append("[[sweep]]\nparameter = \"concurrency\"\nvalues = [2, 7, 32, 64]");
    place.run(&["engine.simulated.error_rate=0.1"]).expect(0);
    let folder = place.run_folder();
    for row in folder.csv() {
        balanced(&row);
        assert_eq!(count(&row, "sent"), 40);
        assert_eq!(count(&row, "in_flight_peak"), count(&row, "concurrency").min(40));
    }
}

#[test]
fn a_step_counts_as_met_only_when_each_of_its_passes_met_the_threshold() {
    let pass = |number: u32, failed: Option<FailureReason>| {
        let id = PassId { step: 0, pass: number };
        [
            Event::PassStarted { id, pass_key: String::new() },
            ended(0, number, request("a", Phase::Measurement, 0, None)),
            ended(0, number, request("b", Phase::Measurement, 0, failed)),
            Event::PassEnded { id, end: PassEnd::Complete },
        ]
    };
    let met = |second: Option<FailureReason>| {
        let mut first = started(2, 1);
        first.threshold = 1.0;
        let mut events = vec![Event::RunStarted(Box::new(first))];
        events.extend(pass(1, None));
        events.extend(pass(2, second));
        let state = State::fold(&lines(events));
        let rows = row::rows(&state);
        step::summaries(&state, &rows)[0].quality_met()
    };
    assert!(met(None));
    assert!(!met(Some(FailureReason::Quality)));
}
