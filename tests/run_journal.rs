//! The journal: append-only lines whose pure fold is the state, whatever was written and wherever it was cut.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use aforo::engine::Stamp;
use aforo::engine::openai::{Finish, Isolation};
use aforo::engine::pages::Found;
use aforo::measure::{EngineTimes, FieldVerdict, Phase, RequestRecord};
use aforo::protocol::FailureReason;
use aforo::results::{export, row, step};
use aforo::run::cause::GateCause;
use aforo::run::decision::{Choice, Who};
use aforo::run::event::{EngineFound, Event, Line, PassEnd, PassId, RunEnd, SCHEMA};
use aforo::run::journal::{self, JournalError};
use aforo::run::scrape::EngineFigures;
use aforo::run::state::State;
use proptest::prelude::*;
use support::Workplace;
use support::records::{ended, line, lines, request, started};

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

// ---- sequences that a runner could write

#[derive(Debug, Clone)]
struct Plan {
    /// Per pass: measured requests with their failure, and warm-up requests.
    passes: Vec<(Vec<Option<FailureReason>>, usize)>,
    gate: Option<Choice>,
    end: Option<RunEnd>,
}

fn reason() -> impl Strategy<Value = FailureReason> {
    proptest::sample::select(FailureReason::ALL.to_vec())
}

fn choice() -> impl Strategy<Value = Choice> {
    proptest::sample::select(vec![Choice::Next, Choice::Repeat, Choice::Skip, Choice::Auto, Choice::Stop])
}

fn run_end() -> impl Strategy<Value = RunEnd> {
    prop_oneof![Just(RunEnd::Done), Just(RunEnd::Stopped), ".*".prop_map(|why| RunEnd::Failed { why })]
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

// ---- sequences that nobody would write

fn pass_id() -> impl Strategy<Value = PassId> {
    (0_usize..4, 0_u32..4).prop_map(|(step, pass)| PassId { step, pass })
}

fn phase() -> impl Strategy<Value = Phase> {
    proptest::sample::select(vec![Phase::Probe, Phase::WarmUp, Phase::Measurement])
}

/// Any finite number; what is no number is `null` in JSON and never reaches an event.
fn number() -> impl Strategy<Value = f64> {
    use proptest::num::f64::{NEGATIVE, NORMAL, POSITIVE, SUBNORMAL, ZERO};
    POSITIVE | NEGATIVE | NORMAL | SUBNORMAL | ZERO
}

fn any_request() -> impl Strategy<Value = RequestRecord> {
    let stamps = proptest::array::uniform5(proptest::option::of(any::<u64>()));
    let numbers = proptest::array::uniform3(proptest::option::of(number()));
    let counts = proptest::array::uniform4(proptest::option::of(0_u64..1 << 40));
    (".*", phase(), stamps, numbers, counts, proptest::option::of(reason()), ".*", any::<bool>()).prop_map(
        |(document, phase, stamps, [first, second, third], counts, failed, text, flag)| {
            let mut record = request(&document, phase, 0, failed);
            let stamp = |index: usize| stamps[index].map(Stamp::from_nanos);
            record.times.sent = stamp(0);
            record.times.first_token = stamp(1);
            record.times.last_token = stamp(2);
            record.times.scheduled = stamp(3).unwrap_or(Stamp::from_nanos(0));
            record.times.end = stamp(4).unwrap_or(Stamp::from_nanos(0));
            record.connected_in_s = first;
            record.longest_gap_s = second;
            record.engine = third.map(|s| EngineTimes { wait_s: Some(s), prefill_s: None, decode_s: first });
            [record.tokens.input, record.tokens.out, record.tokens.cached, record.tokens.first_event] =
                counts;
            record.resent = flag;
            record.finish = Some(if flag { Finish::Other(text.clone()) } else { Finish::Length });
            record.fields = [(text, FieldVerdict::Unreadable)].into_iter().collect();
            record
        },
    )
}

fn any_event() -> impl Strategy<Value = Event> {
    let figures =
        (number(), proptest::option::of(number()), any::<u32>()).prop_map(|(period_s, peak, readings)| {
            Box::new(EngineFigures {
                kv_peak: peak,
                running_peak: peak,
                readings,
                period_s,
                ..EngineFigures::default()
            })
        });
    let found = (".*", number()).prop_map(|(base_url, share)| EngineFound {
        base_url,
        found: Found { simulated: true, ..Found::default() },
        isolation: Isolation::NonceLine,
        shared_prompt_share: Some(share),
    });
    prop_oneof![
        (0_usize..5, 0_usize..5).prop_map(|(d, s)| Event::RunStarted(Box::new(started(d, s)))),
        found.prop_map(Event::EngineFound),
        ".*".prop_map(|text| Event::Caution { text }),
        (pass_id(), ".*").prop_map(|(id, pass_key)| Event::PassStarted { id, pass_key }),
        (pass_id(), phase(), any::<u16>()).prop_map(|(id, phase, n)| Event::PhaseStarted {
            id,
            phase,
            requests: n.into()
        }),
        (pass_id(), any_request())
            .prop_map(|(id, request)| Event::Request { id, request: Box::new(request) }),
        (pass_id(), phase(), any::<u32>(), proptest::option::of(figures)).prop_map(
            |(id, phase, in_flight_peak, engine)| Event::PhaseEnded { id, phase, in_flight_peak, engine }
        ),
        (pass_id(), any::<bool>()).prop_map(|(id, complete)| Event::PassEnded {
            id,
            end: if complete { PassEnd::Complete } else { PassEnd::Stopped },
        }),
        (0_usize..5).prop_map(|step| Event::GateOpened { step, cause: GateCause::StepDone }),
        (0_usize..5, choice(), ".*").prop_map(|(step, choice, reason)| Event::Decision {
            step,
            choice,
            who: Who::Rule,
            reason
        }),
        run_end().prop_map(|end| Event::RunEnded { end }),
    ]
}

/// Checks lines against what `aforo schema journal` prints.
fn documented(lines: &[Line]) {
    static SCHEMA: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
        let schema = serde_json::from_str(journal::SCHEMA_JSON).unwrap();
        jsonschema::meta::validate(&schema).unwrap();
        jsonschema::validator_for(&schema).unwrap()
    });
    for line in lines {
        let line = serde_json::to_value(line).unwrap();
        assert!(SCHEMA.is_valid(&line), "src/run/journal.schema.json does not describe {line:#}");
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
    text = text.replacen("\"minor\":1", "\"minor\":7", 1);
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
fn a_place_at_the_end_of_the_numbers_does_not_overflow() {
    let last = line(usize::MAX, Event::Caution { text: String::new() });
    assert_eq!(State::fold([&last]).next_seq, u64::MAX);
}

#[test]
fn skipping_after_the_last_step_leaves_out_nothing_that_was_measured() {
    let skip = |step| Event::Decision { step, choice: Choice::Skip, who: Who::Person, reason: String::new() };
    let begun = Event::PassStarted { id: PassId { step: 0, pass: 1 }, pass_key: String::new() };
    let state =
        State::fold(&lines(vec![Event::RunStarted(Box::new(started(1, 2))), begun, skip(0), skip(1)]));
    assert!(!state.steps[0].skipped, "it was measured");
    assert!(state.steps[1].skipped);
    assert_eq!(state.decisions.len(), 2, "both decisions are kept");
}
