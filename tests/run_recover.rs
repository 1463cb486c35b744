//! A runner that begins again: wherever the one before was killed, what it had recorded is kept and nothing else is.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use aforo::measure::Phase;
use aforo::run::cause::CutCause;
use aforo::run::event::{Event, PassEnd, PassId};
use aforo::run::folder::RunFolder;
use aforo::run::journal::{self, JournalError};
use aforo::run::lock::{LockError, RunLock};
use aforo::run::recover::{RecoverError, Recovered, recover};
use aforo::run::state::State;
use support::recording::{PASS, Recording, alone, answer, begin, begin_pass, ids, recorded, texts};

const SECOND: PassId = PassId { step: 1, pass: 1 };

/// A run whose first pass was cut and continued, so that a document occurs twice in it, and whose second goes on.
fn run() -> Recording {
    let run = Recording::new(4);
    let recorder = run.recorder();
    begin(&recorder, 4);
    answer(&recorder, PASS, [0, 2, 1], 0);
    recorder.append(Event::PassEnded { id: PASS, end: PassEnd::Cut(CutCause::Paused) }).unwrap();
    recorder.append(Event::PassContinued { id: PASS, attempt: 2, requests: 2 }).unwrap();
    recorder.append(Event::PhaseStarted { id: PASS, phase: Phase::Measurement, requests: 2 }).unwrap();
    answer(&recorder, PASS, [2, 3], 0);
    recorder.append(Event::PassEnded { id: PASS, end: PassEnd::Complete }).unwrap();
    begin_pass(&recorder, SECOND, 4);
    answer(&recorder, SECOND, [0, 1], 0);
    recorder.close().unwrap();
    run
}

/// Recovering once more changes nothing and says the same.
fn recovered(run: &Recording) -> Recovered {
    let first = recover(&run.folder).unwrap();
    let bytes = run.bytes();
    assert_eq!(recover(&run.folder).unwrap(), first);
    assert_eq!(run.bytes(), bytes);
    first
}

fn put_back(files: &[(PathBuf, Vec<u8>)]) {
    for (path, bytes) in files {
        fs::write(path, bytes).unwrap();
    }
}

fn line_ends(bytes: &[u8]) -> Vec<usize> {
    (1..=bytes.len()).filter(|end| bytes[end - 1] == b'\n').collect()
}

fn outputs_of(run: &Recording, id: PassId) -> Vec<String> {
    let path = run.folder.outputs(id);
    if path.exists() { texts(&path) } else { Vec::new() }
}

#[test]
fn a_whole_folder_is_left_alone() {
    let run = run();
    let before = run.bytes();
    let whole = recovered(&run);
    assert_eq!(run.bytes(), before);
    assert_eq!(whole.state, run.state());
    assert_eq!(whole.bytes, fs::metadata(run.folder.journal()).unwrap().len());
    assert!(whole.faults.is_empty());
    assert_eq!(recorded(&whole.state, PASS), ids([0, 2, 1, 2, 3]));
}

#[test]
fn f46_f69_wherever_the_journal_was_cut_the_folder_is_brought_to_its_last_whole_line() {
    let run = run();
    let files = run.bytes();
    let journal = fs::read(run.folder.journal()).unwrap();
    let lines = journal::read(&run.folder.journal()).unwrap().lines;
    let ends = line_ends(&journal);
    let begun = ends[0];
    // Before its first line is whole there cannot be a text.
    for cut in begun..=journal.len() {
        put_back(&files);
        fs::write(run.folder.journal(), &journal[..cut]).unwrap();
        let whole = ends.iter().filter(|end| **end <= cut).count();
        let Recovered { state, bytes, faults } = recover(&run.folder).unwrap();
        assert_eq!(bytes, ends[whole - 1] as u64, "cut at {cut}");
        assert_eq!(state, State::fold(&lines[..whole]), "cut at {cut}");
        assert!(faults.is_empty(), "cut at {cut}: {faults:?}");
        assert_eq!(fs::read(run.folder.journal()).unwrap(), &journal[..ends[whole - 1]]);
        for id in [PASS, SECOND] {
            assert_eq!(outputs_of(&run, id), recorded(&state, id), "cut at {cut}");
        }
        if cut % 100 == 0 {
            assert_eq!(recovered(&run).state, state);
        }
    }
}

