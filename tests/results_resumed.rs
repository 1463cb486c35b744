//! What results say of passes that were cut, continued or given up: answers count, disturbed times do not.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use std::time::Duration;

use aforo::engine::clock::Drift;
use aforo::engine::openai::Isolation;
use aforo::engine::pages::Found;
use aforo::measure::Phase;
use aforo::protocol::{Deadline, DeadlineFigure, FailureReason};
use aforo::results::cell::Cell;
use aforo::results::row::Row;
use aforo::results::step::Standing;
use aforo::results::{columns, export, row, step, table};
use aforo::run::decision::Choice;
use aforo::run::event::{EngineFound, Event, PassEnd, PassId, RunEnd, RunStarted};
use aforo::run::scrape::EngineFigures;
use serde_json::{Value, json};
use support::records::sweep;
use support::tale::{Tale, cut, engine_gone};
use support::viewer::set;

const DOCUMENTS: usize = 12;
const PASS: PassId = PassId { step: 0, pass: 1 };

/// A baseline of so many passes over twelve documents, and concurrency 2 and 8.
fn tale(repetitions: u32) -> Tale {
    let mut started = sweep(DOCUMENTS, &[2, 8]);
    started.steps[0].repetitions = repetitions;
    Tale::of(started)
}

/// A pass that was cut after its first answer, and completed.
fn resumed(tale: &mut Tale) -> &mut Tale {
    tale.break_off(cut()).gate().choose(Choice::Continue).complete()
}

fn cell(row: &Row<'_>, column: &str) -> Cell {
    (columns::find(column).unwrap().cell)(row)
}

fn csv(tale: &Tale, pass: usize, column: &str) -> String {
    cell(&row::rows(&tale.state)[pass], column).csv()
}

fn result(tale: &Tale) -> Value {
    let rows = row::rows(&tale.state);
    export::json(&tale.state, &rows, &step::summaries(&tale.state, &rows))
}

fn text(tale: &Tale) -> String {
    let rows = row::rows(&tale.state);
    table::text(&tale.state, &rows, &step::summaries(&tale.state, &rows), Some(120))
}

fn standing(tale: &Tale, step: usize) -> Standing {
    let rows = row::rows(&tale.state);
    step::summaries(&tale.state, &rows)[step].standing
}

#[test]
fn a_resumed_pass_has_its_answers_and_no_duration() {
    let mut tale = tale(2);
    resumed(&mut tale).complete();
    for (column, first, second) in [
        ("status", "complete", "complete"),
        ("attempts", "2", "1"),
        ("resumed", "true", "false"),
        ("cut_by", "engine-gone", "none"),
        ("accepted", "12", "12"),
        ("accepted_share", "1", "1"),
        ("ids_recovered", "12", "12"),
        ("duplicates", "0", "0"),
        ("first_token_p50_s", "0.001", "0.001"),
    ] {
        assert_eq!(
            (csv(&tale, 0, column).as_str(), csv(&tale, 1, column).as_str()),
            (first, second),
            "{column}"
        );
    }
    let rows = row::rows(&tale.state);
    for column in ["duration_s", "accepted_per_hour", "tokens_out_per_s"] {
        assert_eq!(cell(&rows[0], column), Cell::Missing("the pass was resumed"), "{column}");
        assert!(matches!(cell(&rows[1], column), Cell::Number(_)), "{column}");
    }
}

#[test]
fn no_reading_of_the_metrics_page_spans_a_resumed_pass() {
    let mut tale = tale(1);
    let figures =
        || Some(Box::new(EngineFigures { readings: 7, running_peak: Some(3.0), ..EngineFigures::default() }));
    let ended = |tale: &mut Tale, id| {
        tale.tell(Event::PhaseEnded { id, phase: Phase::Measurement, in_flight_peak: 2, engine: figures() });
    };
    let id = tale.begin();
    ended(&mut tale, id);
    tale.tell(Event::PassEnded { id, end: cut() });
    assert_eq!(csv(&tale, 0, "engine_readings"), "7", "what was seen of a cut pass is what it was");
    tale.gate().choose(Choice::Continue).begin();
    ended(&mut tale, id);
    tale.tell(Event::PassEnded { id, end: PassEnd::Complete });
    let rows = row::rows(&tale.state);
    for column in ["engine_readings", "engine_running_peak", "engine_preemptions"] {
        assert_eq!(cell(&rows[0], column), Cell::Missing("the pass was resumed"), "{column}");
    }
    assert_eq!(csv(&tale, 0, "in_flight_peak"), "2");
}

