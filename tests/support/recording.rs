//! A run folder that is written by the recorder itself, with answers made up for tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use aforo::engine::Stamp;
use aforo::engine::openai::{Answer, End, Exchange};
use aforo::measure::{Capture, Phase};
use aforo::protocol::corpus::Corpus;
use aforo::protocol::{QualityRule, read};
use aforo::run::event::{Event, PassId};
use aforo::run::folder::RunFolder;
use aforo::run::journal;
use aforo::run::recorder::{Begun, Recorder};
use aforo::run::recover::{Recovered, recover};
use aforo::run::state::State;
use serde_json::json;

use super::records::started;
use super::{RunFiles, Workplace, id};

/// The pass of most tests.
pub const PASS: PassId = PassId { step: 0, pass: 1 };

/// A run folder and what a recorder needs.
pub struct Recording {
    _place: Workplace,
    pub folder: RunFolder,
    rule: QualityRule,
    corpus: Arc<Corpus>,
}

impl Recording {
    pub fn new(documents: usize) -> Self {
        let place = Workplace::new(documents);
        let protocol = read(&place.path("protocol.toml"), &[]).unwrap().protocol;
        let corpus = Arc::new(protocol.load_corpus().unwrap());
        let folder = RunFolder::create(&place.path("runs"), "small", jiff::Timestamp::UNIX_EPOCH).unwrap();
        Self { _place: place, folder, rule: protocol.quality, corpus }
    }

    /// A recorder that goes on where the folder ends.
    pub fn recorder(&self) -> Recorder {
        let Recovered { state, bytes, .. } = recover(&self.folder).unwrap();
        let (notices, _) = tokio::sync::mpsc::unbounded_channel();
        let corpus = Arc::clone(&self.corpus);
        Recorder::start(&self.folder, self.rule.clone(), corpus, Begun { state, bytes }, notices).unwrap()
    }

    pub fn outputs(&self) -> PathBuf {
        self.folder.outputs(PASS)
    }

    /// The fold of what is on the disk, whose last line is whole.
    pub fn state(&self) -> State {
        let journal = journal::read(&self.folder.journal()).unwrap();
        assert!(!journal.torn);
        State::fold(&journal.lines)
    }

    /// Every file of the folder with its bytes.
    pub fn bytes(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut paths = vec![self.folder.journal()];
        let outputs = fs::read_dir(self.folder.path().join("outputs")).unwrap();
        paths.extend(outputs.map(|entry| entry.unwrap().path()));
        paths.sort();
        paths.into_iter().filter_map(|path| Some((path.clone(), fs::read(path).ok()?))).collect()
    }
}

/// The first events of a run, up to the measurement of its first pass.
pub fn begin(recorder: &Recorder, documents: usize) {
    recorder.append(Event::RunStarted(Box::new(started(documents, 2)))).unwrap();
    begin_pass(recorder, PASS, documents);
}

pub fn begin_pass(recorder: &Recorder, id: PassId, requests: usize) {
    recorder.append(Event::PassStarted { id, pass_key: "k".to_owned() }).unwrap();
    recorder.append(Event::PhaseStarted { id, phase: Phase::Measurement, requests }).unwrap();
}

/// Hands answers to these documents over.
pub fn answer(recorder: &Recorder, id: PassId, documents: impl IntoIterator<Item = usize>, padding: usize) {
    let sink = recorder.captures(id);
    for index in documents {
        assert!(sink.take(capture(index, padding)));
    }
}

/// A request that was answered with a text of about that many bytes.
fn capture(index: usize, padding: usize) -> Capture {
    let at = Stamp::from_nanos;
    let text = json!({ "amount": format!("{index}.50"), "note": "x".repeat(padding) }).to_string();
    let choice = |delta, finish: Option<&str>| json!({ "index": 0, "delta": delta, "finish_reason": finish });
    let mut answer = Answer::new();
    for choice in [choice(json!({ "content": text }), None), choice(json!({}), Some("stop"))] {
        answer.read(format!("data: {}\n\n", json!({ "choices": [choice] })).as_bytes(), at(20));
    }
    answer.read(b"data: [DONE]\n\n", at(30));
    answer.end(End::Complete, at(40));
    Capture {
        index,
        phase: Phase::Measurement,
        scheduled: at(10),
        ended: at(40),
        exchange: Exchange { sent: Some(at(10)), status: Some(200), ..Exchange::default() },
        answer,
        cancelled: false,
    }
}

/// Documents of the texts in an outputs file, in order.
pub fn texts(path: &Path) -> Vec<String> {
    let lines = RunFiles::json_lines(path).into_iter();
    lines.map(|line| line["document"].as_str().unwrap().to_owned()).collect()
}

/// Documents of the lines of a pass, in order.
pub fn recorded(state: &State, id: PassId) -> Vec<String> {
    let requests = state.pass(id).map_or(&[][..], |pass| &pass.requests);
    requests.iter().map(|request| request.document.clone()).collect()
}

pub fn ids(documents: impl IntoIterator<Item = usize>) -> Vec<String> {
    documents.into_iter().map(id).collect()
}

/// Says that a test runs in the process of [`alone`].
const ALONE: &str = "AFORO_TEST_ALONE";

/// Runs a test of this binary once more, in a process of its own that may be limited or killed. `None` in that
/// process, where the test goes on.
pub fn alone(test: &str) -> Option<Command> {
    if std::env::var_os(ALONE).is_some() {
        return None;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(ALONE, "1");
    Some(command)
}
