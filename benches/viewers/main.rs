//! What viewers cost a run: 100,000 requests with nobody attached, and with three viewers of which one is stopped for a
//! minute. Real processes throughout: the engine, the runner, the viewers. Prints a table; fails where a goal is missed.
//!
//! `cargo bench --bench viewers`; `-- --quick` takes 10,000 requests and stops the viewer for five seconds.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use aforo::run::event::{Event, RunEnd};
use aforo::run::journal;
use aforo::run::state::State;
use rustix::process::{Pid, Signal, kill_process};

const AFORO: &str = env!("CARGO_BIN_EXE_aforo");
const DOCUMENTS: usize = 1000;
const STREAMS: usize = 32;
/// Largest share of its throughput that a run may lose to its viewers.
const GOAL: f64 = 0.02;

struct Plan {
    passes: usize,
    stopped: Duration,
}

/// A folder with a corpus, and protocols for the engine and for the run.
fn prepare(folder: &Path, passes: usize) {
    let lines = |of: fn(usize) -> String| (0..DOCUMENTS).map(of).collect::<String>();
    fs::write(
        folder.join("documents.jsonl"),
        lines(|n| format!("{{\"id\":\"d{n:04}\",\"text\":\"Paid {n}.50 at the corner\"}}\n")),
    )
    .unwrap();
    fs::write(
        folder.join("references.jsonl"),
        lines(|n| format!("{{\"id\":\"d{n:04}\",\"amount\":\"{n}.50\"}}\n")),
    )
    .unwrap();
    let protocol = |engine: &str| {
        format!(
            "name = \"viewers\"\n[corpus]\ndocuments = \"documents.jsonl\"\nreferences = \"references.jsonl\"\n\
             [prompt]\nuser = \"{{{{text}}}}\"\n[generation]\nmax_tokens = 32\ntemperature = 0\n{engine}\
             [quality]\nparse = \"json\"\nthreshold = 0.5\n[quality.fields]\namount = {{ compare = \"decimal\" }}\n\
             [measure]\nwarm_up = {{ documents = 0 }}\nrepetitions = {passes}\n[baseline]\nconcurrency = {STREAMS}\n"
        )
    };
    let simulated = "[engine]\nkind = \"simulated\"\n[engine.simulated]\nwrong_rate = 0\nbroken_rate = 0\nslots = 64\n\
        iteration = \"4ms\"\niteration_per_sequence = \"1us\"\nprefill_tokens_per_second = 1e6\ntokens_per_event = 4\n";
    fs::write(folder.join("engine.toml"), protocol(simulated)).unwrap();
}

