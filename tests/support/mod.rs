//! A workplace in a temporary folder, the binary run in it, and what a run leaves behind.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

pub mod detached;
pub mod recording;
pub mod records;
pub mod stub;
pub mod tale;
pub mod valve;
pub mod viewer;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use aforo::measure::Phase;
use aforo::results::{export, row};
use aforo::run::event::{Event, Line};
use aforo::run::journal;
use aforo::run::state::State;
use tempfile::TempDir;

/// The binary.
const AFORO: &str = env!("CARGO_BIN_EXE_aforo");

/// Longest time that anything in a test may take before it counts as hanging.
pub const HANGS: Duration = Duration::from_secs(60);

/// A protocol against the fast simulated engine. Tests change it with `--set`.
const PROTOCOL: &str = r#"
name = "small"
[corpus]
documents = "documents.jsonl"
references = "references.jsonl"
[prompt]
system = "Answer as JSON."
user = "{{text}}"
[generation]
max_tokens = 64
temperature = 0
[engine]
kind = "simulated"
[engine.simulated]
seed = 11
wrong_rate = 0
broken_rate = 0
error_rate = 0
slots = 32
prefill_tokens_per_second = 1e6
iteration = "100us"
iteration_per_sequence = "5us"
[quality]
parse = "json"
threshold = 0.75
[quality.fields]
amount = { compare = "decimal" }
shop = { compare = "text" }
[measure]
warm_up = { documents = 3 }
repetitions = 1
timeout = "20s"
"#;

/// A folder with a corpus and a protocol.
pub struct Workplace {
    folder: TempDir,
}

impl Workplace {
    /// With this many documents and the usual protocol.
    pub fn new(documents: usize) -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        let (mut texts, mut references) = (String::new(), String::new());
        for index in 0..documents {
            let (amount, shop) = (format!("{index}.50"), format!("shop {}", index * 7 % 13));
            let text = format!("Receipt number {index}: paid {amount} at {shop}");
            writeln!(texts, "{}", serde_json::json!({ "id": id(index), "text": text })).unwrap();
            writeln!(
                references,
                "{}",
                serde_json::json!({ "id": id(index), "amount": amount, "shop": shop })
            )
            .unwrap();
        }
        place.write("documents.jsonl", &texts);
        place.write("references.jsonl", &references);
        place.write("protocol.toml", PROTOCOL);
        place
    }

    /// The same with an engine at this URL instead of the simulated one.
    pub fn with_server(documents: usize, base_url: &str) -> Self {
        let place = Self::new(documents);
        let (before, rest) = PROTOCOL.split_once("[engine]").unwrap();
        let (_, after) = rest.split_once("[quality]").unwrap();
        let engine = format!("[engine]\nkind = \"openai\"\nbase_url = \"{base_url}\"\nmodel = \"m\"\n");
        place.write("protocol.toml", &format!("{before}{engine}[quality]{after}"));
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Adds to the end of the protocol.
    pub fn append(&self, toml: &str) {
        let protocol = fs::read_to_string(self.path("protocol.toml")).unwrap();
        self.write("protocol.toml", &format!("{protocol}\n{toml}\n"));
    }

    /// The binary in this folder, with nothing of the caller's terminal.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(AFORO);
        command.args(arguments).current_dir(self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the binary to its end.
    pub fn aforo(&self, arguments: &[&str]) -> Said {
        Said::of(wait(self.command(arguments).spawn().unwrap()))
    }

    /// Arguments of a run of the protocol without gates.
    pub fn run_arguments<'a>(sets: &[&'a str]) -> Vec<&'a str> {
        let mut arguments = vec!["run", "protocol.toml", "--headless", "--auto"];
        for set in sets {
            arguments.extend(["--set", set]);
        }
        arguments
    }

    /// Takes the protocol with changes, without gates.
    pub fn run(&self, sets: &[&str]) -> Said {
        self.aforo(&Self::run_arguments(sets))
    }

    /// The only run folder.
    pub fn run_folder(&self) -> RunFiles {
        let runs = fs::read_dir(self.path("aforo-runs")).unwrap().map(|entry| entry.unwrap().path());
        let mut runs: Vec<_> = runs.collect();
        assert_eq!(runs.len(), 1, "{runs:?}");
        RunFiles { path: runs.remove(0) }
    }

    /// Waits until the run's journal has a line that passes the test.
    pub fn wait_for(&self, passes: impl Fn(&Line) -> bool) {
        until(|| {
            let runs = fs::read_dir(self.path("aforo-runs")).into_iter().flatten().flatten();
            let mut journals = runs.filter_map(|run| journal::read(&run.path().join("journal.jsonl")).ok());
            journals.any(|journal| journal.lines.iter().any(&passes))
        });
    }
}

