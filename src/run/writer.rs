//! The thread that writes a run folder: judges, brings texts and then their lines to the disk, and keeps the fold.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::{mpsc as notices, oneshot, watch};

use super::appender::Appender;
use super::disk::Disk;
use super::event::{Event, Line, PassId};
use super::folder::{FolderError, RunFolder};
use super::outputs::OutputLine;
use super::recorder::Committed;
use super::state::State;
use crate::engine::Stamp;
use crate::measure::{Capture, Phase, RequestRecord};
use crate::protocol::QualityRule;
use crate::protocol::corpus::Corpus;

/// Longest time that a journal line waits for others to share a sync with.
const HOLD: Duration = Duration::from_millis(100);

/// Time between two attempts while the disk takes nothing.
const AGAIN: Duration = Duration::from_secs(1);

/// What is handed to the thread.
pub(super) enum Entry {
    /// To be appended.
    Event(Event),
    /// To be judged and appended.
    Capture(PassId, Box<Capture>),
    /// To be told when everything before it is on the disk.
    Sync(oneshot::Sender<()>),
    /// Nothing comes after it.
    End,
}

/// What others see of the writing.
#[derive(Debug)]
pub(super) struct Outlets {
    pub(super) state: Arc<Mutex<State>>,
    pub(super) committed: watch::Sender<Committed>,
    pub(super) disk: Arc<Disk>,
    pub(super) notices: notices::UnboundedSender<Line>,
}

/// What the thread works with.
pub(super) struct Writer {
    folder: RunFolder,
    rule: QualityRule,
    corpus: Arc<Corpus>,
    journal: Appender,
    /// Texts of the pass that goes on; while the disk takes nothing, also of those before it.
    texts: Vec<(PassId, Appender)>,
    /// Lines that are not in the fold yet.
    held: Vec<Line>,
    waiting: Vec<oneshot::Sender<()>>,
    tried_at: Option<Instant>,
    next_seq: u64,
    outlets: Outlets,
}

impl Writer {
    pub(super) fn new(
        folder: RunFolder,
        journal: Appender,
        (rule, corpus): (QualityRule, Arc<Corpus>),
        outlets: Outlets,
    ) -> Self {
        let next_seq = outlets.committed.borrow().next_seq;
        Self {
            folder,
            rule,
            corpus,
            journal,
            texts: Vec::new(),
            held: Vec::new(),
            waiting: Vec::new(),
            tried_at: None,
            next_seq,
            outlets,
        }
    }

    /// Takes entries until the end. Fails when the last attempt to write does; every other is made again.
    pub(super) fn run(mut self, entries: &mpsc::Receiver<Entry>) -> Result<(), FolderError> {
        loop {
            let entry = match self.due_in() {
                None => entries.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(time) => entries.recv_timeout(time),
            };
            match entry {
                Ok(Entry::Event(event)) => self.hold(event),
                Ok(Entry::Capture(id, capture)) => self.judge(id, &capture),
                Ok(Entry::Sync(done)) => self.waiting.push(done),
                Ok(Entry::End) | Err(RecvTimeoutError::Disconnected) => return self.commit(),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.due_in() == Some(Duration::ZERO) {
                let was_in_trouble = self.outlets.disk.in_trouble();
                if let Err(error) = self.commit()
                    && !was_in_trouble
                {
                    tracing::error!(%error, "the run folder cannot be written");
                }
            }
        }
    }

    /// Time until the next attempt; `None` when there is nothing to write and nobody waits.
    fn due_in(&self) -> Option<Duration> {
        if self.held.is_empty() && self.waiting.is_empty() {
            return None;
        }
        let in_trouble = self.outlets.disk.in_trouble();
        let pause = match (in_trouble, self.waiting.is_empty()) {
            (true, _) => AGAIN,
            (false, true) => HOLD,
            (false, false) => Duration::ZERO,
        };
        Some(self.tried_at.map_or(Duration::ZERO, |at| pause.saturating_sub(at.elapsed())))
    }

    fn hold(&mut self, event: Event) {
        let line = Line { seq: self.next_seq, at: Timestamp::now(), clock: Stamp::now(), event };
        match self.journal.push(&line) {
            Ok(()) => {
                self.next_seq += 1;
                self.held.push(line);
            }
            Err(error) => unwritable(&error),
        }
    }

    fn judge(&mut self, id: PassId, capture: &Capture) {
        let corpus = Arc::clone(&self.corpus);
        let Some(document) = corpus.documents.get(capture.index) else {
            tracing::error!(index = capture.index, "a capture of no document");
            return;
        };
        let judgement = capture.judge(&self.rule, &document.reference);
        let record = RequestRecord::new(&document.id, capture, &judgement);
        if capture.phase == Phase::Measurement {
            let output = OutputLine::new(&document.id, capture, judgement, record.tokens);
            if let Err(error) = self.texts_of(id).push(&output) {
                unwritable(&error);
            }
        }
        self.hold(Event::Request { id, request: Box::new(record) });
    }

    fn texts_of(&mut self, id: PassId) -> &mut Appender {
        let open = self.texts.iter().position(|(open, _)| *open == id).unwrap_or_else(|| {
            self.texts.push((id, Appender::new(self.folder.outputs(id))));
            self.texts.len() - 1
        });
        &mut self.texts[open].1
    }

    /// Texts to the disk, then their lines, then both into the fold. On an error nothing is lost: the next attempt
    /// goes on with what the disk has not acknowledged.
    fn commit(&mut self) -> Result<(), FolderError> {
        self.outlets.disk.begin();
        let written =
            self.texts.iter_mut().try_for_each(|(_, texts)| texts.sync()).and_then(|()| self.journal.sync());
        self.tried_at = Some(Instant::now());
        if written.is_ok() {
            self.publish();
        }
        self.outlets.disk.end(written.as_ref().err());
        if written.is_ok() {
            for done in self.waiting.drain(..) {
                // Whoever asked may have stopped waiting.
                let _ = done.send(());
            }
        }
        written
    }

    /// Everything is on the disk: it goes into the fold, and then is told.
    fn publish(&mut self) {
        // Of the passes before the last, nothing comes any more.
        self.texts.drain(..self.texts.len().saturating_sub(1));
        {
            let mut state = self.outlets.state.lock().unwrap_or_else(PoisonError::into_inner);
            for line in self.held.drain(..) {
                if !matches!(line.event, Event::Request { .. }) {
                    // Nobody has to listen.
                    let _ = self.outlets.notices.send(line.clone());
                }
                state.take(line);
            }
        }
        // After the fold, so that whoever waits for this finds it there.
        let now = Committed { bytes: self.journal.synced(), next_seq: self.next_seq };
        self.outlets.committed.send_if_modified(|committed| {
            let is_news = *committed != now;
            *committed = now;
            is_news
        });
    }
}

/// No value of the types that are written can fail to become JSON; if one did, the journal has no gap all the same.
fn unwritable(error: &serde_json::Error) {
    tracing::error!(%error, "a line that is no JSON is left out");
}
