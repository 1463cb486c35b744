//! The runner is a process of its own: what happens to terminals, viewers, engines and disks does not end it.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aforo::measure::Trouble;
use aforo::run::cause::{CutCause, GateCause};
use aforo::run::decision::{Choice, Who};
use aforo::run::desk::Answer;
use aforo::run::event::{Event, PassEnd, RunEnd};
use aforo::run::journal;
use portable_pty::{CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Signal, kill_process};
use support::detached::{detached, is_alive, limit_files, over, runner_of, state_of};
use support::stub::{self, Asked, Reply};
use support::viewer::{Watch, set};
use support::{RunFiles, Said, Workplace, measured, until, wait};

/// About 0.1 s a request.
const SLOW: &str = "engine.simulated.iteration=10ms";

/// What a terminal was told so far. It is read all the time, so that the process behind it is never held up.
struct Screen {
    said: Arc<Mutex<String>>,
    reading: std::thread::JoinHandle<()>,
}

impl Screen {
    fn of(master: &dyn MasterPty) -> Self {
        let mut reader = master.try_clone_reader().unwrap();
        let said = Arc::<Mutex<String>>::default();
        let all = Arc::clone(&said);
        let reading = std::thread::spawn(move || {
            let mut part = [0; 4096];
            // A terminal whose other side is gone ends with an error.
            while let Ok(count @ 1..) = reader.read(&mut part) {
                all.lock().unwrap().push_str(&String::from_utf8_lossy(&part[..count]));
            }
        });
        Self { said, reading }
    }

    fn wait_for(&self, text: &str) {
        until(|| self.said.lock().unwrap().contains(text));
    }

    /// All that it was told, once the other side is gone.
    fn end(self) -> String {
        self.reading.join().unwrap();
        Arc::into_inner(self.said).unwrap().into_inner().unwrap()
    }
}

/// Ends in at most two seconds.
fn gone(mut child: Box<dyn portable_pty::Child + Send + Sync>) {
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(2), "it is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn in_terminal(
    place: &Workplace,
    program: &[&str],
) -> (Box<dyn MasterPty + Send>, Box<dyn portable_pty::Child + Send + Sync>) {
    let size = PtySize { rows: 24, cols: 80, pixel_width: 0, pixel_height: 0 };
    let pair = native_pty_system().openpty(size).unwrap();
    let mut command = CommandBuilder::new(program[0]);
    command.args(&program[1..]);
    command.cwd(place.path("."));
    let child = pair.slave.spawn_command(command).unwrap();
    (pair.master, child)
}

#[test]
fn a_terminal_that_goes_away_in_a_pass_ends_the_viewer_and_not_the_run() {
    let aforo = env!("CARGO_BIN_EXE_aforo");
    let deaf = format!("trap '' HUP; exec {aforo} run protocol.toml --auto --set {SLOW}");
    // With the hang-up's signal, and where something has told processes to ignore it.
    for program in [&[aforo, "run", "protocol.toml", "--auto", "--set", SLOW][..], &["sh", "-c", &deaf][..]] {
        let place = Workplace::new(24);
        let (master, child) = in_terminal(&place, program);
        place.wait_for(measured);
        let files = place.run_folder();
        let runner = runner_of(&files);
        // Nobody else holds the terminal's other side: this hangs it up.
        drop(master);
        gone(child);
        assert!(is_alive(runner), "the runner went with its viewer");
        place.wait_for(|line| matches!(line.event, Event::RunEnded { .. }));
        let state = files.state();
        assert_eq!(state.end, Some(RunEnd::Done));
        assert_eq!(state.steps[0].passes[0].end, Some(PassEnd::Complete));
        assert_eq!(state.steps[0].passes[0].requests.len(), 24);
        until(|| !is_alive(runner));
    }
}