/// Waits until something is so.
#[track_caller]
pub fn until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < HANGS, "it never came to it");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runners outlive whoever started them: a test that fails must not leave one behind, nor its folder under it.
impl Drop for Workplace {
    fn drop(&mut self) {
        for run in fs::read_dir(self.path("aforo-runs")).into_iter().flatten().flatten() {
            let Ok(pid) = fs::read_to_string(run.path().join("runner.lock")) else { continue };
            let process = PathBuf::from(format!("/proc/{}", pid.trim()));
            let is_ours =
                || fs::read_to_string(process.join("cmdline")).is_ok_and(|line| line.contains(AFORO));
            let Some(pid) = pid.trim().parse().ok().and_then(rustix::process::Pid::from_raw) else {
                continue;
            };
            while is_ours() {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// Whether a line records a measured request.
pub fn measured(line: &Line) -> bool {
    matches!(&line.event, Event::Request { request, .. } if request.phase == Phase::Measurement)
}

/// The id of a document of [`Workplace`].
pub fn id(index: usize) -> String {
    format!("doc-{index:02}")
}

/// Waits for a process that must end by itself.
pub fn wait(mut child: Child) -> Output {
    let pid = rustix::process::Pid::from_child(&child);
    let (done, over) = std::sync::mpsc::channel();
    let watch = std::thread::spawn(move || {
        if over.recv_timeout(HANGS).is_err() {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    });
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    done.send(()).unwrap();
    watch.join().unwrap();
    output
}

/// Sends a signal to a process.
pub fn signal(child: &Child, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), signal).unwrap();
}

/// What a process said and how it ended.
#[derive(Debug)]
pub struct Said {
    /// Exit status; `None` when a signal ended it.
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Said {
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Fails with everything that was said when the status is another.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "out:\n{}\nerr:\n{}", self.out, self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self
    }
}

/// A row of `results.csv`, by column.
pub type CsvRow = HashMap<String, String>;

/// What a run left behind.
pub struct RunFiles {
    pub path: PathBuf,
}

impl RunFiles {
    pub fn journal(&self) -> journal::Journal {
        journal::read(&self.path.join("journal.jsonl")).unwrap()
    }

    pub fn state(&self) -> State {
        State::fold(&self.journal().lines)
    }

    pub fn events(&self) -> Vec<Event> {
        self.journal().lines.into_iter().map(|line| line.event).collect()
    }

    pub fn csv_bytes(&self) -> Vec<u8> {
        fs::read(self.path.join("results.csv")).unwrap()
    }

    pub fn csv(&self) -> Vec<CsvRow> {
        let bytes = self.csv_bytes();
        let mut reader = csv::Reader::from_reader(bytes.as_slice());
        reader.deserialize().map(|row| row.unwrap()).collect()
    }

    /// Outputs files in the order of steps and passes.
    pub fn outputs(&self) -> Vec<PathBuf> {
        let mut files: Vec<_> =
            fs::read_dir(self.path.join("outputs")).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    pub fn json_lines(path: &Path) -> Vec<serde_json::Value> {
        let text = fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The CSV that the journal alone gives.
    pub fn csv_of_journal(&self) -> Vec<u8> {
        let state = self.state();
        export::csv(&row::rows(&state)).unwrap()
    }
}

/// A count in a CSV row; every count must be there.
#[track_caller]
pub fn count(row: &CsvRow, column: &str) -> u64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} is {:?}", row[column]))
}
