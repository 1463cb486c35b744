//! The journal: append-only lines whose pure fold is the state, whatever was written and wherever it was cut.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[path = "run_journal/any.rs"]
mod any;
mod support;

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use aforo::measure::Phase;
use aforo::protocol::FailureReason;
use aforo::results::{export, row, step};
use aforo::run::cause::GateCause;
use aforo::run::decision::{Choice, Who};
use aforo::run::event::{Event, Line, PassEnd, PassId, RunEnd, SCHEMA};
use aforo::run::journal::{self, JournalError};
use aforo::run::position::{self, Next};
use aforo::run::state::State;
use any::{any_event, choice, reason, run_end};
use proptest::prelude::*;
use support::Workplace;
use support::records::{decided, ended, line, lines, request, resumed, started};

fn write(path: &Path, lines: &[Line]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines {
        serde_json::to_writer(&mut bytes, line).unwrap();
        bytes.push(b'\n');
    }
    fs::write(path, &bytes).unwrap();
    bytes
}

fn journal_file() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.jsonl");
    (folder, path)
}

fn incremental(lines: &[Line]) -> State {
    let mut state = State::default();
    for line in lines {
        state.apply(line);
    }
    state
}

/// Everything that is computed from a state can be computed, whatever the state.
fn summarise(state: &State) -> Vec<u8> {
    let rows = row::rows(state);
    let steps = step::summaries(state, &rows);
    let json = export::json(state, &rows, &steps).to_string();
    assert!(!json.contains("NaN") && !json.contains("inf"), "{json}");
    export::csv(&rows).unwrap()
}

#[derive(Debug, Clone)]
struct Plan {
    /// Per pass: measured requests with their failure, and warm-up requests.
    passes: Vec<(Vec<Option<FailureReason>>, usize)>,
    gate: Option<Choice>,
    end: Option<RunEnd>,
}

fn plan() -> impl Strategy<Value = Plan> {
    let pass = (proptest::collection::vec(proptest::option::of(reason()), 0..12), 0_usize..4);
    (proptest::collection::vec(pass, 1..5), proptest::option::of(choice()), proptest::option::of(run_end()))
        .prop_map(|(passes, gate, end)| Plan { passes, gate, end })
}

fn events(plan: &Plan) -> Vec<Event> {
    let mut events = vec![Event::RunStarted(Box::new(started(12, plan.passes.len())))];
    for (index, (requests, warm_up)) in plan.passes.iter().enumerate() {
        let id = PassId { step: index, pass: 1 };
        events.push(Event::PassStarted { id, pass_key: "k".to_owned() });
        events.push(Event::PhaseStarted { id, phase: Phase::WarmUp, requests: *warm_up });
        let documents = |n: usize| (0..n).map(|number| format!("d{number}"));
        events.extend(documents(*warm_up).map(|d| ended(index, 1, request(&d, Phase::WarmUp, 0, None))));
        events.push(Event::PhaseStarted { id, phase: Phase::Measurement, requests: requests.len() });
        for ((number, failed), document) in requests.iter().enumerate().zip(documents(requests.len())) {
            let sent = 5_000_000 * number as u64;
            events.push(ended(index, 1, request(&document, Phase::Measurement, sent, *failed)));
        }
        events.push(Event::PhaseEnded { id, phase: Phase::Measurement, in_flight_peak: 1, engine: None });
        events.push(Event::PassEnded { id, end: PassEnd::Complete });
        if let Some(choice) = plan.gate {
            events.push(Event::GateOpened { step: index, cause: GateCause::StepDone });
            let reason = "the card was busy".to_owned();
            events.push(Event::Decision { step: index, choice, who: Who::Person, reason });
        }
    }
    events.extend(plan.end.clone().map(|end| Event::RunEnded { end }));
    events
}

/// What `aforo schema journal` prints.
fn schema() -> &'static jsonschema::Validator {
    static VALIDATOR: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
        let schema = serde_json::from_str(journal::SCHEMA_JSON).unwrap();
        jsonschema::meta::validate(&schema).unwrap();
        jsonschema::validator_for(&schema).unwrap()
    });
    &VALIDATOR
}