#[test]
fn a_person_leaves_comes_back_decides_and_sees_the_results() {
    let place = Workplace::new(8);
    place.append("[[sweep]]\nparameter = \"concurrency\"\nvalues = [2]");
    let aforo = env!("CARGO_BIN_EXE_aforo");
    let (master, child) = in_terminal(&place, &[aforo, "run", "protocol.toml"]);
    let screen = Screen::of(&*master);
    screen.wait_for("GATE at step 1");
    // Ctrl-C, as a terminal sends it.
    let mut keys = master.take_writer().unwrap();
    keys.write_all(b"\x03").unwrap();
    gone(child);
    drop((keys, master));
    let said = screen.end();
    assert!(said.contains("the run goes on") && said.contains("aforo attach"), "{said}");
    assert_eq!(state_of(&place), "at a gate");

    let mut attached = place.command(&["attach"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut lines = attached.stdin.take().unwrap();
    writeln!(lines, "repeat the fan was loud").unwrap();
    place.wait_for(|line| matches!(&line.event, Event::GateOpened { .. }) && line.seq > 20);
    writeln!(lines, "auto").unwrap();
    let said = {
        let output = attached.wait_with_output().unwrap();
        drop(lines);
        Said::of(output).expect(0)
    };
    assert!(said.err.contains("GATE at step 1"), "{}", said.err);
    assert!(said.out.contains("concurrency 2"), "{}", said.out);
    let state = place.run_folder().state();
    assert_eq!(state.steps.iter().map(|step| step.passes.len()).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(state.decisions[0].reason, "the fan was loud");
    assert_eq!(state_of(&place), "done");
}

#[test]
fn a_run_is_found_followed_and_stopped_from_elsewhere() {
    let place = Workplace::new(40);
    let files = detached(&place, &["--auto", "--set", SLOW]);
    let runner = runner_of(&files);
    assert_eq!(state_of(&place), "running");
    place.wait_for(measured);
    let said = place.aforo(&["stop", "--reason", "seen enough"]).expect(0);
    assert!(said.err.contains("stopped") && said.err.contains("aforo resume"), "{}", said.err);
    until(|| !is_alive(runner));
    assert_eq!(state_of(&place), "stopped");
    let state = files.state();
    assert_eq!(state.end, Some(RunEnd::Stopped));
    let decided = &state.decisions[0];
    assert_eq!(
        (decided.choice, decided.who, decided.reason.as_str()),
        (Choice::Stop, Who::Person, "seen enough")
    );
    let pass = &state.steps[0].passes[0];
    assert_eq!(pass.end, Some(PassEnd::Stopped));
    let said = place.aforo(&["attach"]).expect(2);
    assert!(said.err.contains("no run in") && said.err.contains("aforo list"), "{}", said.err);
    assert!(!files.path.join("runner.json").exists(), "what leads to a runner goes with it");

    // Resumed in a process of its own, followed to its end.
    let said = place.aforo(&["resume", "--detach", "--auto", "--complete"]).expect(0);
    assert!(said.err.contains("goes on by itself"), "{}", said.err);
    place.wait_for(|line| matches!(line.event, Event::RunEnded { end: RunEnd::Done }));
    let pass = files.state().steps[0].passes[0].clone();
    assert_eq!((pass.end.clone(), pass.attempts), (Some(PassEnd::Complete), 2));
    let answered = pass.requests.iter().filter(|request| request.answered()).count();
    assert_eq!(answered, 40);
}

#[test]
fn a_signal_ends_a_detached_run_in_order() {
    let place = Workplace::new(40);
    let files = detached(&place, &["--auto", "--set", SLOW]);
    let runner = runner_of(&files);
    place.wait_for(measured);
    kill_process(runner, Signal::HUP).unwrap();
    kill_process(runner, Signal::TERM).unwrap();
    until(|| !is_alive(runner));
    assert_eq!(files.state().end, Some(RunEnd::Stopped));
    assert_eq!(files.csv()[0]["status"], "stopped");
}

#[test]
fn the_folder_and_the_socket_are_the_persons_alone() {
    let place = Workplace::new(8);
    let files = detached(&place, &[]);
    let mode = |path: &PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let runner: serde_json::Value =
        serde_json::from_slice(&fs::read(files.path.join("runner.json")).unwrap()).unwrap();
    let socket = PathBuf::from(runner["socket"].as_str().unwrap());
    assert_eq!(
        (mode(&socket), mode(&socket.parent().unwrap().to_owned()), mode(&files.path)),
        (0o600, 0o700, 0o700)
    );
    assert_eq!(runner["pid"], runner_of(&files).as_raw_nonzero().get());
    place.aforo(&["stop"]).expect(0);
    until(|| !socket.exists());
}

#[tokio::test]
async fn a_pause_lets_what_is_in_flight_end_and_the_pass_is_completed() {
    let place = Workplace::new(24);
    let files = detached(&place, &["--auto", "--set", SLOW, "--set", "baseline.concurrency=4"]);
    let mut watch = Watch::attach(&files.path).await;
    watch.until(measured).await;
    watch.accepted(Choice::Pause, "the neighbour needs the card").await;
    assert_eq!(watch.gate().await, GateCause::Cut(CutCause::Paused));
    let sent = watch.state.steps[0].passes[0].requests.len();
    assert!((1..24).contains(&sent), "{sent}");
    assert!(
        watch.state.steps[0].passes[0].requests.iter().all(aforo::measure::RequestRecord::answered),
        "none was cancelled"
    );
    watch.accepted(Choice::Continue, "it has gone").await;
    watch.end().await;
    over(&files);
    let pass = &watch.state.steps[0].passes[0];
    assert_eq!((pass.end.clone(), pass.attempts, pass.requests.len()), (Some(PassEnd::Complete), 2, 24));
    let row = &files.csv()[0];
    assert_eq!(
        (row["resumed"].as_str(), row["duration_s"].as_str(), row["accepted_per_hour"].as_str()),
        ("true", "", "")
    );
    assert_eq!(files.state(), watch.state, "the fold over the socket is the fold of the disk");
}

#[tokio::test]
async fn the_run_ends_after_the_pass_when_that_was_decided() {
    let place = Workplace::new(24);
    place.append("[[sweep]]\nparameter = \"concurrency\"\nvalues = [2]");
    let files = detached(&place, &["--auto", "--set", SLOW, "--set", "baseline.concurrency=8"]);
    let mut watch = Watch::attach(&files.path).await;
    watch.until(measured).await;
    let said = place.aforo(&["stop", "--after-pass"]).expect(0);
    assert!(said.err.contains("when this pass is over"), "{}", said.err);
    assert!(matches!(watch.decide(Choice::StopAfterPass, "").await, Answer::Refused { .. }));
    watch.end().await;
    over(&files);
    assert_eq!(watch.state.end, Some(RunEnd::Stopped));
    assert_eq!(watch.state.steps[0].passes[0].end, Some(PassEnd::Complete));
    assert!(watch.state.steps[1].passes.is_empty());
}

/// A server that can be told to refuse, and one that can go away and come back on its port.
fn answering(models: bool) -> impl Fn(&Asked) -> Reply + Send + Sync + 'static {
    move |asked: &Asked| match asked.path.as_str() {
        "/v1/models" if models => stub::models("m"),
        "/v1/chat/completions" => Reply::Answer(stub::right_answer(&asked.user()), "stop"),
        _ => Reply::Page(404, serde_json::json!({})),
    }
}

#[tokio::test]
async fn an_engine_that_is_gone_opens_a_gate_and_the_pass_goes_on_when_it_is_back() {
    let of_engine = Workplace::new(40);
    let simulate = |port: &str| {
        let mut engine = of_engine
            .command(&["simulate", "--port", port, "--protocol", "protocol.toml"])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        std::io::BufRead::read_line(
            &mut std::io::BufReader::new(engine.stdout.as_mut().unwrap()),
            &mut ready,
        )
        .unwrap();
        (engine, ready.split_whitespace().nth(1).unwrap().to_owned())
    };
    let text = fs::read_to_string(of_engine.path("protocol.toml")).unwrap();
    of_engine.write("protocol.toml", &text.replace("iteration = \"100us\"", "iteration = \"5ms\""));
    let (mut engine, url) = simulate("0");
    let place = Workplace::with_server(40, &url);
    let text = fs::read_to_string(place.path("protocol.toml")).unwrap();
    place.write("protocol.toml", &text.replace("model = \"m\"", "model = \"simulated\""));
    let files = detached(&place, &["--auto", "--set", "baseline.concurrency=2"]);
    let mut watch = Watch::attach(&files.path).await;
    watch.until(measured).await;
    engine.kill().unwrap();
    engine.wait().unwrap();
    let cause = watch.gate().await;
    assert!(matches!(&cause, GateCause::Cut(CutCause::Trouble(Trouble::EngineGone { .. }))), "{cause:?}");
    assert_eq!(state_of(&place), "at a gate");
    let burnt = watch.state.steps[0].passes[0].requests.iter().filter(|request| !request.answered()).count();
    assert!((1..=8).contains(&burnt), "{burnt} documents were spent on an engine that is gone");

    watch.accepted(Choice::Continue, "").await;
    let cause = watch.gate().await;
    assert!(matches!(&cause, GateCause::NoEngine { .. }), "it is still away: {cause:?}");
    let port = url.rsplit(':').next().unwrap().split('/').next().unwrap().to_owned();
    let (mut engine, again) = simulate(&port);
    assert_eq!(again, url);
    watch.accepted(Choice::Continue, "started again").await;
    watch.end().await;
    over(&files);
    engine.kill().unwrap();
    engine.wait().unwrap();
    let pass = &watch.state.steps[0].passes[0];
    assert_eq!((pass.end.clone(), pass.attempts), (Some(PassEnd::Complete), 2));
    assert_eq!(
        pass.requests.iter().filter(|request| request.answered()).count(),
        40,
        "each document has one answer"
    );
    assert_eq!(pass.requests.len(), 40 + burnt, "and what failed is kept beside it");
    let row = &files.csv()[0];
    assert_eq!(
        (row["attempts"].as_str(), row["ids_recovered"].as_str(), row["duplicates"].as_str()),
        ("2", "40", "0")
    );
}

#[tokio::test]
async fn too_many_errors_open_a_gate_and_a_smaller_value_is_a_step_of_its_own() {
    let out_of_memory =
        serde_json::json!({ "error": { "message": "CUDA out of memory. Tried to allocate 2.00 GiB" } });
    let served = stub::start(move |asked: &Asked| {
        // Eight in flight are too many for it.
        if asked.path == "/v1/chat/completions"
            && asked.id.as_ref().is_some_and(|id| id.starts_with("aforo-2-"))
        {
            return Reply::Page(500, out_of_memory.clone());
        }
        answering(true)(asked)
    });
    let place = Workplace::with_server(120, &served);
    place.append("[[sweep]]\nparameter = \"concurrency\"\nvalues = [8]");
    let files = detached(&place, &["--auto"]);
    let mut watch = Watch::attach(&files.path).await;
    let cause = watch.gate().await;
    let GateCause::Cut(CutCause::Trouble(Trouble::ErrorRate { failed, of, limit })) = cause else {
        panic!("{cause:?}")
    };
    assert!(failed * 2 > of && (limit - 0.5).abs() < 1e-9, "{failed} of {of}, {limit}");
    watch.accepted(set(4), "out of memory at 8").await;
    watch.end().await;
    over(&files);
    let state = &watch.state;
    assert_eq!(state.end, Some(RunEnd::Done));
    let labels: Vec<_> = state.steps.iter().map(|step| step.step.label.as_str()).collect();
    assert_eq!(labels, ["baseline", "concurrency 8", "concurrency 4"]);
    let decided = &state.decisions[0];
    assert_eq!((decided.choice, decided.reason.as_str()), (set(4), "out of memory at 8"));
    assert_eq!(state.steps[2].passes[0].requests.len(), 120);
    let rows = files.csv();
    assert_eq!(rows[1]["status"], "cut");
    assert!(rows[1]["failed_memory"].parse::<u32>().unwrap() >= 50);
}

#[test]
fn a_full_disk_pauses_the_run_and_it_goes_on_when_there_is_space() {
    let place = Workplace::new(60);
    let files = detached(&place, &["--auto", "--set", "engine.simulated.iteration=3ms"]);
    let runner = runner_of(&files);
    place.wait_for(measured);
    let journal_path = files.path.join("journal.jsonl");
    let limit = |bytes| limit_files(runner, bytes);
    let full = fs::metadata(&journal_path).unwrap().len() + 1500;
    limit(Some(full));
    // Said where the person looks: by whoever is attached.
    let attached = place.command(&["attach"]).spawn().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let text = runtime.block_on(async {
        let mut watch = Watch::attach(&files.path).await;
        let text = loop {
            if let aforo::run::control::Message::Live(live) = watch.next().await.unwrap()
                && let Some(text) = live.trouble
            {
                break text;
            }
        };
        let said = watch.decide(Choice::Pause, "").await;
        assert!(
            matches!(&said, Answer::Refused { why } if why.contains("nothing can be recorded now")),
            "{said:?}"
        );
        text
    });
    assert!(text.contains("journal.jsonl") || text.contains("step-01-pass-1.jsonl"), "{text}");
    assert!(fs::metadata(&journal_path).unwrap().len() <= full);
    assert!(
        !journal::read(&journal_path).unwrap().torn,
        "a part of a line stands in the way of the next one"
    );
    limit(None);
    let said = Said::of(wait(attached)).expect(0);
    assert!(said.err.contains("PAUSED"), "{}", said.err);
    let state = files.state();
    assert_eq!(state.end, Some(RunEnd::Done));
    let pass = &state.steps[0].passes[0];
    assert_eq!((pass.end.clone(), pass.attempts, pass.requests.len()), (Some(PassEnd::Complete), 2, 60));
    assert!(pass.requests.iter().all(aforo::measure::RequestRecord::accepted), "no answer was lost");
    let decided = &state.decisions[0];
    assert_eq!((decided.choice, decided.who), (Choice::Continue, Who::Rule));
    let texts = RunFiles::json_lines(&files.outputs()[0]);
    assert_eq!(texts.len(), 60);
}

#[test]
fn a_run_on_a_full_disk_can_be_stopped_and_resumed() {
    let place = Workplace::new(60);
    let files = detached(&place, &["--auto", "--set", "engine.simulated.iteration=3ms"]);
    let runner = runner_of(&files);
    place.wait_for(measured);
    let full = fs::metadata(files.path.join("journal.jsonl")).unwrap().len() + 700;
    limit_files(runner, Some(full));
    let log = files.path.join("aforo.log");
    until(|| fs::read_to_string(&log).unwrap().contains("cannot be written"));
    kill_process(runner, Signal::TERM).unwrap();
    until(|| !is_alive(runner));
    assert_eq!(state_of(&place), "interrupted");
    place.aforo(&["resume", "--auto", "--complete"]).expect(0);
    let state = files.state();
    assert_eq!(state.end, Some(RunEnd::Done));
    assert_eq!(state.steps[0].passes[0].requests.iter().filter(|request| request.answered()).count(), 60);
}

#[test]
fn a_runner_that_cannot_begin_says_so_to_whoever_started_it() {
    let place = Workplace::with_server(6, "http://127.0.0.1:9/v1");
    let said = place.aforo(&["run", "protocol.toml", "--detach", "--set", "corpus.expect=7"]).expect(2);
    assert!(said.err.contains("expect"), "{}", said.err);
    // One that begins and finds no engine fails, and says why to whoever is attached or asks.
    let said = place.aforo(&["run", "protocol.toml", "--auto", "--detach"]).expect(1);
    assert!(said.err.contains("no engine answers there"), "{}", said.err);
    assert_eq!(state_of(&place), "failed");
    let listed = place.aforo(&["list"]).expect(0).out;
    assert!(listed.contains("no engine answers there"), "{listed}");
    let files = place.run_folder();
    over(&files);
    assert!(files.csv().is_empty());
}

#[test]
fn a_copy_of_a_running_run_is_not_running() {
    let place = Workplace::new(8);
    let files = detached(&place, &[]);
    let copy = place.path("elsewhere").join("copy");
    fs::create_dir_all(copy.join("outputs")).unwrap();
    for entry in fs::read_dir(&files.path).unwrap().map(Result::unwrap) {
        if entry.path().is_file() {
            fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
        }
    }
    assert!(copy.join("runner.json").exists());
    let listed = place.aforo(&["list", "--runs", "elsewhere"]).expect(0).out;
    assert!(listed.contains("interrupted"), "{listed}");
    place.aforo(&["stop", "--runs", "elsewhere"]).expect(2);
    assert!(is_alive(runner_of(&files)), "the run that was copied was stopped");
    place.aforo(&["stop"]).expect(0);
}

#[test]
fn a_runner_whose_socket_was_removed_is_told_of_and_can_be_ended() {
    let place = Workplace::new(8);
    let files = detached(&place, &[]);
    let runner: serde_json::Value =
        serde_json::from_slice(&fs::read(files.path.join("runner.json")).unwrap()).unwrap();
    fs::remove_file(runner["socket"].as_str().unwrap()).unwrap();
    let listed = place.aforo(&["list"]).expect(0).out;
    assert!(listed.contains("its socket was removed"), "{listed}");
    let pid = runner_of(&files);
    for command in ["attach", "stop"] {
        let said = place.aforo(&[command]).expect(2);
        assert!(said.err.contains(&format!("kill {}", pid.as_raw_nonzero())), "{}", said.err);
    }
    kill_process(pid, Signal::TERM).unwrap();
    until(|| !is_alive(pid));
    assert_eq!(state_of(&place), "stopped");
}

#[test]
fn a_run_whose_folder_was_moved_can_be_stopped() {
    let place = Workplace::new(8);
    let files = detached(&place, &[]);
    let runner = runner_of(&files);
    fs::rename(place.path("aforo-runs"), place.path("moved")).unwrap();
    let said = place.aforo(&["attach", "--runs", "moved"]).expect(1);
    assert!(said.err.contains("was moved, move it back"), "{}", said.err);
    place.aforo(&["stop", "--runs", "moved"]).expect(0);
    until(|| !is_alive(runner));
}

#[test]
fn ctrl_c_before_the_runner_is_ready_leaves_a_run_that_is_told_of() {
    let aforo = env!("CARGO_BIN_EXE_aforo");
    for after_ms in [0, 5, 10, 20, 40, 80] {
        let place = Workplace::new(8);
        let (master, child) = in_terminal(&place, &[aforo, "run", "protocol.toml"]);
        let screen = Screen::of(&*master);
        let mut keys = master.take_writer().unwrap();
        screen.wait_for("run folder:");
        std::thread::sleep(Duration::from_millis(after_ms));
        keys.write_all(b"\x03").unwrap();
        gone(child);
        drop((keys, master));
        let said = screen.end();
        assert!(said.contains("the run goes on") && said.contains("aforo stop"), "{after_ms} ms: {said}");
        place.wait_for(|line| matches!(line.event, Event::GateOpened { .. }));
    }
}

#[test]
fn a_run_is_stopped_although_as_many_follow_it_as_may() {
    let place = Workplace::new(8);
    let files = detached(&place, &[]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _watching: Vec<_> = (0..32).map(|_| runtime.block_on(Watch::attach(&files.path))).collect();
    place.aforo(&["stop"]).expect(0);
    assert_eq!(state_of(&place), "stopped");
}

#[test]
fn a_folder_for_temporary_files_that_cannot_be_written_is_not_used() {
    let place = Workplace::new(8);
    // Not even the system's administrator makes a folder there.
    let mut command = place.command(&["run", "protocol.toml", "--detach"]);
    Said::of(wait(command.env("TMPDIR", "/sys").spawn().unwrap())).expect(0);
    place.aforo(&["stop"]).expect(0);
}

#[test]
fn commands_that_are_suggested_can_be_pasted() {
    let place = Workplace::new(8);
    let said = place.aforo(&["run", "protocol.toml", "--detach", "--runs", "my runs'"]).expect(0);
    let line = said.err.lines().find(|line| line.starts_with("  aforo attach ")).unwrap();
    let words = line.split_once("   follows").unwrap().0.trim().strip_prefix("aforo attach").unwrap();
    let line = format!("cd / && exec \"$0\" stop {words}");
    let stopping = std::process::Command::new("sh").args(["-c", &line, env!("CARGO_BIN_EXE_aforo")]).output();
    Said::of(stopping.unwrap()).expect(0);
}
