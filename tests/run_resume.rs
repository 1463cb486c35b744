//! Kill -9 at random moments, and what is left of a run: all that was recorded, and a run that goes on from there.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use aforo::engine::simulated::{Answers, SimulatedEngine};
use aforo::measure::Phase;
use aforo::protocol::{EngineKind, read};
use aforo::run::event::{Event, PassEnd, RunEnd};
use aforo::run::journal;
use aforo::run::state::State;
use support::{RunFiles, Said, Workplace, id, wait};

/// Moments at which a runner is killed.
const KILLS: u32 = 200;
const DOCUMENTS: usize = 24;

/// A number that looks random and is the same in every run of the test: xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// A simulated engine that outlives its runners, and a protocol that asks it: three steps of two passes.
struct Bench {
    place: Workplace,
    runtime: tokio::runtime::Runtime,
    engine: SimulatedEngine,
}

impl Bench {
    fn new() -> Self {
        let of_engine = Workplace::new(DOCUMENTS);
        let protocol = read(
            &of_engine.path("protocol.toml"),
            &[
                "engine.simulated.iteration=1ms".parse().unwrap(),
                "engine.simulated.wrong_rate=0.2".parse().unwrap(),
                "engine.simulated.broken_rate=0.1".parse().unwrap(),
            ],
        );
        let protocol = protocol.unwrap().protocol;
        let EngineKind::Simulated(model) = &protocol.engine.kind else { unreachable!() };
        let documents = protocol.load_corpus().unwrap().documents.into_iter();
        let answers = Answers::new(documents.map(|d| (d.text, d.reference.0.into_iter().collect())));
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let engine =
            runtime.block_on(SimulatedEngine::start(model, answers, "127.0.0.1:0".parse().unwrap())).unwrap();
        engine.start_recording(1_000_000);
        let place = Workplace::with_server(DOCUMENTS, &engine.base_url());
        let text = fs::read_to_string(place.path("protocol.toml")).unwrap();
        place.write(
            "protocol.toml",
            &text
                .replace("model = \"m\"", "model = \"simulated\"")
                .replace("repetitions = 1", "repetitions = 2")
                .replace("threshold = 0.75", "threshold = 0.25"),
        );
        place.append("[[sweep]]\nparameter = \"concurrency\"\nvalues = [2, 4]");
        Self { place, runtime, engine }
    }

    /// Starts a process whose words go to a file.
    fn start(&self, arguments: &[&str]) -> Child {
        let said = fs::File::create(self.place.path("said.txt")).unwrap();
        self.place.command(arguments).stdout(Stdio::null()).stderr(said).spawn().unwrap()
    }

    fn said(&self) -> String {
        fs::read_to_string(self.place.path("said.txt")).unwrap()
    }
}

/// How much of a journal there is.
fn journal_bytes(bench: &Bench) -> u64 {
    let runs = fs::read_dir(bench.place.path("aforo-runs")).into_iter().flatten();
    let journals = runs.map(|run| run.unwrap().path().join("journal.jsonl"));
    journals.filter_map(|journal| Some(fs::metadata(journal).ok()?.len())).sum()
}

