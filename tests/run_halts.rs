//! What keeps requests from being sent does so for as long as it should, and no longer: pauses, full disks, stops.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use std::fs;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Stdio;

use aforo::measure::{Phase, Trouble};
use aforo::run::cause::{CutCause, GateCause};
use aforo::run::control::Message;
use aforo::run::decision::{Choice, Who};
use aforo::run::desk::Answer;
use aforo::run::event::{Event, Line, PassEnd, RunEnd};
use rustix::process::{Pid, Signal, kill_process};
use support::detached::{detached, is_alive, limit_files, over, runner_of, state_of};
use support::stub::{self, Asked, Reply};
use support::valve::{Valve, models_only};
use support::viewer::{Watch, set};
use support::{RunFiles, Said, Workplace, measured, signal, until, wait};

/// So many are in flight at the baseline that a pass is sent at once.
const ALL_AT_ONCE: &str = "baseline.concurrency=4";

/// Four documents behind a valve, and a second step.
fn four(valve: &Valve) -> Workplace {
    let place = Workplace::with_server(4, &valve.serve(models_only));
    place.append("[[sweep]]\nparameter = \"concurrency\"\nvalues = [3]");
    place
}

/// The next write of the runner fails from now on.
fn fill_disk(files: &RunFiles) -> Pid {
    let runner = runner_of(files);
    limit_files(runner, Some(fs::metadata(files.path.join("journal.jsonl")).unwrap().len()));
    runner
}

/// Reads until the runner tells that it cannot write.
async fn in_trouble(watch: &mut Watch) -> String {
    loop {
        if let Message::Live(live) = watch.next().await.expect("the runner has gone")
            && let Some(text) = live.trouble
        {
            return text;
        }
    }
}

fn asked(line: &Line) -> bool {
    matches!(line.event, Event::PhaseStarted { phase: Phase::Measurement, .. })
}

#[tokio::test]
async fn a_pause_that_comes_when_all_is_sent_does_not_cut_the_next_pass() {
    let valve = Valve::default();
    let place = four(&valve);
    let files = detached(&place, &["--set", ALL_AT_ONCE]);
    let mut watch = Watch::attach(&files.path).await;
    valve.holds(4);
    watch.accepted(Choice::Pause, "").await;
    valve.allow(8);
    assert_eq!(watch.gate().await, GateCause::StepDone, "the pass was whole, and this is a gate too");
    watch.accepted(Choice::Auto, "").await;
    watch.end().await;
    over(&files);
    let state = files.state();
    assert_eq!(state.end, Some(RunEnd::Done));
    let passes: Vec<_> = state.steps.iter().flat_map(|step| &step.passes).collect();
    assert!(passes.iter().all(|pass| pass.is_complete() && !pass.was_resumed()), "{passes:?}");
}

#[tokio::test]
async fn a_disk_that_is_full_when_all_is_sent_does_not_cut_the_next_pass() {
    let valve = Valve::default();
    let place = four(&valve);
    // In the foreground, where nobody could answer a gate.
    let mut command = place.command(&Workplace::run_arguments(&[ALL_AT_ONCE]));
    let child = command.spawn().unwrap();
    valve.holds(4);
    let files = place.run_folder();
    let mut watch = Watch::attach(&files.path).await;
    let runner = fill_disk(&files);
    valve.allow(1);
    let text = in_trouble(&mut watch).await;
    assert!(text.contains("cannot be written"), "{text}");
    let listed = place.aforo(&["list"]).expect(0).out;
    assert!(listed.contains("PAUSED") && listed.contains("cannot be written"), "{listed}");
    valve.allow(3);
    valve.holds(0);
    limit_files(runner, None);
    valve.allow(4);
    Said::of(wait(child)).expect(0);
    let state = files.state();
    assert_eq!(state.end, Some(RunEnd::Done));
    let passes: Vec<_> = state.steps.iter().flat_map(|step| &step.passes).collect();
    assert!(passes.iter().all(|pass| pass.is_complete() && !pass.was_resumed()), "{passes:?}");
}