#[test]
fn each_request_counts_and_a_document_that_was_asked_again_is_no_duplicate() {
    let mut tale = tale(1);
    let id = tale.begin();
    tale.request(id, 0, Some(FailureReason::Timeout)).request(id, 1, None);
    tale.request(id, 2, Some(FailureReason::Cancelled)).request(id, 3, Some(FailureReason::Connection));
    tale.end_pass(id, PassEnd::Stopped)
        .end(RunEnd::Stopped)
        .resume()
        .gate()
        .choose(Choice::Continue)
        .complete();
    for (column, value) in [
        ("sent", "14"),
        ("accepted", "11"),
        ("failed_timeout", "1"),
        ("failed_cancelled", "1"),
        ("failed_connection", "1"),
        ("ids_recovered", "11"),
        ("duplicates", "0"),
        ("cut_by", "none"),
        ("resumed", "true"),
    ] {
        assert_eq!(csv(&tale, 0, column), value, "{column}");
    }
}

#[test]
fn a_deadline_is_missed_by_a_failure_that_stands_and_not_by_one_that_was_asked_again() {
    let kept = |failed: FailureReason| {
        let limit = Duration::from_millis(5);
        let deadline = Deadline { figure: DeadlineFigure::FirstToken, percentile: 50, limit };
        let mut tale = Tale::of(RunStarted { deadlines: vec![deadline], ..sweep(DOCUMENTS, &[]) });
        let id = tale.begin();
        (0..7).fold(&mut tale, |tale, document| tale.request(id, document, Some(failed)));
        tale.request(id, 7, None).end_pass(id, cut()).gate().choose(Choice::Continue).complete();
        csv(&tale, 0, "deadlines_kept")
    };
    assert_eq!(kept(FailureReason::Timeout), "false");
    assert_eq!(kept(FailureReason::Cancelled), "true");
}

#[test]
fn a_pass_without_an_end_is_interrupted_even_while_the_run_goes_on() {
    let mut tale = tale(1);
    tale.begin();
    assert_eq!(csv(&tale, 0, "status"), "running");
    tale.resume();
    assert_eq!(csv(&tale, 0, "status"), "interrupted");
    tale.gate();
    let mut continued = Tale::of(sweep(DOCUMENTS, &[]));
    continued.begin();
    continued.resume().gate().choose(Choice::Continue).begin();
    assert_eq!(csv(&continued, 0, "status"), "running", "it goes on again");

    tale.choose(Choice::Next).begin();
    assert_eq!(
        (csv(&tale, 0, "status").as_str(), csv(&tale, 1, "status").as_str()),
        ("interrupted", "running")
    );
    tale.end_pass(PassId { step: 1, pass: 1 }, cut()).gate().choose(Choice::Next);
    assert_eq!((csv(&tale, 1, "status").as_str(), csv(&tale, 1, "cut_by").as_str()), ("cut", "engine-gone"));
    assert_eq!(csv(&tale, 1, "accepted_share"), "", "no share of what was not asked");
    for step in [0, 1] {
        assert_eq!(standing(&tale, step), Standing::NotComparable("no complete pass"));
    }
    assert_eq!(standing(&tale, 2), Standing::NotComparable("not taken"));
}

#[test]
fn times_of_a_step_are_those_of_its_undisturbed_passes() {
    let mut tale = tale(3);
    resumed(&mut tale).complete().complete();
    let result = result(&tale);
    let step = &result["steps"][0];
    assert_eq!((&step["passes"], &step["resumed"], &step["step"]), (&json!(3), &json!(1), &json!(1)));
    assert_eq!(step["accepted_share"]["n"], 3);
    for figure in ["accepted_per_hour", "first_token_p50_s", "whole_answer_p50_s"] {
        assert_eq!(step[figure]["n"], 2, "{figure}");
    }
    assert_eq!(standing(&tale, 0), Standing::Reference);
    assert_eq!(result["resumptions"], 0);
    let text = text(&tale);
    assert!(text.contains("3 of 3, 1 resumed"), "{text}");
    assert!(
        text.contains(&format!("step 1 (baseline), pass 1: cut: {}; taken in 2 attempts", engine_gone())),
        "{text}"
    );
}

#[test]
fn a_step_of_resumed_passes_alone_is_not_ranked() {
    let mut tale = tale(2);
    resumed(&mut tale);
    resumed(&mut tale);
    assert_eq!(standing(&tale, 0), Standing::NotComparable("resumed: no undisturbed pass"));
    let step = &result(&tale)["steps"][0];
    assert_eq!((&step["accepted_per_hour"], &step["first_token_p50_s"]), (&Value::Null, &Value::Null));
    assert_eq!(step["accepted_share"]["median"], 1.0);
    let rows = row::rows(&tale.state);
    assert!(step::summaries(&tale.state, &rows)[0].quality_met(), "the answers are as good as any");
    assert!(text(&tale).contains("resumed: no undisturbed pass"));
}

