//! The one writer of a run folder: judges what the load captured, writes texts and events, and keeps the fold.
//!
//! A thread of its own, so that neither judging nor the disk delays the reads of the load. A text is synced to the
//! disk before its journal line is written; lines are held back for at most [`HOLD`] so that many share one sync.

use std::fs::File;
use std::io::Write as _;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::{mpsc as notices, oneshot};

use super::event::{Event, Line, PassId};
use super::folder::{FolderError, RunFolder, append_to};
use super::outputs::OutputLine;
use super::state::State;
use crate::engine::Stamp;
use crate::measure::{Capture, Phase, RequestRecord};
use crate::protocol::QualityRule;
use crate::protocol::corpus::Corpus;

/// Longest time that a journal line waits for others to share a sync with.
const HOLD: Duration = Duration::from_millis(100);

/// The folder can no longer be written.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the run folder cannot be written any more: {0}; what was recorded before is safe")]
pub struct RecordError(String);

impl From<&FolderError> for RecordError {
    fn from(error: &FolderError) -> Self {
        Self(error.to_string())
    }
}

enum Entry {
    Event(Event),
    Capture(PassId, Box<Capture>),
    Sync(oneshot::Sender<Result<(), RecordError>>),
}

/// Handle of the recorder thread.
#[derive(Debug)]
pub struct Recorder {
    entries: Option<mpsc::Sender<Entry>>,
    state: Arc<Mutex<State>>,
    broken: Arc<OnceLock<RecordError>>,
    thread: Option<JoinHandle<()>>,
}

/// A cheap handle that takes captures of one pass.
#[derive(Debug, Clone)]
pub struct CaptureSink {
    entries: mpsc::Sender<Entry>,
    id: PassId,
}

impl CaptureSink {
    /// Hands a capture over; false when the recorder is gone.
    pub fn take(&self, capture: Capture) -> bool {
        self.entries.send(Entry::Capture(self.id, Box::new(capture))).is_ok()
    }
}

impl Recorder {
    /// Starts the thread on a new journal. Every line but those of requests is also sent to `notices`.
    pub fn start(
        folder: &RunFolder,
        rule: QualityRule,
        corpus: Arc<Corpus>,
        notices: notices::UnboundedSender<Line>,
    ) -> Result<Self, FolderError> {
        let journal = append_to(&folder.journal())?;
        let (entries, taken) = mpsc::channel();
        let state = Arc::new(Mutex::new(State::default()));
        let broken = Arc::new(OnceLock::new());
        let writer = Writer {
            folder: folder.clone(),
            journal,
            outputs: None,
            rule,
            corpus,
            held: Vec::new(),
            held_since: None,
            synced_at: None,
            next_seq: 0,
            state: Arc::clone(&state),
            notices,
        };
        let reason = Arc::clone(&broken);
        let thread = std::thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || {
                if let Err(error) = writer.run(&taken) {
                    tracing::error!(%error, "the run folder cannot be written");
                    // The first reason is the one that counts.
                    let _ = reason.set(RecordError::from(&error));
                }
            })
            .map_err(|source| FolderError { path: folder.journal(), source })?;
        Ok(Self { entries: Some(entries), state, broken, thread: Some(thread) })
    }

    /// The fold of what has been written. Hold it shortly.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fold, to be looked at by a viewer of this process.
    pub fn shared_state(&self) -> Arc<Mutex<State>> {
        Arc::clone(&self.state)
    }

    /// Appends an event.
    pub fn append(&self, event: Event) -> Result<(), RecordError> {
        self.send(Entry::Event(event))
    }

    /// A sink for the captures of a pass.
    pub fn captures(&self, id: PassId) -> Result<CaptureSink, RecordError> {
        let entries = self.entries.clone().ok_or_else(|| self.reason())?;
        Ok(CaptureSink { entries, id })
    }

    /// Waits until everything handed over so far is on the disk and in the fold.
    pub async fn sync(&self) -> Result<(), RecordError> {
        let (done, synced) = oneshot::channel();
        self.send(Entry::Sync(done))?;
        synced.await.unwrap_or_else(|_| Err(self.reason()))
    }

    fn send(&self, entry: Entry) -> Result<(), RecordError> {
        self.entries.as_ref().and_then(|entries| entries.send(entry).ok()).ok_or_else(|| self.reason())
    }

    fn reason(&self) -> RecordError {
        self.broken.get().cloned().unwrap_or_else(|| RecordError("its writer ended".to_owned()))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.entries = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the recorder thread panicked");
        }
    }
}