/// Checks lines against the schema.
fn documented(lines: &[Line]) {
    for line in lines {
        let line = serde_json::to_value(line).unwrap();
        assert!(schema().is_valid(&line), "src/run/journal.schema.json does not describe {line:#}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_run_read_back_is_the_run_as_it_was_live(plan in plan()) {
        let lines = lines(events(&plan));
        let live = incremental(&lines);
        let (_folder, path) = journal_file();
        write(&path, &lines);
        let read = journal::read(&path).unwrap();
        prop_assert_eq!(&read.lines, &lines);
        prop_assert!(!read.torn);
        let replayed = State::fold(&read.lines);
        prop_assert_eq!(&replayed, &live);
        prop_assert_eq!(summarise(&replayed), summarise(&live));
    }

    #[test]
    fn any_events_fold_the_same_live_and_read_back(events in proptest::collection::vec(any_event(), 0..24)) {
        let lines = lines(events);
        let (_folder, path) = journal_file();
        write(&path, &lines);
        let read = journal::read(&path).unwrap();
        prop_assert_eq!(&read.lines, &lines);
        documented(&lines);
        let live = incremental(&lines);
        prop_assert_eq!(State::fold(&read.lines), live.clone());
        summarise(&live);
        // Whatever comes next can be said of any state.
        position::next(&live);
    }

    #[test]
    fn every_request_is_accounted_for(plan in plan()) {
        let state = State::fold(&lines(events(&plan)));
        let rows = row::rows(&state);
        prop_assert_eq!(rows.len(), plan.passes.len());
        for (row, (requests, warm_up)) in rows.iter().zip(&plan.passes) {
            prop_assert_eq!(row.sent(), requests.len() as u64);
            prop_assert_eq!(row.sent(), row.accepted + row.failed_total());
            let answered = row.pass.requests.iter().filter(|request| request.answered()).count();
            prop_assert_eq!(row.ids_recovered + row.duplicates(), answered as u64);
            // Requests without an answer and requests of the warm-up are in no time.
            prop_assert_eq!(row.first_token.len(), answered);
            prop_assert_eq!(row.whole_answer.len(), answered);
            prop_assert_eq!(row.pass.warm_up.len(), *warm_up);
        }
    }
}

fn small_run() -> Vec<Line> {
    let failed = [None, Some(FailureReason::Quality)];
    lines(events(&Plan {
        passes: vec![(failed.to_vec(), 1)],
        gate: Some(Choice::Next),
        end: Some(RunEnd::Done),
    }))
}

#[test]
fn a_journal_cut_at_any_byte_is_its_complete_lines() {
    let lines = small_run();
    let (_folder, path) = journal_file();
    let bytes = write(&path, &lines);
    let folds: Vec<_> = (0..=lines.len()).map(|complete| State::fold(&lines[..complete])).collect();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    for cut in (0..=bytes.len()).rev() {
        file.set_len(cut as u64).unwrap();
        let journal = journal::read(&path).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        let complete = bytes[..cut].split(|byte| *byte == b'\n').count() - 1;
        assert_eq!(journal.lines.len(), complete, "cut at {cut}");
        assert_eq!(journal.torn, cut > 0 && bytes[cut - 1] != b'\n', "cut at {cut}");
        assert_eq!(State::fold(&journal.lines), folds[complete], "cut at {cut}");
    }
}

#[test]
fn events_of_a_newer_minor_version_are_passed_over() {
    let lines = small_run();
    let (_folder, path) = journal_file();
    write(&path, &lines);
    let mut text = fs::read_to_string(&path).unwrap();
    text = text.replacen(&format!("\"minor\":{}", SCHEMA.minor), "\"minor\":7", 1);
    // A new event, and a new field in one that is known.
    let at = serde_json::to_value(&lines[0]).unwrap()["at"].clone();
    let new = serde_json::json!({ "seq": lines.len(), "at": at, "clock": 1, "event": "gpu-sampled", "gpus": [{ "used": 1 }] });
    writeln!(text, "{new}").unwrap();
    text = text.replacen("\"pass_key\":\"k\"", "\"pass_key\":\"k\",\"colour\":[1,{}]", 1);
    fs::write(&path, text).unwrap();

    let journal = journal::read(&path).unwrap();
    assert_eq!(journal.lines.len(), lines.len() + 1);
    assert_eq!(journal.lines.last().unwrap().event, Event::Unknown);
    let (mut newer, mut own) = (State::fold(&journal.lines), State::fold(&lines));
    newer.started.as_mut().unwrap().schema.minor = SCHEMA.minor;
    own.next_seq += 1;
    assert_eq!(newer, own);
}

/// A journal as version 1.0 wrote it: a gate without a cause, a run without `auto`.
const VERSION_1_0: &str = r#"{"seq":0,"at":"2026-11-30T19:40:12.5Z","clock":1000,"event":"run-started","schema":{"major":1,"minor":0},"aforo":"0.1.0","run":"2026-11-30T19-40-12Z-p","protocol":"p","fingerprint":"00","model":"m","documents":1,"threshold":0.5,"steps":[{"label":"baseline","departs":null,"setting":{"concurrency":1},"repetitions":1},{"label":"concurrency 4","departs":{"parameter":"concurrency","value":4},"setting":{"concurrency":4},"repetitions":1},{"label":"concurrency 8","departs":{"parameter":"concurrency","value":8},"setting":{"concurrency":8},"repetitions":1}],"deadlines":[]}
{"seq":1,"at":"2026-11-30T19:40:12.6Z","clock":2000,"event":"engine-found","base_url":"http://127.0.0.1:1/v1","found":{"engine":"e 1","models":null,"metrics":null,"simulated":false},"isolation":"nonce-line","shared_prompt_share":null}
{"seq":2,"at":"2026-11-30T19:40:12.7Z","clock":3000,"event":"pass-started","step":0,"pass":1,"pass_key":"k"}
{"seq":3,"at":"2026-11-30T19:40:12.8Z","clock":4000,"event":"phase-started","step":0,"pass":1,"phase":"measurement","requests":1}
{"seq":4,"at":"2026-11-30T19:40:13.9Z","clock":9000,"event":"request","step":0,"pass":1,"request":{"document":"d0","phase":"measurement","times":{"scheduled":4000,"sent":4000,"first_event":5000,"first_token":5000,"first_answer":5000,"last_token":8000,"end":8000},"connected_in_s":null,"resent":false,"status":200,"tokens":{"source":"unknown","in":null,"out":null,"cached":null,"reasoning":null,"first_event":null},"events":1,"reads":1,"longest_gap_s":null,"engine":null,"finish":"stop","verdict":"accepted","repairs":0,"fields":{"amount":"match"}}}
{"seq":5,"at":"2026-11-30T19:40:14Z","clock":9100,"event":"phase-ended","step":0,"pass":1,"phase":"measurement","in_flight_peak":1,"engine":null}
{"seq":6,"at":"2026-11-30T19:40:14Z","clock":9200,"event":"pass-ended","step":0,"pass":1,"end":"complete"}
{"seq":7,"at":"2026-11-30T19:40:14Z","clock":9300,"event":"gate-opened","step":0}
{"seq":8,"at":"2026-11-30T19:41:00Z","clock":9400,"event":"decision","step":1,"choice":"skip","who":"person","reason":"no time"}
{"seq":9,"at":"2026-11-30T19:41:00Z","clock":9500,"event":"pass-started","step":2,"pass":1,"pass_key":"l"}
{"seq":10,"at":"2026-11-30T19:41:01Z","clock":9600,"event":"pass-ended","step":2,"pass":1,"end":"stopped"}
{"seq":11,"at":"2026-11-30T19:41:01Z","clock":9700,"event":"run-ended","end":"stopped"}
"#;

#[test]
fn a_journal_of_version_1_0_reads_and_its_run_can_be_taken_up() {
    let (_folder, path) = journal_file();
    fs::write(&path, VERSION_1_0).unwrap();
    let mut lines = journal::read(&path).unwrap().lines;
    assert_eq!(lines[7].event, Event::GateOpened { step: 0, cause: GateCause::StepDone });
    let state = State::fold(&lines);
    assert!(!state.auto && state.steps[1].skipped);
    assert_eq!(state.end, Some(RunEnd::Stopped));
    let statuses: Vec<_> = row::rows(&state).iter().map(|row| row.status.word()).collect();
    assert_eq!(statuses, ["complete", "stopped"]);
    summarise(&state);
    for text in VERSION_1_0.lines() {
        let line: serde_json::Value = serde_json::from_str(text).unwrap();
        assert!(schema().is_valid(&line), "{line:#}");
    }

    lines.push(line(lines.len(), resumed(false)));
    let cause = GateCause::Interrupted;
    assert_eq!(position::next(&State::fold(&lines)), Next::OpenGate { step: 2, cause });
}

#[test]
fn a_newer_major_version_is_refused_before_anything_is_understood() {
    let (_folder, path) = journal_file();
    fs::write(&path, "{\"schema\":{\"major\":2,\"minor\":0},\"all\":\"else\"}\nnot even JSON\n").unwrap();
    let error = journal::read(&path).unwrap_err();
    assert!(matches!(error, JournalError::Newer { found: 2, .. }));
    let text = error.to_string();
    assert!(text.contains("version 2") && text.contains("use a newer aforo"), "{text}");
    assert!(text.contains(path.to_str().unwrap()), "{text}");
}

#[test]
fn damage_inside_a_journal_is_reported_with_its_line() {
    let lines = small_run();
    let (_folder, path) = journal_file();
    write(&path, &lines);
    let whole = fs::read_to_string(&path).unwrap();
    let refused = |text: String| {
        fs::write(&path, text).unwrap();
        journal::read(&path).unwrap_err().to_string()
    };
    let mut without_third: Vec<_> = whole.split_inclusive('\n').collect();
    without_third.remove(2);
    let said = refused(without_third.concat());
    assert!(said.contains(":3:") && said.contains("\"seq\" is 3 where 2 must follow"), "{said}");

    let said = refused(whole.replacen("\"event\":\"pass-started\"", "\"event\":7", 1));
    assert!(said.contains(":2:"), "{said}");
    let said = refused(format!("{whole}\u{0}\u{0}\u{0}\n"));
    assert!(said.contains(&format!(":{}:", lines.len() + 1)), "{said}");
}

#[test]
fn every_line_of_a_run_is_as_its_schema_says() {
    let place = Workplace::new(12);
    place.append(
        "[[sweep]]\nparameter = \"concurrency\"\nvalues = [4]\n[objective]\nfirst_token_p50 = \"2s\"",
    );
    place.run(&["engine.simulated.error_rate=0.2", "engine.simulated.broken_rate=0.2"]);
    let lines = place.run_folder().journal().lines;
    documented(&lines);
    // Nor does it let anything through.
    let schema = serde_json::from_str(&place.aforo(&["schema", "journal"]).expect(0).out).unwrap();
    let mut line = serde_json::to_value(&lines[0]).unwrap();
    line["colour"] = "red".into();
    assert!(!jsonschema::is_valid(&schema, &line));
}

#[test]
fn the_schema_lets_through_nothing_that_no_event_is() {
    let line = |event: serde_json::Value| {
        let mut line = serde_json::json!({ "seq": 0, "at": "2026-11-30T19:40:12.5Z", "clock": 1 });
        line.as_object_mut().unwrap().extend(event.as_object().unwrap().clone());
        line
    };
    let decision = |choice: serde_json::Value| {
        line(
            serde_json::json!({ "event": "decision", "step": 0, "choice": choice, "who": "person", "reason": "" }),
        )
    };
    let ended = |end: serde_json::Value| {
        line(serde_json::json!({ "event": "pass-ended", "step": 0, "pass": 1, "end": end }))
    };
    let gate = |cause: serde_json::Value| {
        line(serde_json::json!({ "event": "gate-opened", "step": 0, "cause": cause }))
    };
    let gone = serde_json::json!({ "trouble": { "engine-gone": { "text": "x" } } });
    for allowed in [
        decision("stop-after-pass".into()),
        decision(serde_json::json!({ "set": { "parameter": "concurrency", "value": 3 } })),
        ended(serde_json::json!({ "cut": "paused" })),
        ended(serde_json::json!({ "cut": gone })),
        gate("interrupted".into()),
        gate(serde_json::json!({ "cut": gone })),
    ] {
        assert!(schema().is_valid(&allowed), "{allowed:#}");
        assert!(serde_json::from_value::<Line>(allowed.clone()).is_ok(), "{allowed:#}");
    }
    for refused in [
        decision("set".into()),
        decision("continue ".into()),
        decision(serde_json::json!({ "set": { "parameter": "colour", "value": 3 } })),
        ended("cut".into()),
        ended(serde_json::json!({ "cut": "bored" })),
        ended(serde_json::json!({ "cut": { "trouble": "engine-gone" } })),
        gate("no-engine".into()),
        gate(serde_json::json!({ "cut": "paused", "colour": 1 })),
        line(serde_json::json!({ "event": "pass-continued", "step": 0, "pass": 1, "requests": 3 })),
        line(serde_json::json!({ "event": "run-resumed", "aforo": "0.1.0", "auto": false })),
    ] {
        assert!(!schema().is_valid(&refused), "{refused:#}");
    }
}

#[test]
fn a_place_at_the_end_of_the_numbers_does_not_overflow() {
    let last = line(usize::MAX, Event::Caution { text: String::new() });
    assert_eq!(State::fold([&last]).next_seq, u64::MAX);
}

#[test]
fn skipping_after_the_last_step_leaves_out_nothing_that_was_measured() {
    let skip = |step| decided(step, Choice::Skip);
    let begun = Event::PassStarted { id: PassId { step: 0, pass: 1 }, pass_key: String::new() };
    let state =
        State::fold(&lines(vec![Event::RunStarted(Box::new(started(1, 2))), begun, skip(0), skip(1)]));
    assert!(!state.steps[0].skipped, "it was measured");
    assert!(state.steps[1].skipped);
    assert_eq!(state.decisions.len(), 2, "both decisions are kept");
}