#[tokio::test]
async fn a_pause_outlasts_a_disk_that_fills_and_has_space_again() {
    let valve = Valve::default();
    let place = four(&valve);
    let files = detached(&place, &["--auto", "--set", "baseline.concurrency=2"]);
    let mut watch = Watch::attach(&files.path).await;
    valve.holds(2);
    watch.accepted(Choice::Pause, "lunch").await;
    let runner = fill_disk(&files);
    valve.allow(1);
    in_trouble(&mut watch).await;
    valve.allow(1);
    valve.holds(0);
    limit_files(runner, None);
    assert_eq!(watch.gate().await, GateCause::Cut(CutCause::Paused));
    assert_eq!(watch.state.steps[0].passes[0].requests.len(), 2, "none was sent after the pause");
    assert_eq!(state_of(&place), "at a gate");
    valve.allow(6);
    watch.accepted(Choice::Continue, "").await;
    watch.end().await;
    assert_eq!(watch.state.end, Some(RunEnd::Done));
}

#[tokio::test]
async fn a_pause_while_the_engine_is_looked_for_opens_a_gate_before_the_pass_goes_on() {
    let valve = Valve::default();
    let place = four(&valve);
    let files = detached(&place, &["--auto", "--set", ALL_AT_ONCE]);
    valve.holds(4);
    kill_process(runner_of(&files), Signal::KILL).unwrap();
    over(&files);
    valve.allow(4);
    valve.holds(0);

    valve.hold_pages(true);
    let resuming = place.command(&["resume", "--detach", "--auto", "--complete"]).spawn().unwrap();
    let begun = |line: &Line| matches!(line.event, Event::Decision { choice: Choice::Continue, .. });
    place.wait_for(begun);
    let mut watch = Watch::attach(&files.path).await;
    watch.until(begun).await;
    watch.accepted(Choice::Pause, "not yet").await;
    valve.hold_pages(false);
    assert_eq!(watch.gate().await, GateCause::Paused);
    let said = Said::of(wait(resuming)).expect(0);
    assert!(said.err.contains("it waits at a gate"), "{}", said.err);
    valve.allow(8);
    watch.accepted(Choice::Continue, "now").await;
    watch.end().await;
    over(&files);
    let pass = &watch.state.steps[0].passes[0];
    assert_eq!((pass.end.clone(), pass.attempts), (Some(PassEnd::Complete), 2));
}

#[tokio::test]
async fn a_stop_is_heard_while_a_decision_waits_for_the_disk() {
    let valve = Valve::default();
    valve.allow(8);
    let place = four(&valve);
    let files = detached(&place, &["--set", ALL_AT_ONCE]);
    let mut watch = Watch::attach(&files.path).await;
    watch.gate().await;
    // Nothing was written since: nobody knows of it yet.
    let runner = fill_disk(&files);
    let mut other = Watch::attach(&files.path).await;
    let deciding = tokio::spawn(async move { other.decide(Choice::Next, "").await });
    in_trouble(&mut watch).await;
    let said = place.aforo(&["stop", "--reason", "no space"]).expect(0);
    assert!(said.err.contains("took no more lines") && said.err.contains("aforo resume"), "{}", said.err);
    until(|| !is_alive(runner));
    let Answer::Refused { why } = deciding.await.unwrap() else { panic!("it is in no journal") };
    assert!(why.contains("stopped") || why.contains("over"), "{why}");
    place.aforo(&["resume", "--auto"]).expect(0);
    assert_eq!(files.state().end, Some(RunEnd::Done));
}

#[tokio::test]
async fn a_stop_on_a_full_disk_is_a_decision_if_the_disk_takes_it() {
    let valve = Valve::default();
    let place = four(&valve);
    let files = detached(&place, &["--auto", "--set", ALL_AT_ONCE]);
    valve.holds(4);
    let mut watch = Watch::attach(&files.path).await;
    let runner = fill_disk(&files);
    valve.allow(1);
    in_trouble(&mut watch).await;
    assert_eq!(watch.decide(Choice::Stop, "no space").await, Answer::Accepted);
    limit_files(runner, None);
    over(&files);
    let state = files.state();
    assert!(
        state.decisions.iter().any(|decided| decided.choice == Choice::Stop && decided.reason == "no space")
    );
}

