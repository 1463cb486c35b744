//! Runs that go on by themselves, and the processes that take them.

use std::fs;

use aforo::run::folder::RunFolder;
use aforo::run::lock::wait_until_free;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::{RunFiles, Workplace, until};

/// Starts a run that goes on by itself, and gives its folder.
pub fn detached(place: &Workplace, more: &[&str]) -> RunFiles {
    place.aforo(&[&["run", "protocol.toml", "--detach"], more].concat()).expect(0);
    place.run_folder()
}

/// The process that takes a run.
pub fn runner_of(files: &RunFiles) -> Pid {
    let pid = fs::read_to_string(files.path.join("runner.lock")).unwrap();
    Pid::from_raw(pid.trim().parse().unwrap()).unwrap()
}

pub fn is_alive(pid: Pid) -> bool {
    // A process that is dead and not yet reaped is not alive.
    fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with('Z'))
}

/// Waits until the runner is gone: it writes `results.csv` after its last event.
pub fn over(files: &RunFiles) {
    let runner = runner_of(files);
    until(|| !is_alive(runner));
    // The last of its threads may hold its files still.
    wait_until_free(&RunFolder::open(&files.path)).unwrap();
}

pub fn state_of(place: &Workplace) -> String {
    let listed: serde_json::Value =
        serde_json::from_str(&place.aforo(&["list", "--json"]).expect(0).out).unwrap();
    listed[0]["state"].as_str().unwrap().to_owned()
}

/// Limits the size of each file that a process writes: past it a write fails as on a full disk.
pub fn limit_files(pid: Pid, bytes: Option<u64>) {
    prlimit(Some(pid), Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
}