#[test]
fn f46_wherever_the_texts_were_cut_no_line_is_lost_and_each_one_without_a_text_is_reported() {
    let run = run();
    let files = run.bytes();
    let (state, path) = (run.state(), run.outputs());
    let whole = fs::read(&path).unwrap();
    let documents = recorded(&state, PASS);
    let ends = line_ends(&whole);
    for cut in 0..=whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let Recovered { state: now, faults, .. } = recover(&run.folder).unwrap();
        assert_eq!(now, state);
        let left = texts(&path);
        let complete = ends.iter().filter(|end| **end <= cut).count();
        assert_eq!(left, documents[..complete], "cut at {cut}");
        match &documents[complete..] {
            [] => assert!(faults.is_empty(), "{faults:?}"),
            missing => {
                assert_eq!(
                    faults,
                    [format!(
                        "step 1 pass 1: {} recorded requests have no text in step-01-pass-1.jsonl: {}",
                        missing.len(),
                        missing.join(", ")
                    )]
                );
            }
        }
        if cut % 100 == 0 {
            recovered(&run);
        }
    }
    fs::remove_file(&path).unwrap();
    let faults = recovered(&run).faults;
    assert!(faults[0].contains("5 recorded requests"), "{faults:?}");
    assert!(!path.exists());
    put_back(&files);
    assert!(recovered(&run).faults.is_empty());
}

#[test]
fn texts_without_a_line_are_cut_off_and_written_again() {
    let run = run();
    let path = run.folder.outputs(SECOND);
    let (state, good) = (run.state(), fs::read_to_string(&path).unwrap());
    // Also of a document that has a line already: a pass that is continued asks again what was cancelled.
    let more = good.replace("doc-01", "doc-02");
    for torn in ["", "{\"document\":\"doc-03\",\"te", "\0\0\0"] {
        fs::write(&path, format!("{good}{more}{torn}")).unwrap();
        let found = recovered(&run);
        assert_eq!((found.state, found.faults), (state.clone(), Vec::new()));
        assert_eq!(fs::read_to_string(&path).unwrap(), good);
    }
    let recorder = run.recorder();
    answer(&recorder, SECOND, [2, 3], 0);
    recorder.close().unwrap();
    assert_eq!(texts(&path), ids([0, 1, 2, 3]));
    assert_eq!(recorded(&run.state(), SECOND), ids([0, 1, 2, 3]));
}

#[test]
fn texts_of_a_pass_that_the_journal_does_not_know_never_happened() {
    let run = run();
    let third = run.folder.outputs(PassId { step: 1, pass: 2 });
    let good = fs::read(run.outputs()).unwrap();
    fs::write(&third, &good).unwrap();
    // A file that aforo did not make is nobody's.
    let strangers = ["step-1-pass-1.jsonl", "step-00-pass-1.jsonl", "notes.txt"];
    let strangers = strangers.map(|name| run.folder.path().join("outputs").join(name));
    for stranger in &strangers {
        fs::write(stranger, &good).unwrap();
    }
    assert!(recovered(&run).faults.is_empty());
    assert_eq!(fs::read(&third).unwrap(), b"");
    for stranger in &strangers {
        assert_eq!(fs::read(stranger).unwrap(), good);
    }
}

#[test]
fn a_text_that_was_lost_in_the_middle_is_reported_once_and_takes_no_other_with_it() {
    let run = run();
    let path = run.outputs();
    let whole = fs::read_to_string(&path).unwrap();
    let lines: Vec<_> = whole.split_inclusive('\n').collect();
    let without = |gone: usize| {
        let kept = lines.iter().enumerate().filter(|(place, _)| *place != gone);
        kept.map(|(_, line)| *line).collect::<String>()
    };
    for (gone, document) in recorded(&run.state(), PASS).iter().enumerate() {
        fs::write(&path, without(gone)).unwrap();
        let faults = recovered(&run).faults;
        let expected =
            format!("step 1 pass 1: 1 recorded requests have no text in step-01-pass-1.jsonl: {document}");
        assert_eq!(faults, [expected], "without text {gone}");
        assert_eq!(fs::read_to_string(&path).unwrap(), without(gone), "the others stay");
    }
    // A line that a disk turned into something else is no text.
    fs::write(&path, whole.replacen(lines[1], "\0\0\0\0\n", 1)).unwrap();
    let faults = recovered(&run).faults;
    assert!(faults[0].contains("1 recorded requests") && faults[0].ends_with(": doc-02"), "{faults:?}");
    assert_eq!(line_ends(&fs::read(&path).unwrap()).len(), 5);

    let recorder = run.recorder();
    recorder.append(Event::Caution { text: faults[0].clone() }).unwrap();
    recorder.close().unwrap();
    assert!(recovered(&run).faults.is_empty(), "it is in the journal already");
}

#[test]
fn many_lines_without_a_text_are_counted_and_the_first_named() {
    let run = Recording::new(20);
    let recorder = run.recorder();
    begin(&recorder, 20);
    answer(&recorder, PASS, 0..20, 0);
    recorder.close().unwrap();
    fs::remove_file(run.outputs()).unwrap();
    let faults = recovered(&run).faults;
    assert!(faults[0].contains("20 recorded requests"), "{faults:?}");
    assert!(faults[0].ends_with(": doc-00, doc-01, doc-02, doc-03, doc-04 and 15 more"), "{faults:?}");
}