#[tokio::test]
async fn what_was_said_of_a_half_measured_pass_is_not_said_of_a_later_one() {
    let valve = Valve::default();
    valve.allow(4);
    let place = four(&valve);
    let files = detached(&place, &["--set", ALL_AT_ONCE]);
    let mut watch = Watch::attach(&files.path).await;
    watch.gate().await;
    place.aforo(&["stop"]).expect(0);
    over(&files);
    let said = place.aforo(&["resume", "--detach", "--complete", "--reason", "was half"]).expect(0);
    assert!(said.err.contains("no pass is half measured"), "{}", said.err);
    let mut watch = Watch::attach(&files.path).await;
    let resumed = |line: &Line| matches!(line.event, Event::RunResumed(_));
    watch.until(resumed).await;
    assert_eq!(watch.gate().await, GateCause::StepDone);
    watch.accepted(Choice::Next, "").await;
    watch.until(asked).await;
    valve.holds(3);
    watch.accepted(Choice::Pause, "").await;
    valve.allow(3);
    assert_eq!(watch.gate().await, GateCause::Cut(CutCause::Paused));
    place.aforo(&["stop"]).expect(0);
    over(&files);
    assert!(files.state().decisions.iter().all(|decided| decided.reason != "was half"));
}

#[tokio::test]
async fn a_cache_that_is_not_emptied_opens_a_gate() {
    let valve = Valve::default();
    valve.allow(100);
    let kept = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let keeps = std::sync::Arc::clone(&kept);
    let url = valve.serve(move |asked: &Asked| match asked.path.as_str() {
        "/v1/models" => Reply::Page(
            200,
            serde_json::json!({ "object": "list", "data": [{ "id": "m", "owned_by": "sglang" }] }),
        ),
        "/flush_cache" if keeps.load(std::sync::atomic::Ordering::SeqCst) => Reply::HangUp,
        "/flush_cache" => Reply::Page(200, serde_json::json!({})),
        _ => Reply::Page(404, serde_json::json!({})),
    });
    let place = Workplace::with_server(4, &url);
    place.append("[[sweep]]\nparameter = \"concurrency\"\nvalues = [2]");
    let files = detached(&place, &[]);
    let mut watch = Watch::attach(&files.path).await;
    assert_eq!(watch.gate().await, GateCause::StepDone);
    kept.store(true, std::sync::atomic::Ordering::SeqCst);
    watch.accepted(Choice::Next, "").await;
    let cause = watch.gate().await;
    assert!(
        matches!(&cause, GateCause::Cut(CutCause::Trouble(Trouble::EngineGone { text })) if text.contains("flush_cache")),
        "{cause:?}"
    );
    assert!(watch.state.steps[1].passes[0].requests.is_empty());
    kept.store(false, std::sync::atomic::Ordering::SeqCst);
    watch.accepted(Choice::Repeat, "it is back").await;
    watch.gate().await;
    place.aforo(&["stop"]).expect(0);
    over(&files);
    assert!(files.state().steps[1].passes[1].is_complete());
}

#[tokio::test]
async fn the_last_pass_is_the_last_one_when_nobody_is_there() {
    let valve = Valve::default();
    let failing = valve.clone();
    let url = stub::start(move |asked: &Asked| {
        let measured = asked.id.as_ref().is_some_and(|id| id.contains("-measurement-"));
        if asked.path == "/v1/chat/completions" && measured {
            failing.wait_turn();
            return Reply::Page(500, serde_json::json!({ "error": { "message": "worker died" } }));
        }
        match asked.path.as_str() {
            "/v1/chat/completions" => Reply::Answer(stub::right_answer(&asked.user()), "stop"),
            _ => models_only(asked),
        }
    });
    let place = Workplace::with_server(80, &url);
    place.append("[[sweep]]\nparameter = \"concurrency\"\nvalues = [2]");
    let child = place.command(&Workplace::run_arguments(&[])).spawn().unwrap();
    valve.holds(1);
    place.aforo(&["stop", "--after-pass"]).expect(0);
    valve.allow(1000);
    Said::of(wait(child)).expect(4);
    let state = place.run_folder().state();
    assert!(matches!(
        &state.steps[0].passes[0].end,
        Some(PassEnd::Cut(CutCause::Trouble(Trouble::ErrorRate { .. })))
    ));
    assert!(state.steps[1].passes.is_empty(), "another step was taken");
    let last = state.decisions.last().unwrap();
    assert_eq!((last.choice, last.who), (Choice::Stop, Who::Rule));
}

