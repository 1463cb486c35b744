//! Field cases of load tools whose figures meant something else than their names: what records, folds and rows make
//! of given times and counts.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use aforo::engine::Stamp;
use aforo::engine::metrics::Delta;
use aforo::engine::openai::{Answer, End, Exchange, Isolation};
use aforo::engine::pages::Found;
use aforo::measure::{Capture, Phase, RequestRecord, TokenSource};
use aforo::protocol::FailureReason;
use aforo::quality::Judgement;
use aforo::results::step::Standing;
use aforo::results::{columns, row, step};
use aforo::run::event::{EngineFound, Event, PassEnd, PassId, RunEnd};
use aforo::run::scrape::EngineFigures;
use aforo::run::state::State;
use serde_json::{Value, json};
use support::records::{ended, lines, request, started};

const ID: PassId = PassId { step: 0, pass: 1 };

fn at(milliseconds: u64) -> Stamp {
    Stamp::from_nanos(milliseconds * 1_000_000)
}

/// A run of one complete pass.
fn run_of(warm_up: Vec<RequestRecord>, measured: Vec<RequestRecord>) -> State {
    let mut events = vec![
        Event::RunStarted(Box::new(started(measured.len(), 1))),
        Event::PassStarted { id: ID, pass_key: "k".to_owned() },
        Event::PhaseStarted { id: ID, phase: Phase::WarmUp, requests: warm_up.len() },
    ];
    events.extend(warm_up.into_iter().map(|request| ended(0, 1, request)));
    events.push(Event::PhaseStarted { id: ID, phase: Phase::Measurement, requests: measured.len() });
    events.extend(measured.into_iter().map(|request| ended(0, 1, request)));
    events.push(Event::PassEnded { id: ID, end: PassEnd::Complete });
    events.push(Event::RunEnded { end: RunEnd::Done });
    State::fold(&lines(events))
}

/// The cell of the only row, as `results.csv` has it.
fn cell(state: &State, column: &str) -> String {
    (columns::find(column).unwrap().cell)(&row::rows(state)[0]).csv()
}

/// Accepted answers, all the same but for their document.
fn alike(count: usize, change: impl Fn(&mut RequestRecord)) -> Vec<RequestRecord> {
    let one = |number: usize| {
        let mut record = request(&format!("d{number}"), Phase::Measurement, 0, None);
        change(&mut record);
        record
    };
    (0..count).map(one).collect()
}

#[test]
fn f07_f08_time_per_output_token_is_over_tokens_after_the_first_event() {
    // Half a second to the first token, one second from there on, in 5 events that 3 reads brought.
    let streamed = |out: u64, first_event: Option<u64>| {
        alike(12, |record| {
            record.times.first_event = Some(at(100));
            record.times.first_token = Some(at(500));
            record.times.first_answer = Some(at(500));
            record.times.last_token = Some(at(1500));
            record.times.end = at(1900);
            (record.events, record.reads) = (5, 3);
            (record.tokens.out, record.tokens.first_event) = (Some(out), first_event);
        })
    };
    for (out, first_event, expected) in
        [(21, Some(1), Some(0.05)), (21, None, Some(0.05)), (21, Some(11), Some(0.1)), (1, None, None)]
    {
        let records = streamed(out, first_event);
        assert_eq!(records[0].time_per_output_token(), expected, "{out} tokens, {first_event:?} at first");
        let shown = expected.map_or_else(String::new, |seconds| seconds.to_string());
        assert_eq!(cell(&run_of(Vec::new(), records), "time_per_output_token_p50_s"), shown);
    }
    let mut all_at_once = streamed(8, Some(8)).remove(0);
    assert_eq!(all_at_once.time_per_output_token(), None, "nothing came after the first event");
    all_at_once.tokens.out = None;
    assert_eq!(all_at_once.time_per_output_token(), None, "events are not counted instead");
}

/// The record of a streamed answer in these pieces of text.
fn recorded(document: &str, pieces: &[&str], usage: Option<Value>) -> RequestRecord {
    let chunk = |delta: Value, finish: Value| json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] });
    let mut events: Vec<_> =
        pieces.iter().map(|piece| chunk(json!({ "content": piece }), Value::Null)).collect();
    events.push(chunk(json!({}), "stop".into()));
    events.extend(usage.map(|usage| json!({ "choices": [], "usage": usage })));
    let mut answer = Answer::new();
    for (number, event) in (10_u64..).zip(&events) {
        answer.read(format!("data: {event}\n\n").as_bytes(), at(number));
    }
    answer.read(b"data: [DONE]\n\n", at(90));
    answer.end(End::Complete, at(91));
    let capture = Capture {
        index: 0,
        phase: Phase::Measurement,
        scheduled: at(0),
        ended: at(91),
        exchange: Exchange { sent: Some(at(0)), status: Some(200), ..Exchange::default() },
        answer,
        cancelled: false,
    };
    assert_eq!(capture.failure(), None);
    RequestRecord::new(document, &capture, &Judgement::failed(FailureReason::Quality, "not judged here"))
}

