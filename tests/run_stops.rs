//! Runs that do not go to their end by themselves: signals, a dead engine, a full disk, kill -9.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};

use aforo::measure::Phase;
use aforo::protocol::FailureReason;
use aforo::run::decision::{Choice, Who};
use aforo::run::event::{Event, PassEnd, RunEnd};
use rustix::process::Signal;
use serde_json::json;
use support::stub::{self, Asked, Reply};
use support::{RunFiles, Said, Workplace, count, id, measured, signal, wait};

/// Slow enough that a signal finds requests in flight: about 0.1 s a request.
const SLOW: [&str; 3] =
    ["engine.simulated.iteration=10ms", "baseline.concurrency=4", "measure.warm_up.documents=1"];

fn start(place: &Workplace, sets: &[&str]) -> Child {
    place.command(&Workplace::run_arguments(sets)).spawn().unwrap()
}

#[test]
fn the_first_signal_stops_the_run_in_order() {
    for stop in [Signal::INT, Signal::TERM] {
        let place = Workplace::new(40);
        let child = start(&place, &SLOW);
        place.wait_for(measured);
        signal(&child, stop);
        let said = Said::of(wait(child)).expect(4);
        assert!(said.err.contains("stopping"), "{}", said.err);
        assert!(said.out.contains("SIMULATED"), "what was measured is shown: {}", said.out);

        let folder = place.run_folder();
        let journal = folder.journal();
        assert!(!journal.torn);
        assert_eq!(journal.lines.last().unwrap().event, Event::RunEnded { end: RunEnd::Stopped });
        let state = folder.state();
        let pass = &state.steps[0].passes[0];
        assert_eq!(pass.end, Some(PassEnd::Stopped));
        let cancelled =
            pass.requests.iter().filter(|r| r.failure() == Some(FailureReason::Cancelled)).count();
        assert!((1..=4).contains(&cancelled), "{cancelled} of the 4 in flight were cancelled");

        let row = &folder.csv()[0];
        assert_eq!((row["status"].as_str(), row["quality_met"].as_str()), ("stopped", ""));
        assert_eq!(row["accepted_share"], "", "a part of the corpus has no share");
        assert_eq!(count(row, "failed_cancelled"), cancelled as u64);
        assert_eq!(count(row, "sent"), count(row, "accepted") + count(row, "failed_cancelled"));
        assert!(count(row, "sent") < 40);
        assert_eq!(folder.csv_of_journal(), folder.csv_bytes());
        let documents: BTreeSet<_> = pass.requests.iter().map(|request| request.document.as_str()).collect();
        assert_eq!(documents.len(), pass.requests.len(), "each in-flight request is recorded once");
        let lines = RunFiles::json_lines(&folder.outputs()[0]);
        assert_eq!(lines.len(), pass.requests.len());
        assert!(lines.iter().any(|line| line["failure"]["reason"] == "cancelled"));
    }
}

/// A server whose metrics page never comes once the measurement is over, so that the run waits for it.
fn server_that_keeps_waiting() -> String {
    stub::start(|asked: &Asked| match asked.path.as_str() {
        "/v1/models" => stub::models("m"),
        "/metrics" if asked.number < 2 => {
            Reply::Text(200, "text/plain", "vllm:num_requests_running 0\n".to_owned())
        }
        "/v1/chat/completions" => Reply::Answer(stub::right_answer(&asked.user()), "stop"),
        "/metrics" => Reply::Hang,
        _ => Reply::Page(404, json!({})),
    })
}

#[test]
fn the_second_signal_ends_the_run_at_once() {
    let place = Workplace::with_server(6, &server_that_keeps_waiting());
    let mut child = start(&place, &[]);
    place.wait_for(|line| matches!(&line.event, Event::Request { request, .. } if request.phase == Phase::Measurement && request.document == id(5)));
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    signal(&child, Signal::TERM);
    assert!(lines.any(|line| line.unwrap().starts_with("stopping")));
    signal(&child, Signal::INT);
    assert_eq!(wait(child).status.code(), Some(4));
    let journal = place.run_folder().journal();
    assert!(
        !journal.lines.iter().any(|line| matches!(line.event, Event::RunEnded { .. })),
        "it ended in order"
    );
    assert_eq!(journal.lines.iter().filter(|line| measured(line)).count(), 6, "what was recorded is kept");
}