#[test]
fn a_log_that_cannot_be_written_either_does_not_end_the_runner() {
    let place = Workplace::new(60);
    let files = detached(&place, &["--auto", "--set", "engine.simulated.iteration=3ms"]);
    let runner = runner_of(&files);
    place.wait_for(measured);
    limit_files(runner, Some(1));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { in_trouble(&mut Watch::attach(&files.path).await).await });
    assert!(is_alive(runner));
    limit_files(runner, None);
    over(&files);
    assert_eq!(files.state().end, Some(RunEnd::Done));
}

#[test]
fn a_terminal_that_takes_nothing_does_not_keep_the_second_signal_from_being_heard() {
    let place = Workplace::new(40);
    let (_unread, stderr) = std::io::pipe().unwrap();
    let mut options = fs::OpenOptions::new();
    // Another opening of the same pipe: the process's own stays one that blocks.
    options.write(true).custom_flags(i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap());
    let mut filling = options.open(format!("/proc/self/fd/{}", stderr.as_raw_fd())).unwrap();
    let mut command = place.command(&Workplace::run_arguments(&["engine.simulated.iteration=10ms"]));
    let child = command.stderr(Stdio::from(stderr)).spawn().unwrap();
    place.wait_for(measured);
    while filling.write(b".").is_ok() {}
    signal(&child, Signal::TERM);
    // In order, as far as its journal: what it has to say at the end nobody hears.
    place.wait_for(|line| matches!(line.event, Event::RunEnded { end: RunEnd::Stopped }));
    signal(&child, Signal::TERM);
    assert_eq!(wait(child).status.code(), Some(4));
}

#[test]
fn a_value_that_was_set_has_its_open_files_after_a_resumption_too() {
    let place = Workplace::new(80);
    let mut command = std::process::Command::new("sh");
    command
        .arg("-c")
        .arg("ulimit -Sn 100; exec \"$0\" run protocol.toml --detach")
        .arg(env!("CARGO_BIN_EXE_aforo"));
    Said::of(wait(
        command.current_dir(place.path(".")).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap(),
    ))
    .expect(0);
    let files = place.run_folder();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut watch = Watch::attach(&files.path).await;
        watch.gate().await;
        place.aforo(&["stop"]).expect(0);
    });
    over(&files);
    let resume = |more: &str| {
        let mut command = std::process::Command::new("sh");
        let line = format!("ulimit -Sn 100; exec \"$0\" resume --detach {more}");
        command.arg("-c").arg(line).arg(env!("CARGO_BIN_EXE_aforo"));
        command.current_dir(place.path(".")).stdout(Stdio::piped()).stderr(Stdio::piped());
        Said::of(wait(command.spawn().unwrap())).expect(0);
    };
    resume("");
    runtime.block_on(async {
        let mut watch = Watch::attach(&files.path).await;
        watch.until(|line| matches!(line.event, Event::RunResumed(_))).await;
        watch.gate().await;
        watch.accepted(set(70), "").await;
        watch.until(|line| matches!(&line.event, Event::Request { id, .. } if id.step == 1)).await;
    });
    kill_process(runner_of(&files), Signal::KILL).unwrap();
    over(&files);
    resume("--auto --repeat");
    over(&files);
    let state = files.state();
    let pass = state.steps[1].passes.last().unwrap();
    assert!(
        pass.is_complete() && pass.requests.iter().all(aforo::measure::RequestRecord::answered),
        "{:?}",
        pass.end
    );
}
