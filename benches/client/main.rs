//! What measuring costs: CPU per streamed event and per request of the whole client (judging and journal on), beside
//! a minimal reader that only counts events; the error of the first token's time; start-up and memory.
//!
//! `cargo bench --bench client` prints the tables of `benches/RESULTS.md`. The server is a process of its own, so
//! that its work is in no figure.

#![allow(clippy::unwrap_used, clippy::unchecked_time_subtraction)]

mod floor;
mod precision;
mod server;
mod startup;
mod whole;

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server::{Pace, Plan, Server};

/// Runs of each case; the median is printed.
const RUNS: usize = 5;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("serve") => server::serve(&arguments[1..]),
        Some("simulate") => precision::simulate(),
        _ => {
            raise_open_files();
            println!("# Cost of measuring\n");
            costs();
            precision::report();
            startup::report();
        }
    }
}

/// 256 streams need more files than the usual soft limit leaves.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(4096, |maximum| maximum.min(4096));
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum }).unwrap();
}

fn costs() {
    println!(
        "| pace | streams | events | floor us/event | aforo us/event | ratio (min–max of {RUNS}) | aforo us/request |"
    );
    println!("|---|---|---|---|---|---|---|");
    for pace in [Pace::Many, Pace::Alone, Pace::Paced] {
        for streams in [1, 64, 256] {
            let plan = Plan { pace, streams, requests: requests(pace, streams), events: events(pace) };
            let server = Server::start(plan);
            // Starting a run costs the same however long it is; a run of one request tells how much.
            let start = whole::run(&server, Plan { requests: 1, ..plan });
            let mut pairs: Vec<(Duration, Duration)> = (0..RUNS)
                .map(|_| (floor::run(&server, plan), whole::run(&server, plan).saturating_sub(start)))
                .collect();
            pairs.sort_by(|a, b| ratio(*a).total_cmp(&ratio(*b)));
            let (floor, whole) = pairs[RUNS / 2];
            println!(
                "| {pace:?} | {streams} | {} | {:.2} | {:.2} | {:.2} ({:.2}–{:.2}) | {:.0} |",
                plan.total_events(),
                per(floor, plan.total_events()),
                per(whole, plan.total_events()),
                ratio((floor, whole)),
                ratio(pairs[0]),
                ratio(pairs[RUNS - 1]),
                per(whole, plan.requests),
            );
        }
    }
    println!();
}

fn requests(pace: Pace, streams: usize) -> usize {
    match (pace, streams) {
        (Pace::Paced, 1) => 6,
        (Pace::Paced, streams) => streams * 3,
        (_, 1) => 500,
        _ => 2_048,
    }
}

fn events(pace: Pace) -> usize {
    if pace == Pace::Paced { 100 } else { 200 }
}

fn ratio((floor, whole): (Duration, Duration)) -> f64 {
    whole.as_secs_f64() / floor.as_secs_f64()
}

/// Microseconds per unit.
fn per(cpu: Duration, units: usize) -> f64 {
    cpu.as_secs_f64() * 1e6 / units as f64
}

/// CPU time of this process, all threads, user and system.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}
