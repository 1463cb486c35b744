//! What only time or many requests show. Runs with `cargo nextest run --profile e2e`.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use std::fs;
use std::time::Duration;

use aforo::run::control::{Message, Viewer};
use aforo::run::event::{Event, RunEnd};
use support::viewer::Watch;
use support::{Workplace, until};

/// CPU time that a process has used.
fn cpu(pid: &str) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

#[test]
fn a_minute_at_a_gate_costs_next_to_nothing() {
    let place = Workplace::new(12);
    place.aforo(&["run", "protocol.toml", "--detach"]).expect(0);
    place.wait_for(|line| matches!(line.event, Event::GateOpened { .. }));
    let files = place.run_folder();
    let pid = fs::read_to_string(files.path.join("runner.lock")).unwrap().trim().to_owned();
    let begun = cpu(&pid);
    // The minute is what is measured.
    std::thread::sleep(Duration::from_secs(60));
    let used = cpu(&pid).saturating_sub(begun);
    place.aforo(&["stop"]).expect(0);
    println!("{used:?} of CPU in a minute at a gate");
    assert!(used < Duration::from_millis(100), "{used:?}");
}

/// Memory that a process holds, in MiB.
fn resident(pid: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    kib.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
}

/// The whole comparison, with 100,000 requests and a limit of 2 %, is `cargo bench --bench viewers`.
#[tokio::test]
async fn a_viewer_that_reads_nothing_costs_the_runner_no_memory_and_misses_no_line() {
    let place = Workplace::new(200);
    let many = ["--set", "measure.repetitions=30", "--set", "baseline.concurrency=16"];
    place.aforo(&[&["run", "protocol.toml", "--detach", "--auto"], &many[..]].concat()).expect(0);
    let files = place.run_folder();
    let pid = fs::read_to_string(files.path.join("runner.lock")).unwrap().trim().to_owned();
    // One that reads nothing until the run is nearly over, and one that reads all the time.
    let deaf = Viewer::connect(&files.path).await.unwrap();
    let (mut deaf, _remote) = deaf.follow(0).await.unwrap();
    let mut watch = Watch::attach(&files.path).await;
    let at = || resident(&pid);
    watch.until(|line| matches!(&line.event, Event::PassEnded { id, .. } if id.pass == 2)).await;
    let early = at();
    watch.until(|line| matches!(&line.event, Event::PassEnded { id, .. } if id.pass == 28)).await;
    let late = at();
    let mut next = 0;
    let mut missed = 0;
    while let Some(message) = deaf.next().await {
        match message.unwrap() {
            Message::Line(line) => {
                assert_eq!(line.seq, next, "exactly once and in order");
                next += 1;
            }
            Message::Live(live) => missed = missed.max(live.dropped),
        }
        if next == watch.state.next_seq {
            break;
        }
    }
    watch.end().await;
    assert_eq!(watch.state.end, Some(RunEnd::Done));
    println!("{early:.1} MiB after two passes, {late:.1} MiB after 28; {missed} live lines dropped");
    // 26 passes of 200 records stay in the fold; what a viewer has not read must not.
    assert!(late - early < 24.0, "{early} MiB grew to {late} MiB");
    until(|| !files.path.join("runner.json").exists());
}