/// A process that ends with the benchmark, however that ends.
struct Engine(Child);

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn engine(folder: &Path) -> (Engine, String) {
    let mut engine = Command::new(AFORO)
        .args(["simulate", "--port", "0", "--protocol", "engine.toml"])
        .current_dir(folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    BufReader::new(engine.stdout.as_mut().unwrap()).read_line(&mut ready).unwrap();
    (Engine(engine), ready.split_whitespace().nth(1).unwrap().to_owned())
}

/// What a run says of itself when it is over.
struct Taken {
    seconds: f64,
    peak_mib: f64,
    cpu: Duration,
}

fn only_run(folder: &Path) -> PathBuf {
    let mut runs: Vec<_> =
        fs::read_dir(folder.join("aforo-runs")).unwrap().map(|run| run.unwrap().path()).collect();
    assert_eq!(runs.len(), 1);
    runs.remove(0)
}

/// Takes a run; `watch` does what it likes meanwhile, and gives the viewers that have to end well.
fn take(folder: &Path, plan: &Plan, watch: impl FnOnce(&Path) -> Vec<Child>) -> Taken {
    let _ = fs::remove_dir_all(folder.join("aforo-runs"));
    let started = Command::new(AFORO)
        .args(["run", "protocol.toml", "--detach", "--auto"])
        .current_dir(folder)
        .stderr(Stdio::null())
        .status();
    assert!(started.unwrap().success());
    let run = only_run(folder);
    let pid: i32 = fs::read_to_string(run.join("runner.lock")).unwrap().trim().parse().unwrap();
    let mut viewers = watch(folder);
    // A process that is gone has no status file: the last one read is the one that counts.
    let (mut peak_mib, mut cpu) = (0.0, Duration::ZERO);
    while let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) {
        if let Some(kib) = status.lines().find_map(|line| line.strip_prefix("VmHWM:")) {
            peak_mib = kib.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0;
        }
        if let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) {
            let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
            if fields[0] == "Z" {
                break;
            }
            let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
            cpu = Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    for viewer in &mut viewers {
        assert!(viewer.wait().unwrap().success(), "a viewer did not see the end");
    }
    let lines = journal::read(&run.join("journal.jsonl")).unwrap().lines;
    let state = State::fold(&lines);
    assert_eq!(state.end, Some(RunEnd::Done));
    let requests = lines.iter().filter(|line| matches!(line.event, Event::Request { .. })).count();
    // The probe is one more.
    assert_eq!(requests, plan.passes * DOCUMENTS + 1);
    let durations =
        aforo::results::row::rows(&state).iter().map(|row| row.duration.unwrap().as_secs_f64()).sum();
    Taken { seconds: durations, peak_mib, cpu }
}

fn three_viewers(folder: &Path, stopped: Duration) -> Vec<Child> {
    let attach = || {
        Command::new(AFORO)
            .arg("attach")
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let viewers = vec![attach(), attach(), attach()];
    std::thread::sleep(Duration::from_secs(2));
    let slow = Pid::from_child(&viewers[0]);
    kill_process(slow, Signal::STOP).unwrap();
    let begun = Instant::now();
    std::thread::spawn(move || {
        std::thread::sleep(stopped.saturating_sub(begun.elapsed()));
        kill_process(slow, Signal::CONT).unwrap();
    });
    viewers
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let plan = if quick {
        Plan { passes: 10, stopped: Duration::from_secs(5) }
    } else {
        Plan { passes: 100, stopped: Duration::from_secs(60) }
    };
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path(), plan.passes);
    let (_engine, url) = engine(folder.path());
    let text = fs::read_to_string(folder.path().join("engine.toml")).unwrap();
    let (before, rest) = text.split_once("[engine]").unwrap();
    let (_, after) = rest.split_once("[quality]").unwrap();
    let server =
        format!("[engine]\nkind = \"openai\"\nbase_url = \"{url}\"\nmodel = \"simulated\"\n[quality]");
    fs::write(folder.path().join("protocol.toml"), format!("{before}{server}{after}")).unwrap();

    println!("| run | requests | seconds | requests/s | runner's peak MiB | runner's CPU s |");
    println!("|---|---|---|---|---|---|");
    let requests = plan.passes * DOCUMENTS;
    let mut taken = Vec::new();
    // Alone before and after, so that a drift of the machine is not taken for the viewers' doing.
    for attended in [false, true, false] {
        let result = take(folder.path(), &plan, |folder| {
            if attended { three_viewers(folder, plan.stopped) } else { Vec::new() }
        });
        let name = if attended { "three viewers, one stopped" } else { "nobody attached" };
        println!(
            "| {name} | {requests} | {:.2} | {:.0} | {:.1} | {:.1} |",
            result.seconds,
            requests as f64 / result.seconds,
            result.peak_mib,
            result.cpu.as_secs_f64()
        );
        taken.push(result);
    }
    let alone = f64::midpoint(taken[0].seconds, taken[2].seconds);
    let cost = taken[1].seconds / alone - 1.0;
    println!("\nviewers cost {:.2} % of the throughput (goal: at most {:.0} %)", cost * 100.0, GOAL * 100.0);
    let more = taken[1].peak_mib - taken[0].peak_mib.max(taken[2].peak_mib);
    println!("and {more:.1} MiB of the runner's memory (goal: at most 16)");
    assert!(cost <= GOAL && more <= 16.0, "a goal is missed");
}