struct Writer {
    folder: RunFolder,
    journal: File,
    outputs: Option<(PassId, File)>,
    rule: QualityRule,
    corpus: Arc<Corpus>,
    /// Lines whose texts are written but perhaps not synced yet.
    held: Vec<Line>,
    held_since: Option<Instant>,
    synced_at: Option<Instant>,
    next_seq: u64,
    state: Arc<Mutex<State>>,
    notices: notices::UnboundedSender<Line>,
}

impl Writer {
    fn run(mut self, entries: &mpsc::Receiver<Entry>) -> Result<(), FolderError> {
        loop {
            let entry = match self.held_since {
                None => entries.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(since) => entries.recv_timeout(HOLD.saturating_sub(since.elapsed())),
            };
            match entry {
                Ok(Entry::Event(event)) => self.hold(event),
                Ok(Entry::Capture(id, capture)) => self.judge(id, &capture)?,
                Ok(Entry::Sync(done)) => {
                    let committed = self.commit();
                    // Whoever asked may have stopped waiting.
                    let _ = done.send(committed.as_ref().map(drop).map_err(RecordError::from));
                    committed?;
                }
                Err(RecvTimeoutError::Timeout) => self.commit()?,
                Err(RecvTimeoutError::Disconnected) => return self.commit(),
            }
            let due = self.synced_at.is_none_or(|at| at.elapsed() >= HOLD)
                || self.held_since.is_some_and(|since| since.elapsed() >= HOLD);
            if due {
                self.commit()?;
            }
        }
    }

    fn hold(&mut self, event: Event) {
        let line = Line { seq: self.next_seq, at: Timestamp::now(), clock: Stamp::now(), event };
        self.next_seq += 1;
        self.held.push(line);
        self.held_since.get_or_insert_with(Instant::now);
    }

    fn judge(&mut self, id: PassId, capture: &Capture) -> Result<(), FolderError> {
        let corpus = Arc::clone(&self.corpus);
        let Some(document) = corpus.documents.get(capture.index) else {
            tracing::error!(index = capture.index, "a capture of no document");
            return Ok(());
        };
        let judgement = capture.judge(&self.rule, &document.reference);
        let record = RequestRecord::new(&document.id, capture, &judgement);
        if capture.phase == Phase::Measurement {
            self.write_output(id, &OutputLine::new(&document.id, capture, judgement, record.tokens))?;
        }
        self.hold(Event::Request { id, request: Box::new(record) });
        Ok(())
    }

    fn write_output(&mut self, id: PassId, output: &OutputLine) -> Result<(), FolderError> {
        let path = self.folder.outputs(id);
        let fail = |source| FolderError { path: path.clone(), source };
        let file = match &mut self.outputs {
            Some((open, file)) if *open == id => file,
            other => {
                if let Some((_, file)) = other {
                    file.sync_data().map_err(fail)?;
                }
                &mut other.insert((id, append_to(&path)?)).1
            }
        };
        let mut line = serde_json::to_vec(output).map_err(|error| fail(error.into()))?;
        line.push(b'\n');
        file.write_all(&line).map_err(fail)
    }

    /// Texts to the disk, then their lines, then both into the fold.
    fn commit(&mut self) -> Result<(), FolderError> {
        if self.held.is_empty() {
            return Ok(());
        }
        let path = self.folder.journal();
        let fail = |source| FolderError { path: path.clone(), source };
        if let Some((_, outputs)) = &self.outputs {
            outputs.sync_data().map_err(fail)?;
        }
        let mut bytes = Vec::with_capacity(self.held.len() * 512);
        for line in &self.held {
            serde_json::to_writer(&mut bytes, line).map_err(|error| fail(error.into()))?;
            bytes.push(b'\n');
        }
        self.journal.write_all(&bytes).map_err(fail)?;
        self.journal.sync_data().map_err(fail)?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for line in self.held.drain(..) {
            if !matches!(line.event, Event::Request { .. }) {
                // Nobody has to listen.
                let _ = self.notices.send(line.clone());
            }
            state.take(line);
        }
        self.held_since = None;
        self.synced_at = Some(Instant::now());
        Ok(())
    }
}
