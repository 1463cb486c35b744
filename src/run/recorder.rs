//! The one writer of a run folder: judges what the load captured, writes texts and events, and keeps the fold.
//!
//! A thread of its own, so that neither judging nor the disk delays the reads of the load. A text is synced to the
//! disk before its journal line is written; many lines share one sync.
//!
//! A disk that takes nothing loses nothing: what was handed over stays in memory, in order, and is written when the
//! disk takes it again. That memory is bounded because [`Recorder::trouble`] makes the runner stop the load: from then
//! on at most the requests in flight, and what a person decides, are added. It tells of a disk that refuses a write
//! at once, and of one that hangs when something is handed over, or waited for, 10 s later.

use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc as notices, oneshot, watch};

use super::appender::Appender;
use super::disk::Disk;
use super::event::{Event, Line, PassId};
use super::folder::{FolderError, RunFolder};
use super::state::State;
use super::writer::{Entry, Outlets, Writer};
use crate::measure::Capture;
use crate::protocol::QualityRule;
use crate::protocol::corpus::Corpus;

/// How often whoever waits for the disk looks whether it hangs.
const LOOK: Duration = Duration::from_secs(1);

/// The folder can no longer be written.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the run folder cannot be written any more: {0}; what was recorded before is safe")]
pub struct RecordError(String);

impl RecordError {
    fn gone() -> Self {
        Self("its writer ended".to_owned())
    }
}

/// Where a recorder begins: what is in the run folder already. The default is an empty folder.
#[derive(Debug, Clone, Default)]
pub struct Begun {
    /// The fold of the journal.
    pub state: State,
    /// Its length.
    pub bytes: u64,
}

/// How much of the journal is on the disk and in the fold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// Its length.
    pub bytes: u64,
    /// Sequence number of the next line.
    pub next_seq: u64,
}

/// Handle of the recorder thread.
#[derive(Debug)]
pub struct Recorder {
    entries: mpsc::Sender<Entry>,
    state: Arc<Mutex<State>>,
    committed: watch::Receiver<Committed>,
    disk: Arc<Disk>,
    /// `None` once its end was awaited.
    thread: Option<JoinHandle<Result<(), FolderError>>>,
}

/// A cheap handle that takes captures of one pass.
#[derive(Debug, Clone)]
pub struct CaptureSink {
    entries: mpsc::Sender<Entry>,
    disk: Arc<Disk>,
    id: PassId,
}

impl CaptureSink {
    /// Hands a capture over; false when the recorder is gone.
    pub fn take(&self, capture: Capture) -> bool {
        self.disk.look(Instant::now());
        self.entries.send(Entry::Capture(self.id, Box::new(capture))).is_ok()
    }
}

impl Recorder {
    /// Starts the thread after what is in the folder. Every new line but those of requests is also sent to `notices`.
    pub fn start(
        folder: &RunFolder,
        rule: QualityRule,
        corpus: Arc<Corpus>,
        begun: Begun,
        notices: notices::UnboundedSender<Line>,
    ) -> Result<Self, FolderError> {
        let journal = Appender::open(folder.journal(), begun.bytes)?;
        let first = Committed { bytes: begun.bytes, next_seq: begun.state.next_seq };
        let state = Arc::new(Mutex::new(begun.state));
        let disk = Arc::new(Disk::new());
        let (committed, receiver) = watch::channel(first);
        let outlets = Outlets { state: Arc::clone(&state), committed, disk: Arc::clone(&disk), notices };
        let writer = Writer::new(folder.clone(), journal, (rule, corpus), outlets);
        let (entries, taken) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || writer.run(&taken))
            .map_err(|source| FolderError { path: folder.journal(), source })?;
        Ok(Self { entries, state, committed: receiver, disk, thread: Some(thread) })
    }

    /// The fold of what is on the disk. Hold it shortly.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fold, to be looked at by a viewer of this process.
    pub fn shared_state(&self) -> Arc<Mutex<State>> {
        Arc::clone(&self.state)
    }

    /// How much of the journal is on the disk. It changes after the fold did.
    pub fn committed(&self) -> watch::Receiver<Committed> {
        self.committed.clone()
    }

    /// One sentence for the person while the disk takes nothing. Nothing is lost meanwhile, but everything that is
    /// handed over stays in memory: whoever lets requests be sent has to stop. `None` when all is on the disk.
    pub fn trouble(&self) -> watch::Receiver<Option<String>> {
        self.disk.trouble()
    }

    /// Appends an event. Fails only when the thread is gone.
    pub fn append(&self, event: Event) -> Result<(), RecordError> {
        self.disk.look(Instant::now());
        self.send(Entry::Event(event))
    }

    /// A sink for the captures of a pass.
    pub fn captures(&self, id: PassId) -> CaptureSink {
        CaptureSink { entries: self.entries.clone(), disk: Arc::clone(&self.disk), id }
    }

    /// Waits until everything handed over so far is on the disk and in the fold, however long the disk takes. Fails
    /// only when the thread is gone. Whoever stops waiting changes nothing.
    pub async fn sync(&self) -> Result<(), RecordError> {
        let (done, mut synced) = oneshot::channel();
        self.send(Entry::Sync(done))?;
        loop {
            tokio::select! {
                synced = &mut synced => return synced.map_err(|_| RecordError::gone()),
                () = tokio::time::sleep(LOOK) => self.disk.look(Instant::now()),
            }
        }
    }

    /// Ends the thread when everything handed over is written. A disk in trouble is tried a last time; what it does not
    /// take is lost then.
    pub fn close(mut self) -> Result<(), RecordError> {
        self.end()
    }

    fn send(&self, entry: Entry) -> Result<(), RecordError> {
        self.entries.send(entry).map_err(|_| RecordError::gone())
    }

    fn end(&mut self) -> Result<(), RecordError> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        // A thread that is gone needs not be told.
        let _ = self.entries.send(Entry::End);
        match thread.join() {
            Ok(written) => written.map_err(|error| RecordError(error.to_string())),
            Err(_) => Err(RecordError("its writer panicked".to_owned())),
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::error!(%error, "the last lines are lost");
        }
    }
}