#[test]
fn a_runner_that_was_killed_before_its_first_line_simply_begins() {
    let run = Recording::new(4);
    assert_eq!(recovered(&run), Recovered::default());
    for torn in ["", "{", "{\"seq\":0,\"at\":\"1970-01-01T00:00:00Z\",\"event\":\"run-star"] {
        fs::write(run.folder.journal(), torn).unwrap();
        assert_eq!(recovered(&run), Recovered::default());
        assert_eq!(fs::read(run.folder.journal()).unwrap(), b"");
    }
    let recorder = run.recorder();
    begin(&recorder, 4);
    recorder.close().unwrap();
    assert!(run.state().started.is_some());
    fs::remove_dir(run.folder.path().join("outputs")).unwrap();
    assert!(recover(&run.folder).unwrap().state.started.is_some());
}

#[test]
fn damage_changes_nothing_on_the_disk() {
    let run = run();
    let files = run.bytes();
    let journal = fs::read_to_string(run.folder.journal()).unwrap();
    let refused = |changed: &str| {
        fs::write(run.folder.journal(), format!("{changed}{{\"torn")).unwrap();
        let before = run.bytes();
        let error = recover(&run.folder).unwrap_err();
        assert_eq!(run.bytes(), before);
        put_back(&files);
        error
    };
    let error = refused(&journal.replacen("\"pass-started\"", "7", 1));
    assert!(matches!(error, RecoverError::Journal(JournalError::Line { line: 2, .. })), "{error}");
    let without_first = journal.split_once('\n').unwrap().1;
    let error = refused(without_first);
    assert!(matches!(error, RecoverError::Journal(JournalError::Line { line: 1, .. })), "{error}");
}

#[test]
fn texts_are_never_cut_off_because_the_journal_is_gone() {
    let run = run();
    for other in [None, Some(""), Some("{\"se")] {
        match other {
            None => fs::remove_file(run.folder.journal()).unwrap(),
            Some(text) => fs::write(run.folder.journal(), text).unwrap(),
        }
        let before = run.bytes();
        let error = recover(&run.folder).unwrap_err();
        assert!(matches!(error, RecoverError::NoBeginning(_)), "{error}");
        assert!(error.to_string().contains("nothing was changed"), "{error}");
        assert_eq!(run.bytes(), before);
    }
    let empty = Recording::new(4);
    let recorder = empty.recorder();
    recorder.append(Event::Caution { text: "first".to_owned() }).unwrap();
    recorder.close().unwrap();
    assert!(matches!(recover(&empty.folder), Err(RecoverError::NoBeginning(_))), "no run-started");
}

// ---- the lock

fn held_by(folder: &RunFolder) -> Option<u32> {
    match RunLock::take(folder) {
        Err(LockError::Held { pid }) => pid,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_second_runner_is_refused_with_the_first_ones_pid() {
    let run = Recording::new(4);
    let lock = RunLock::take(&run.folder).unwrap();
    assert_eq!(held_by(&run.folder), Some(std::process::id()));
    assert_eq!(held_by(&run.folder), Some(std::process::id()), "being refused changes nothing");
    assert_eq!(fs::metadata(run.folder.lock()).unwrap().permissions().mode() & 0o777, 0o600);
    // What was started from here does not keep it.
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    drop(lock);
    RunLock::take(&run.folder).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn the_lock_needs_its_folder() {
    let run = Recording::new(4);
    let gone = RunFolder::open(&run.folder.path().join("gone"));
    let error = RunLock::take(&gone).unwrap_err();
    assert!(matches!(error, LockError::Folder(_)) && error.to_string().contains("runner.lock"), "{error}");
}

/// Names the folder that the process of its own takes.
const FOLDER: &str = "AFORO_TEST_FOLDER";

#[test]
fn kill_9_releases_the_lock() {
    let Some(mut command) = alone("kill_9_releases_the_lock") else {
        let folder = RunFolder::open(&PathBuf::from(std::env::var_os(FOLDER).unwrap()));
        let _lock = RunLock::take(&folder).unwrap();
        println!("\ntaken");
        std::thread::park();
        return;
    };
    let run = Recording::new(4);
    let mut holder =
        command.env(FOLDER, run.folder.path()).stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
    let mut said = BufReader::new(holder.stdout.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap() == "taken"));
    assert_eq!(held_by(&run.folder), Some(holder.id()));
    holder.kill().unwrap();
    holder.wait().unwrap();
    let _lock = RunLock::take(&run.folder).unwrap();
    assert_eq!(held_by(&run.folder), Some(std::process::id()), "the old pid is not in the file any more");
}
