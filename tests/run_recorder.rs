//! The recorder: everything that is handed over is on the disk once and in order, whatever the disk does meanwhile.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use aforo::measure::Phase;
use aforo::run::event::{Event, PassEnd, PassId, RunEnd};
use aforo::run::journal;
use aforo::run::recorder::Recorder;
use aforo::run::recover::recover;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use support::recording::{PASS, Recording, alone, answer, begin, begin_pass, ids, recorded, texts};
use tokio::signal::unix::{SignalKind, signal};

fn length(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

fn caution(recorder: &Recorder, text: &str) {
    recorder.append(Event::Caution { text: text.to_owned() }).unwrap();
}

#[tokio::test]
async fn a_recorder_goes_on_where_the_folder_ends() {
    let run = Recording::new(6);
    for (attempt, documents) in [0..2, 2..4, 4..6].into_iter().enumerate() {
        let recorder = run.recorder();
        assert_eq!(*recorder.state(), recover(&run.folder).unwrap().state);
        let before = *recorder.committed().borrow();
        assert_eq!(before.bytes, length(&run.folder.journal()));
        assert_eq!(before.next_seq, recorder.state().next_seq);
        if attempt == 0 {
            begin(&recorder, 6);
        }
        answer(&recorder, PASS, documents, 10);
        recorder.sync().await.unwrap();
        let after = *recorder.committed().borrow();
        assert_eq!(after.bytes, length(&run.folder.journal()));
        assert_eq!(after.next_seq, recorder.state().next_seq);
        assert_eq!(*recorder.state(), run.state());
        recorder.close().unwrap();
    }
    let journal = journal::read(&run.folder.journal()).unwrap();
    assert_eq!(journal.lines.len(), 3 + 6, "no line is missing or doubled");
    assert_eq!(recorded(&run.state(), PASS), ids(0..6));
    assert_eq!(texts(&run.outputs()), ids(0..6));
}

#[tokio::test]
async fn what_is_committed_is_whole_in_the_file_and_already_in_the_fold() {
    let run = Recording::new(40);
    let recorder = run.recorder();
    let mut committed = recorder.committed();
    begin(&recorder, 40);
    for index in 0..40 {
        answer(&recorder, PASS, [index], 1_000);
    }
    let mut last = *committed.borrow_and_update();
    while last.next_seq < 43 {
        committed.changed().await.unwrap();
        let now = *committed.borrow_and_update();
        assert!(now.bytes > last.bytes && now.next_seq > last.next_seq);
        assert!(recorder.state().next_seq >= now.next_seq);
        let bytes = fs::read(run.folder.journal()).unwrap();
        let bytes = &bytes[..usize::try_from(now.bytes).unwrap()];
        assert!(bytes.ends_with(b"\n"));
        let lines = std::str::from_utf8(bytes).unwrap().lines().count();
        assert_eq!(lines as u64, now.next_seq);
        // The next text may be half written.
        let texts = fs::read_to_string(run.outputs()).unwrap_or_default().matches('\n').count();
        assert!(texts + 3 >= lines, "a text is there before its line");
        last = now;
    }
}

#[tokio::test]
async fn a_closed_recorder_has_written_everything_and_takes_nothing_more() {
    let run = Recording::new(4);
    let recorder = run.recorder();
    begin(&recorder, 4);
    let late = recorder.captures(PASS);
    answer(&recorder, PASS, 0..4, 10);
    // A sink that is still somewhere does not hold it up.
    recorder.close().unwrap();
    assert_eq!(recorded(&run.state(), PASS), ids(0..4));
    drop(late);
}

#[tokio::test]
async fn texts_of_two_passes_in_one_commit_reach_their_own_files() {
    let run = Recording::new(4);
    let second = PassId { step: 1, pass: 1 };
    let recorder = run.recorder();
    begin(&recorder, 4);
    begin_pass(&recorder, second, 4);
    for index in 0..4 {
        answer(&recorder, PASS, [index], 10);
        answer(&recorder, second, [3 - index], 10);
    }
    recorder.sync().await.unwrap();
    answer(&recorder, PASS, [0], 10);
    recorder.sync().await.unwrap();
    assert_eq!(texts(&run.folder.outputs(PASS)), ids([0, 1, 2, 3, 0]));
    assert_eq!(texts(&run.folder.outputs(second)), ids([3, 2, 1, 0]));
    assert_eq!(*recorder.state(), run.state());
    assert!(recover(&run.folder).unwrap().faults.is_empty());
}

// ---- a disk that takes nothing

/// Files of this process cannot grow past a size from now on, as on a full disk: a write that reaches it is cut in
/// the middle, and the next one fails.
fn limit(bytes: Option<u64>) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, Rlimit { current: bytes.or(maximum), maximum }).unwrap();
}

/// Whether this is the process of its own in which files may be limited; otherwise the test was run there.
fn is_limited_process(test: &str) -> bool {
    let Some(mut command) = alone(test) else {
        // The system sends it with each write that is refused.
        drop(signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).unwrap());
        return true;
    };
    let said = command.output().unwrap();
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(said.status.success(), "{}{}", shown(&said.stdout), shown(&said.stderr));
    assert!(shown(&said.stdout).contains("1 passed"), "it did not run: {}", shown(&said.stdout));
    false
}

async fn in_trouble(recorder: &Recorder) -> String {
    let mut trouble = recorder.trouble();
    let text = trouble.wait_for(Option::is_some).await.unwrap().clone().unwrap();
    assert!(text.contains(" cannot be written: File too large"), "{text}");
    assert!(text.contains(" free on its file system)"), "{text}");
    assert!(text.contains("prlimit --pid"), "{text}");
    text
}