#[test]
fn f11_tokens_are_the_engines_count_or_unknown() {
    // Runs of spaces: encoded again, this text would have far fewer tokens.
    let pieces = ["{", "            ", "            ", "}"];
    let usage = json!({ "prompt_tokens": 512, "completion_tokens": 26 });
    let all = |usage: Option<Value>| -> Vec<_> {
        (0..12).map(|number| recorded(&format!("d{number}"), &pieces, usage.clone())).collect()
    };

    let counted = all(Some(usage));
    assert_eq!(counted[0].events, 4);
    let tokens = counted[0].tokens;
    assert_eq!((tokens.source, tokens.input, tokens.out), (TokenSource::Engine, Some(512), Some(26)));
    let state = run_of(Vec::new(), counted.clone());
    assert_eq!(cell(&state, "tokens_out"), (12 * 26).to_string());
    assert_eq!(cell(&state, "tokens_source"), "engine");
    // 3 ms from the first piece to the last.
    assert_eq!(cell(&state, "time_per_output_token_p50_s"), "0.00012");

    let uncounted = all(None);
    let tokens = uncounted[0].tokens;
    assert_eq!(uncounted[0].events, 4);
    assert_eq!((tokens.source, tokens.input, tokens.out), (TokenSource::Unknown, None, None));
    let mut partly = counted;
    partly[7] = uncounted[7].clone();
    for records in [uncounted, partly] {
        let state = run_of(Vec::new(), records);
        for column in ["tokens_in", "tokens_out", "tokens_out_per_s"] {
            assert_eq!(cell(&state, column), "", "{column}: no sum where one count is unknown");
        }
        assert_eq!(cell(&state, "tokens_source"), "unknown");
        assert_eq!(cell(&state, "first_token_n"), "12", "the times are known all the same");
    }
    let state = run_of(Vec::new(), all(None));
    assert_eq!(cell(&state, "time_per_output_token_p50_s"), "");
}

#[test]
fn f29_waiting_in_the_client_is_kept_and_is_not_the_engines() {
    let waited = alike(12, |record| {
        record.times.scheduled = at(0);
        record.times.sent = Some(at(1400));
        record.times.first_token = Some(at(1500));
        record.times.last_token = Some(at(1900));
        record.times.end = at(1950);
    });
    let written = serde_json::to_value(&waited[0]).unwrap();
    assert_eq!(written["times"]["scheduled"], json!(at(0)));
    assert_eq!(written["times"]["sent"], json!(at(1400)));
    let state = run_of(Vec::new(), waited);
    for (column, seconds) in [
        ("client_wait_max_s", "1.4"),
        ("first_token_mean_s", "0.1"),
        ("first_token_p50_s", "0.1"),
        ("whole_answer_p50_s", "0.5"),
    ] {
        assert_eq!(cell(&state, column), seconds, "{column}");
    }
}

#[test]
fn f37_the_duration_begins_with_the_first_request_sent_in_the_measurement() {
    let mut warm_up = request("d0", Phase::WarmUp, 0, None);
    warm_up.times.end = at(90_000);
    let mut measured = alike(12, |_| {});
    for (number, record) in (0_u64..).zip(&mut measured) {
        record.times.scheduled = at(95_000);
        record.times.sent = Some(at(100_000 + 100 * number));
        record.times.end = at(102_000);
    }
    // Requests are in the journal as they end: the one sent first may be the last.
    measured.reverse();
    let state = run_of(vec![warm_up], measured);
    assert_eq!(cell(&state, "duration_s"), "2");
    // 12 accepted in two seconds.
    assert_eq!(cell(&state, "accepted_per_hour"), "21600");
}

/// A pass on an engine that counted so many hits in a thousand prompt tokens, a tenth of each prompt being shared.
fn with_hits(isolation: Isolation, hits: f64) -> State {
    let delta =
        Delta { prefix_queries: Some(1000.0), prefix_hits: Some(hits), reset: false, ..Delta::default() };
    let engine = Some(Box::new(EngineFigures { delta, readings: 3, ..EngineFigures::default() }));
    let found = EngineFound {
        base_url: "http://127.0.0.1:9/v1".to_owned(),
        found: Found::default(),
        isolation,
        shared_prompt_share: Some(0.1),
    };
    let mut events = vec![
        Event::RunStarted(Box::new(started(4, 1))),
        Event::EngineFound(found),
        Event::PassStarted { id: ID, pass_key: "k".to_owned() },
        Event::PhaseStarted { id: ID, phase: Phase::Measurement, requests: 4 },
    ];
    events.extend(alike(4, |_| {}).into_iter().map(|request| ended(0, 1, request)));
    events.push(Event::PhaseEnded { id: ID, phase: Phase::Measurement, in_flight_peak: 1, engine });
    events.push(Event::PassEnded { id: ID, end: PassEnd::Complete });
    events.push(Event::RunEnded { end: RunEnd::Done });
    State::fold(&lines(events))
}

#[test]
fn f32_f34_f79_hits_that_the_isolation_does_not_explain_are_flagged() {
    let contradicted = Standing::NotComparable("prefix cache not isolated");
    for (isolation, hits, flag, standing) in [
        (Isolation::CacheSalt, 900.0, "true", contradicted),
        (Isolation::Reset, 900.0, "true", contradicted),
        (Isolation::CacheSalt, 120.0, "false", Standing::Reference),
        (Isolation::None, 900.0, "false", Standing::Reference),
    ] {
        let state = with_hits(isolation, hits);
        assert_eq!(cell(&state, "prefix_hit_rate"), (hits / 1000.0).to_string(), "shown whatever it is");
        assert_eq!(cell(&state, "prefix_cache_contradiction"), flag, "{hits} hits");
        let rows = row::rows(&state);
        assert_eq!(step::summaries(&state, &rows)[0].standing, standing, "{hits} hits");
    }
}