#[test]
fn a_stop_does_not_wait_for_an_engine_that_does_not_answer() {
    let place = Workplace::with_server(6, &stub::start(|_| Reply::Hang));
    let child = start(&place, &[]);
    place.wait_for(|line| matches!(line.event, Event::RunStarted(_)));
    signal(&child, Signal::INT);
    Said::of(wait(child)).expect(4);
    let events = place.run_folder().events();
    assert_eq!(events.last(), Some(&Event::RunEnded { end: RunEnd::Stopped }));
}

#[test]
fn a_hang_up_changes_nothing() {
    let place = Workplace::new(24);
    let child = start(&place, &SLOW);
    place.wait_for(measured);
    signal(&child, Signal::HUP);
    Said::of(wait(child)).expect(0);
    let folder = place.run_folder();
    assert_eq!(folder.state().end, Some(RunEnd::Done));
    assert_eq!(count(&folder.csv()[0], "accepted"), 24);
}

#[test]
fn a_terminal_that_is_gone_changes_nothing() {
    let place = Workplace::new(12);
    let mut child = start(&place, &["engine.simulated.iteration=1ms"]);
    // Both ends are closed: every write fails from now on.
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(wait(child).status.code(), Some(0));
    assert_eq!(place.run_folder().state().end, Some(RunEnd::Done));
}

#[test]
fn f46_f69_what_had_ended_before_kill_9_is_on_the_disk() {
    let place = Workplace::new(40);
    let mut child = start(&place, &SLOW);
    place.wait_for(measured);
    child.kill().unwrap();
    wait(child);
    let folder = place.run_folder();
    assert!(folder.path.join("protocol.toml").exists() && folder.path.join("machine.json").exists());
    let state = folder.state();
    assert!(matches!(folder.events()[0], Event::RunStarted(_)), "what is going to be done comes first");
    assert_eq!(state.end, None);
    let pass = &state.steps[0].passes[0];
    assert!(!pass.requests.is_empty() && pass.end.is_none());
    // A text is on the disk before its journal line.
    let outputs = fs::read(&folder.outputs()[0]).unwrap();
    let complete = outputs.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let texts: BTreeSet<_> = outputs[..complete]
        .split_inclusive(|byte| *byte == b'\n')
        .map(|line| {
            serde_json::from_slice::<serde_json::Value>(line).unwrap()["document"].clone().to_string()
        })
        .collect();
    for request in &pass.requests {
        assert!(
            texts.contains(&json!(request.document).to_string()),
            "{} has a line and no text",
            request.document
        );
    }
}

#[test]
fn f39_results_of_the_passes_before_are_there_while_a_later_one_goes_on() {
    let place = Workplace::new(20);
    place.append("[[sweep]]\nparameter = \"concurrency\"\nvalues = [1]");
    let mut child = start(&place, &["engine.simulated.iteration=5ms", "baseline.concurrency=20"]);
    place.wait_for(|line| matches!(&line.event, Event::PassEnded { id, .. } if id.step == 0));
    let folder = place.run_folder();
    support::until(|| folder.path.join("results.csv").exists());
    child.kill().unwrap();
    wait(child);
    assert_eq!(folder.state().end, None, "the run was over before it was looked at");
    let rows = folder.csv();
    assert_eq!((rows.len(), rows[0]["status"].as_str()), (1, "complete"));
}