/// A runner, killed after a while unless it ended before; true when it was killed. The while begins with the process
/// or, however busy the machine is, with what it records.
fn killed_after(bench: &Bench, mut runner: Child, moment: Duration, recording: bool) -> bool {
    let before = journal_bytes(bench);
    let mut begun = Instant::now();
    let mut waits = recording;
    loop {
        if waits {
            waits = journal_bytes(bench) <= before;
            begun = Instant::now();
        }
        if let Some(status) = runner.try_wait().unwrap() {
            assert_eq!(status.code(), Some(0), "{}", bench.said());
            return false;
        }
        if !waits && begun.elapsed() >= moment {
            runner.kill().unwrap();
            runner.wait().unwrap();
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The complete lines of a file.
fn whole(path: &std::path::Path) -> Vec<u8> {
    let mut bytes = fs::read(path).unwrap_or_default();
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    bytes.truncate(end);
    bytes
}

/// Verdicts of the measured requests per step, pass and document, of the passes that are complete; each document once.
fn verdicts(files: &RunFiles) -> BTreeMap<(usize, u32, String), String> {
    let mut found = BTreeMap::new();
    for (index, step) in files.state().steps.iter().enumerate() {
        for pass in &step.passes {
            assert_eq!(pass.end, Some(PassEnd::Complete), "step {index} pass {}", pass.number);
            for request in &pass.requests {
                let key = (index, pass.number, request.document.clone());
                let said = serde_json::to_string(&request.verdict).unwrap();
                assert_eq!(found.insert(key.clone(), said), None, "{key:?} was measured twice");
            }
        }
    }
    found
}

/// When the answer of each step, pass and document was in; by the id that its request had.
fn recorded(files: &RunFiles) -> HashMap<(usize, u32, usize), u64> {
    let mut recorded = HashMap::new();
    for line in files.journal().lines {
        if let Event::Request { id, request } = line.event
            && request.phase == Phase::Measurement
        {
            let index = (0..DOCUMENTS).find(|index| support::id(*index) == request.document).unwrap();
            recorded.insert((id.step + 1, id.pass, index), line.clock.nanos());
        }
    }
    recorded
}

/// Step, pass and document of a measured request's id: `aforo-1-2.3-measurement-17`.
fn asked(request_id: &str) -> Option<(usize, u32, usize)> {
    let mut parts = request_id.strip_prefix("aforo-")?.split('-');
    let step = parts.next()?.parse().ok()?;
    let pass = parts.next()?.split('.').next()?.parse().ok()?;
    (parts.next()? == "measurement").then_some(())?;
    Some((step, pass, parts.next()?.parse().ok()?))
}

#[test]
fn kill_9_at_random_moments_loses_nothing_and_asks_nothing_twice() {
    let bench = Bench::new();
    let undisturbed = {
        let said = bench.place.aforo(&["run", "protocol.toml", "--auto"]).expect(0);
        assert!(said.out.contains("concurrency 4"));
        verdicts(&bench.place.run_folder())
    };
    assert_eq!(undisturbed.len(), 3 * 2 * DOCUMENTS);
    fs::remove_dir_all(bench.place.path("aforo-runs")).unwrap();

    let mut random = Random(0x5eed_cafe_f00d_d00d);
    let (mut kills, mut runs, mut in_a_pass) = (0, 0, 0);
    while kills < KILLS {
        runs += 1;
        bench.engine.start_recording(1_000_000);
        let mut runner = bench.start(&["run", "protocol.toml", "--auto"]);
        let mut before: Vec<u8> = Vec::new();
        while {
            let recording = random.below(2) == 1;
            killed_after(&bench, runner, Duration::from_millis(random.below(350)), recording)
        } {
            kills += 1;
            let exists = fs::read_dir(bench.place.path("aforo-runs")).is_ok_and(|mut runs| {
                runs.next().is_some_and(|run| run.unwrap().path().join("protocol.toml").exists())
            });
            if !exists {
                // Killed before there was anything of a run.
                let _ = fs::remove_dir_all(bench.place.path("aforo-runs"));
                runner = bench.start(&["run", "protocol.toml", "--auto"]);
                continue;
            }
            let files = bench.place.run_folder();
            let journal = files.path.join("journal.jsonl");
            let now = whole(&journal);
            assert!(now.starts_with(&before), "a line that was there is gone or changed");
            before = now;
            if journal.exists() && State::fold(&journal::read(&journal).unwrap().lines).end.is_some() {
                // Killed between its last line and its exit: there is nothing to resume.
                break;
            }
            runner = bench.start(&["resume", "--auto", "--complete", "--reason", "killed by the test"]);
        }
        let files = bench.place.run_folder();
        assert!(whole(&files.path.join("journal.jsonl")).starts_with(&before));
        let state = files.state();
        assert_eq!(state.end, Some(RunEnd::Done));
        assert_eq!(state.cautions, Vec::<String>::new());
        assert_eq!(verdicts(&files), undisturbed, "another table than without kills");
        in_a_pass +=
            state.steps.iter().flat_map(|step| &step.passes).map(|pass| pass.attempts - 1).sum::<u32>();

        let answered = recorded(&files);
        for stream in bench.engine.records() {
            let Some(key) = stream.request_id.as_deref().and_then(asked) else { continue };
            assert!(stream.arrived_ns < answered[&key], "{key:?} was asked after its answer was recorded");
        }
        for (path, pass) in files.outputs().iter().zip(state.steps.iter().flat_map(|step| &step.passes)) {
            let texts = RunFiles::json_lines(path);
            let texts: Vec<_> = texts.iter().map(|line| line["document"].as_str().unwrap()).collect();
            let lines: Vec<_> = pass.requests.iter().map(|request| request.document.as_str()).collect();
            assert_eq!(texts, lines, "{}", path.display());
        }
        fs::remove_dir_all(bench.place.path("aforo-runs")).unwrap();
    }
    println!("{kills} kills in {runs} runs; {in_a_pass} of the kills were in a pass that was then completed");
    assert!(in_a_pass > KILLS / 4, "most kills fell between passes: only {in_a_pass} in one");
    bench.runtime.block_on(bench.engine.stop());
}

#[test]
fn a_half_measured_pass_is_repeated_when_the_person_says_so() {
    let bench = Bench::new();
    let mut runner = bench.start(&["run", "protocol.toml", "--auto"]);
    bench.place.wait_for(|line| {
        matches!(&line.event, Event::Request { request, .. } if request.phase == Phase::Measurement && request.document == id(3))
    });
    runner.kill().unwrap();
    wait(runner);
    let measured = bench.place.run_folder().state().steps[0].passes[0].requests.len();
    let refused = bench.place.aforo(&["resume", "--auto"]).expect(2);
    assert!(
        refused.err.contains("half measured") && refused.err.contains("--complete or --repeat"),
        "{}",
        refused.err
    );
    bench.place.aforo(&["resume", "--auto", "--repeat", "--reason", "the fan was loud"]).expect(0);
    let files = bench.place.run_folder();
    let state = files.state();
    let first: Vec<_> =
        state.steps[0].passes.iter().map(|pass| (pass.number, pass.end.clone(), pass.attempts)).collect();
    assert_eq!(first, [(1, None, 1), (2, Some(PassEnd::Complete), 1), (3, Some(PassEnd::Complete), 1)]);
    assert_eq!(state.steps[0].passes[0].requests.len(), measured, "what was measured is kept");
    assert_eq!(state.decisions[0].reason, "the fan was loud");
    let rows = files.csv();
    assert_eq!(rows[0]["status"], "interrupted");
    assert_eq!(rows.len(), 7);
}

#[test]
fn a_run_that_is_over_or_goes_on_is_not_resumed() {
    let bench = Bench::new();
    bench.place.aforo(&["run", "protocol.toml", "--auto"]).expect(0);
    let said = bench.place.aforo(&["resume", "--auto"]).expect(2);
    assert!(said.err.contains("no run in") && said.err.contains("can be resumed"), "{}", said.err);
    let name = bench.place.run_folder().path.file_name().unwrap().to_string_lossy().into_owned();
    let said = bench.place.aforo(&["resume", &name, "--auto"]).expect(2);
    assert!(said.err.contains("is done") && said.err.contains("start a new run"), "{}", said.err);
    let said = bench.place.aforo(&["resume", "nosuch", "--auto"]).expect(2);
    assert!(said.err.contains("there is no run nosuch"), "{}", said.err);
}

#[test]
fn a_corpus_that_changed_meanwhile_is_not_gone_on_with() {
    let bench = Bench::new();
    let mut runner = bench.start(&["run", "protocol.toml", "--auto"]);
    bench.place.wait_for(|line| matches!(&line.event, Event::PhaseStarted { phase: Phase::Measurement, .. }));
    runner.kill().unwrap();
    wait(runner);
    let before = fs::read(bench.place.run_folder().path.join("journal.jsonl")).unwrap();
    let texts = fs::read_to_string(bench.place.path("documents.jsonl")).unwrap();
    bench.place.write("documents.jsonl", &texts.replacen("paid", "got", 1));
    let said: Said = bench.place.aforo(&["resume", "--auto", "--complete"]).expect(2);
    assert!(said.err.contains("has changed since the run began"), "{}", said.err);
    assert_eq!(whole(&bench.place.run_folder().path.join("journal.jsonl")), {
        let end = before.iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
        before[..end].to_vec()
    });
    bench.place.write("documents.jsonl", &texts);
    bench.place.aforo(&["resume", "--auto", "--complete"]).expect(0);
}

#[test]
fn one_runner_has_a_folder() {
    let bench = Bench::new();
    let mut runner = bench.start(&["run", "protocol.toml", "--auto", "--set", "measure.repetitions=50"]);
    bench.place.wait_for(|line| matches!(line.event, Event::PassStarted { .. }));
    let name = bench.place.run_folder().path.to_string_lossy().into_owned();
    let said = bench.place.aforo(&["resume", &name, "--auto"]).expect(2);
    assert!(said.err.contains("is running") && said.err.contains("aforo attach"), "{}", said.err);
    // Whoever goes past that check still meets the lock.
    let mut second = Command::new(env!("CARGO_BIN_EXE_aforo"));
    second.arg("runner").arg(&name).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let said = Said::of(wait(second.spawn().unwrap()));
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.out.contains("failed") && said.out.contains("a runner"), "{}", said.out);
    runner.kill().unwrap();
    wait(runner);
}