/// Lets the disk be full within a line, after `into` bytes of it, and then have space again.
async fn full_within_a_line(padding: usize, limited: fn(&Recording) -> PathBuf, into: u64) {
    let run = Recording::new(30);
    let recorder = run.recorder();
    begin(&recorder, 30);
    if padding < 1_000 {
        // Makes the journal the longer file: the limit is one for all.
        caution(&recorder, &"x".repeat(20_000));
    }
    answer(&recorder, PASS, 0..4, padding);
    recorder.sync().await.unwrap();
    let before = run.state();
    let path = limited(&run);
    let good = length(&path);

    limit(Some(good + into));
    answer(&recorder, PASS, 4..6, padding);
    let text = in_trouble(&recorder).await;
    assert!(text.starts_with(path.to_str().unwrap()), "{text}");
    assert_eq!(length(&path), good, "no part of a line is left in the file");
    assert_eq!(run.state(), before);
    // It goes on taking what comes.
    answer(&recorder, PASS, 6..9, padding);
    caution(&recorder, "meanwhile");
    answer(&recorder, PASS, 9..12, padding);
    assert_eq!(*recorder.state(), before);
    let mut synced = Box::pin(recorder.sync());
    let mut trouble = recorder.trouble();
    tokio::select! {
        biased;
        _ = &mut synced => panic!("nothing can be on the disk"),
        () = tokio::task::yield_now() => {}
    }

    limit(None);
    trouble.wait_for(Option::is_none).await.unwrap();
    synced.as_mut().await.unwrap();
    drop(synced);
    assert_eq!(*recorder.trouble().borrow(), None);
    answer(&recorder, PASS, 12..15, padding);
    recorder.append(Event::PassEnded { id: PASS, end: PassEnd::Complete }).unwrap();
    recorder.append(Event::RunEnded { end: RunEnd::Done }).unwrap();
    recorder.sync().await.unwrap();
    let state = run.state();
    assert_eq!(*recorder.state(), state);
    assert_eq!(recorder.committed().borrow().bytes, length(&run.folder.journal()));
    assert_eq!(state.next_seq - before.next_seq, 11 + 3, "every line once, its number in order");
    assert_eq!(recorded(&state, PASS), ids(0..15));
    assert_eq!(texts(&run.outputs()), ids(0..15));
    assert_eq!(state.cautions.last().unwrap(), "meanwhile");
    recorder.close().unwrap();
    let again = recover(&run.folder).unwrap();
    assert_eq!((again.state, again.faults), (state, Vec::new()));
}

#[tokio::test]
async fn a_disk_that_is_full_within_a_journal_line_loses_nothing() {
    if is_limited_process("a_disk_that_is_full_within_a_journal_line_loses_nothing") {
        // In the first new line, just before its end, and in the second.
        for into in [0, 1, 300, 800] {
            full_within_a_line(10, |run| run.folder.journal(), into).await;
        }
    }
}

#[tokio::test]
async fn a_disk_that_is_full_within_a_text_loses_nothing() {
    if is_limited_process("a_disk_that_is_full_within_a_text_loses_nothing") {
        for into in [0, 1, 5_000, 9_000] {
            full_within_a_line(6_000, Recording::outputs, into).await;
        }
    }
}

#[tokio::test]
async fn a_recorder_that_ends_on_a_full_disk_says_so_and_leaves_a_folder_that_goes_on() {
    if !is_limited_process("a_recorder_that_ends_on_a_full_disk_says_so_and_leaves_a_folder_that_goes_on") {
        return;
    }
    for is_dropped in [false, true] {
        let run = Recording::new(8);
        let recorder = run.recorder();
        begin(&recorder, 8);
        // Makes the journal the longer file: the limit is one for all.
        caution(&recorder, &"x".repeat(10_000));
        answer(&recorder, PASS, 0..4, 10);
        recorder.sync().await.unwrap();
        let before = run.state();
        limit(Some(length(&run.folder.journal()) + 100));
        answer(&recorder, PASS, 4..8, 10);
        in_trouble(&recorder).await;
        if is_dropped {
            drop(recorder);
        } else {
            let error = recorder.close().unwrap_err().to_string();
            assert!(error.starts_with("the run folder cannot be written any more: "), "{error}");
            assert!(error.contains("journal.jsonl") && error.contains("recorded before is safe"), "{error}");
        }
        limit(None);
        assert_eq!(run.state(), before);
        assert_eq!(texts(&run.outputs()), ids(0..8), "texts come before their lines");

        let recorder = run.recorder();
        assert_eq!(*recorder.state(), before);
        assert_eq!(texts(&run.outputs()), ids(0..4), "what has no line never happened");
        answer(&recorder, PASS, 4..8, 10);
        recorder.close().unwrap();
        assert_eq!(texts(&run.outputs()), ids(0..8));
        assert_eq!(recorded(&run.state(), PASS), ids(0..8));
    }
}

#[tokio::test]
async fn a_closing_recorder_takes_the_last_chance() {
    if !is_limited_process("a_closing_recorder_takes_the_last_chance") {
        return;
    }
    let run = Recording::new(4);
    let recorder = run.recorder();
    begin(&recorder, 4);
    caution(&recorder, &"x".repeat(10_000));
    recorder.sync().await.unwrap();
    limit(Some(length(&run.folder.journal()) + 10));
    answer(&recorder, PASS, 0..4, 10);
    recorder
        .append(Event::PhaseEnded { id: PASS, phase: Phase::Measurement, in_flight_peak: 1, engine: None })
        .unwrap();
    in_trouble(&recorder).await;
    limit(None);
    recorder.close().unwrap();
    assert_eq!(recorded(&run.state(), PASS), ids(0..4));
    assert_eq!(texts(&run.outputs()), ids(0..4));
}