#[test]
fn an_engine_that_dies_costs_few_documents_and_without_anybody_there_the_run_stops() {
    let place = Workplace::new(24);
    place.append("[[sweep]]\nparameter = \"concurrency\"\nvalues = [2]");
    let simulate = ["simulate", "--port", "0", "--protocol", "protocol.toml"];
    fs::copy(place.path("protocol.toml"), place.path("served.toml")).unwrap();
    let protocol = fs::read_to_string(place.path("served.toml")).unwrap();
    place.write("protocol.toml", &protocol.replace("iteration = \"100us\"", "iteration = \"10ms\""));
    let mut engine = place.command(&simulate).stderr(Stdio::inherit()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(engine.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
    let url = said.split_whitespace().nth(1).unwrap().to_owned();

    let (before, rest) = protocol.split_once("[engine]").unwrap();
    let (_, after) = rest.split_once("[quality]").unwrap();
    let kind = format!("[engine]\nkind = \"openai\"\nbase_url = \"{url}\"\nmodel = \"simulated\"\n");
    place.write("run.toml", &format!("{before}{kind}[quality]{after}"));
    let child =
        place.command(&["run", "run.toml", "--auto", "--set", "baseline.concurrency=4"]).spawn().unwrap();
    place.wait_for(measured);
    engine.kill().unwrap();
    engine.wait().unwrap();
    let said = Said::of(wait(child)).expect(4);
    assert!(said.err.contains("no longer answers"), "{}", said.err);
    let folder = place.run_folder();
    let (state, rows) = (folder.state(), folder.csv());
    assert_eq!(state.end, Some(RunEnd::Stopped));
    let decided = &state.decisions[0];
    assert_eq!((decided.choice, decided.who), (Choice::Stop, Who::Rule), "nobody was there to be asked");
    assert_eq!(rows.len(), 1, "no document of the next step was spent on an engine that is gone");
    let row = &rows[0];
    assert_eq!(row["status"], "cut");
    assert_eq!(row["cut_by"], "engine-gone");
    assert!(count(row, "accepted") > 0 && count(row, "failed_connection") > 0);
    assert!(count(row, "sent") < 24, "the rest is kept for an engine that answers");
    assert_eq!(count(row, "sent"), count(row, "accepted") + count(row, "failed_connection"), "{row:?}");
    assert_eq!(row["accepted_share"], "", "a pass that is not whole has no share");
}

/// Limits the size of each file that the process writes, as `ulimit -f` does: past it a write fails as on a full disk.
fn limited(place: &Workplace, bytes: u64, arguments: &[&str]) -> Child {
    let mut command = std::process::Command::new("sh");
    command.current_dir(place.path(".")).stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
    command.arg0("sh").arg("-c").arg(format!("ulimit -f {} && exec \"$0\" \"$@\"", bytes / 512));
    command.arg(env!("CARGO_BIN_EXE_aforo")).args(arguments);
    command.spawn().unwrap()
}

#[test]
fn a_full_disk_pauses_a_run_in_the_foreground_and_a_signal_ends_it_with_what_it_has() {
    let place = Workplace::new(40);
    place.append("[[sweep]]\nparameter = \"concurrency\"\nvalues = [2]");
    let mut child = limited(&place, 32 * 1024, &Workplace::run_arguments(&[]));
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let paused = lines.by_ref().map(|line| line.unwrap()).find(|line| line.starts_with("PAUSED")).unwrap();
    assert!(
        paused.contains("cannot be written")
            && paused.contains("prlimit --pid")
            && paused.contains("goes on by itself"),
        "{paused}"
    );
    signal(&child, Signal::TERM);
    let rest: Vec<_> = lines.map(|line| line.unwrap()).collect();
    assert_eq!(wait(child).status.code(), Some(1), "{rest:#?}");
    let said = rest.join("\n");
    assert!(said.contains("what was recorded before is safe") && said.contains("aforo resume"), "{said}");

    let folder = place.run_folder();
    assert!(fs::metadata(folder.path.join("journal.jsonl")).unwrap().len() <= 32 * 1024);
    let journal = folder.journal();
    assert!(!journal.torn, "what was written of a line in vain is taken back");
    let state = folder.state();
    assert_eq!(state.end, None);
    assert!(state.steps[0].passes[0].requests.len() > 20);
    place.aforo(&["resume", "--auto", "--complete"]).expect(0);
    assert_eq!(folder.state().steps[0].passes[0].requests.iter().filter(|r| r.answered()).count(), 40);
}

#[test]
fn a_result_that_cannot_be_printed_is_a_failure_and_a_reader_that_left_is_not() {
    let place = Workplace::new(12);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let child = place.command(&["columns"]).stdout(full).spawn().unwrap();
    let said = Said::of(wait(child)).expect(1);
    assert!(said.err.contains("standard output"), "{}", said.err);

    let mut child = place.command(&["columns"]).spawn().unwrap();
    drop(child.stdout.take());
    Said::of(wait(child)).expect(0);

    let mut child = start(&place, &[]);
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    Said::of(wait(child)).expect(0);
    assert!(first.contains("SIMULATED"), "{first}");
}