#[test]
fn a_value_that_was_set_stands_among_its_neighbours_and_keeps_its_number() {
    let mut tale = tale(1);
    tale.step(Choice::Next).step(set(4)).step(Choice::Next).complete();
    let text = text(&tale);
    let place = |label: &str| text.find(label).unwrap_or_else(|| panic!("{label} in {text}"));
    assert!(place("baseline") < place("concurrency 2"));
    assert!(place("concurrency 2") < place("concurrency 4"), "{text}");
    assert!(place("concurrency 4") < place("concurrency 8"), "{text}");
    let result = result(&tale);
    let numbers: Vec<_> =
        result["passes"].as_array().unwrap().iter().map(|p| (&p["step"], &p["label"])).collect();
    let expected = [(1, "baseline"), (2, "concurrency 2"), (3, "concurrency 8"), (4, "concurrency 4")];
    assert_eq!(numbers.len(), expected.len());
    for ((step, label), (number, name)) in numbers.into_iter().zip(expected) {
        assert_eq!((step, label), (&json!(number), &json!(name)));
        assert_eq!(result["steps"][number - 1]["label"], name);
    }
    let decision = &result["decisions"][1];
    assert_eq!(
        *decision,
        json!({ "at": "1970-01-01T00:00:00Z", "step": 2, "choice": "set", "parameter": "concurrency", "value": 4, "who": "person", "reason": "" })
    );
    assert_eq!(result["decisions"][0]["value"], Value::Null);
}

#[test]
fn sleep_and_a_clock_that_was_set_are_told_where_the_clocks_were_compared() {
    let clocks = |tale: &Tale, pass| (csv(tale, pass, "slept_s"), csv(tale, pass, "wall_step_s"));
    let told = |slept: &str, set: &str| (slept.to_owned(), set.to_owned());
    let note = |id, slept_s, wall_step_s| Event::ClockNoted {
        id,
        phase: Phase::Measurement,
        drift: Drift { slept_s, wall_step_s },
    };
    let mut tale = tale(4);
    let id = tale.begin();
    assert_eq!(clocks(&tale, 0), told("", ""), "it goes on");
    tale.tell(note(id, 30.0, 0.0)).tell(note(id, 1.5, -3600.0)).end_pass(id, PassEnd::Complete);
    assert_eq!(clocks(&tale, 0), told("31.5", "-3600"));
    assert_eq!(clocks(tale.complete(), 1), told("0", "0"), "compared, and nothing notable");
    assert_eq!(clocks(resumed(&mut tale), 2), told("0", "0"), "each attempt was");
    tale.begin();
    tale.resume().gate().choose(Choice::Continue).complete();
    assert_eq!(clocks(&tale, 3), told("", ""), "nobody looked when the runner died");
    let text = text(&tale);
    assert!(text.contains("the wall clock was set back by 3600.0 s"), "{text}");

    let mut older = sweep(DOCUMENTS, &[]);
    older.schema.minor = 0;
    assert_eq!(clocks(Tale::of(older).complete(), 0), told("", ""), "before version 1.1 nobody looked");
}

#[test]
fn a_pass_says_how_it_was_isolated_on_the_engine_that_answered_it() {
    let found = |isolation| {
        Event::EngineFound(EngineFound {
            base_url: "http://127.0.0.1:9/v1".to_owned(),
            found: Found::default(),
            isolation,
            shared_prompt_share: Some(0.1),
        })
    };
    let mut tale = tale(1);
    tale.tell(found(Isolation::CacheSalt)).step(Choice::Next);
    tale.resume().tell(found(Isolation::NonceLine)).complete();
    assert_eq!(
        (csv(&tale, 0, "isolation").as_str(), csv(&tale, 1, "isolation").as_str()),
        ("cache-salt", "nonce-line")
    );
}

#[test]
fn a_run_that_begins_again_repeats_no_caution() {
    let mut tale = tale(1);
    let caution = || Event::Caution { text: "the engine reports no token usage".to_owned() };
    tale.tell(caution()).complete().resume().tell(caution());
    assert_eq!(tale.state.cautions.len(), 1);
    assert_eq!(result(&tale)["resumptions"], 1);
    assert_eq!(tale.state.pass(PASS).unwrap().attempts, 1);
}
