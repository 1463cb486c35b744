//! The load: a thread of its own that keeps an exact number of requests in flight and does nothing else.
//!
//! Judging and writing happen elsewhere, so that nothing delays the reads whose times are taken here.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinError, LocalSet};

use super::halt::Halt;
use super::live::Live;
use super::trouble::Trouble;
use super::vigil::Vigil;
use crate::engine::Stamp;
use crate::engine::openai::{Answer, Dialer, Exchange, Limits, Prepared, RequestForm, Slot};

/// Phase of a pass that sends requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// One request before the run, to see whether the engine answers as the protocol expects.
    Probe,
    /// Before the measurement; excluded from every figure.
    WarmUp,
    /// What counts.
    Measurement,
}

impl Phase {
    /// The word used in files and on screen.
    pub fn word(self) -> &'static str {
        match self {
            Self::Probe => "probe",
            Self::WarmUp => "warm-up",
            Self::Measurement => "measurement",
        }
    }
}

/// What a phase has to do.
#[derive(Debug)]
pub struct Work {
    /// Which phase it is; kept in each capture.
    pub phase: Phase,
    /// The documents of the corpus.
    pub documents: Arc<[Prepared]>,
    /// Positions in `documents` of those to send, in this order.
    pub picks: Arc<[usize]>,
    /// How a document becomes a request.
    pub form: RequestForm,
    /// Requests kept in flight: never more, and never fewer while documents remain.
    pub concurrency: u32,
    /// Time limits of a request.
    pub limits: Limits,
    /// Share of the last 50 requests without an answer above which the phase is cut; 1 never cuts.
    pub max_error_rate: f64,
    /// Prefix of the request ids that the engine's own log shows.
    pub request_prefix: String,
}

/// One request as the load saw it, on its way to be judged and written.
#[derive(Debug)]
pub struct Capture {
    /// Position of the document in the corpus.
    pub index: usize,
    /// Phase in which it was sent.
    pub phase: Phase,
    /// When the load wanted it sent.
    pub scheduled: Stamp,
    /// When the attempt was over.
    pub ended: Stamp,
    /// What happened on the wire.
    pub exchange: Exchange,
    /// What came back.
    pub answer: Answer,
    /// True when the run was stopped while it was in flight.
    pub cancelled: bool,
}

/// How a phase ended.
#[derive(Debug, Clone, PartialEq)]
pub enum PhaseEnd {
    /// Every document was sent and ended. A halt that comes when the last answer is in takes nothing from it.
    Complete,
    /// [`Halt::Now`] came before, or nobody was left to take the captures.
    Stopped,
    /// [`Halt::Drain`] came before every document was sent. All that were sent have ended.
    Drained,
    /// The load saw that it is pointless to go on. All that were sent have ended; none was cancelled unless
    /// [`Halt::Now`] came as well.
    Cut(Trouble),
}

/// The load thread is gone.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The thread or its runtime could not be started.
    #[error("the load thread cannot start: {0}")]
    Start(#[from] std::io::Error),
    /// It, or a slot of it, ended before its time: a fault of aforo, whose reason is in the log.
    #[error("the load thread ended unexpectedly; see aforo.log in the run folder")]
    Gone,
}

/// Takes the captures as requests end; false when they can no longer be kept. Called on the load thread: it must
/// hand over and return.
pub type Sink = Box<dyn Fn(Capture) -> bool + Send>;

struct Order {
    work: Work,
    sink: Sink,
    done: oneshot::Sender<PhaseEnd>,
}

/// The load thread.
#[derive(Debug)]
pub struct Load {
    orders: mpsc::UnboundedSender<Order>,
    live: Arc<Live>,
    // Held so that the thread's end can be awaited when the load is dropped.
    thread: Option<JoinHandle<()>>,
}

impl Load {
    /// Starts the thread. A halt whose sender is gone counts as [`Halt::Now`].
    pub fn start(dialer: Dialer, halt: watch::Receiver<Halt>) -> Result<Self, LoadError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (orders, mut taken) = mpsc::unbounded_channel::<Order>();
        let live = Arc::new(Live::default());
        let counts = Arc::clone(&live);
        let thread = std::thread::Builder::new().name("load".to_owned()).spawn(move || {
            LocalSet::new().block_on(&runtime, async move {
                let mut slots = Vec::new();
                while let Some(order) = taken.recv().await {
                    slots = take_phase(order, slots, &dialer, &counts, &halt).await;
                }
            });
        })?;
        Ok(Self { orders, live, thread: Some(thread) })
    }

    /// The counts of the running phase.
    pub fn live(&self) -> Arc<Live> {
        Arc::clone(&self.live)
    }

    /// Takes one phase; captures reach the sink in the order in which requests end.
    pub async fn take(&self, work: Work, sink: Sink) -> Result<PhaseEnd, LoadError> {
        self.live.reset();
        let (done, ended) = oneshot::channel();
        self.orders.send(Order { work, sink, done }).map_err(|_| LoadError::Gone)?;
        ended.await.map_err(|_| LoadError::Gone)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // Closing the channel ends the thread's loop; whatever it still does is over when this returns.
        self.orders = mpsc::unbounded_channel().0;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the load thread panicked");
        }
    }
}

async fn take_phase(
    order: Order,
    mut slots: Vec<Slot>,
    dialer: &Dialer,
    live: &Arc<Live>,
    halt: &watch::Receiver<Halt>,
) -> Vec<Slot> {
    let Order { work, sink, done } = order;
    let places = usize::try_from(work.concurrency).unwrap_or(usize::MAX).min(work.picks.len().max(1));
    // A short phase does not close what the next one needs.
    slots.truncate(usize::try_from(work.concurrency).unwrap_or(usize::MAX));
    slots.resize_with(places.max(slots.len()), || Slot::new(dialer.clone()));
    let ahead = slots.into_iter().map(|slot| connect(slot, work.limits.whole, halt.clone()));
    // Without `done` whoever waits learns that the phase is not whole: a slot that ended unexpectedly may have taken a
    // document with it.
    let Ok(slots) = all(ahead).await else { return Vec::new() };
    let phase = Rc::new(PhaseState::new(work, Arc::clone(live), sink));
    let busy = slots.into_iter().map(|slot| keep_busy(Rc::clone(&phase), slot, halt.clone()));
    let Ok(kept) = all(busy).await else { return Vec::new() };
    // A receiver that is gone has stopped waiting for the phase; nothing depends on it any more.
    let _ = done.send(phase.end());
    kept
}

/// Lets all go on at the same time and waits for all; an error when one of them ended unexpectedly.
async fn all(
    futures: impl Iterator<Item = impl Future<Output = Slot> + 'static>,
) -> Result<Vec<Slot>, JoinError> {
    let tasks: Vec<_> = futures.map(tokio::task::spawn_local).collect();
    let mut slots = Ok(Vec::with_capacity(tasks.len()));
    for task in tasks {
        match (task.await, &mut slots) {
            (Ok(slot), Ok(slots)) => slots.push(slot),
            (Ok(_), Err(_)) => {}
            (Err(error), _) => {
                tracing::error!(%error, "a load slot ended unexpectedly");
                slots = Err(error);
            }
        }
    }
    slots
}

/// Opens a slot's connection before the first request, so that it is part of no measured time.
async fn connect(mut slot: Slot, limit: Duration, mut halt: watch::Receiver<Halt>) -> Slot {
    tokio::select! {
        biased;
        connected = slot.connect(limit) => if let Err(error) = connected {
            // The request itself will fail with this reason and be counted.
            tracing::debug!(%error, "connection not opened ahead");
        },
        // Nothing will be sent on it.
        _ = halt.wait_for(|halt| *halt != Halt::No) => {}
    }
    slot
}

struct PhaseState {
    work: Work,
    /// Position in the picks.
    next: Cell<usize>,
    /// Set when a request was cancelled.
    cancelled: Cell<bool>,
    /// The strongest halt that came before a request or in it.
    halted: Cell<Halt>,
    /// None in a probe, which is judged by itself.
    vigil: Option<RefCell<Vigil>>,
    trouble: RefCell<Option<Trouble>>,
    live: Arc<Live>,
    sink: Sink,
}

impl PhaseState {
    fn new(work: Work, live: Arc<Live>, sink: Sink) -> Self {
        let vigil = match work.phase {
            Phase::Probe => None,
            Phase::WarmUp | Phase::Measurement => Some(Vigil::new(work.max_error_rate)),
        };
        Self {
            work,
            next: Cell::new(0),
            cancelled: Cell::new(false),
            halted: Cell::new(Halt::No),
            vigil: vigil.map(RefCell::new),
            trouble: RefCell::new(None),
            live,
            sink,
        }
    }

    /// The next document, unless there is a reason to send no more.
    fn take_next(&self, halt: &watch::Receiver<Halt>) -> Option<&Prepared> {
        self.halted.set(self.halted.get().max(asked(halt)));
        if self.halted.get() != Halt::No || self.trouble.borrow().is_some() {
            return None;
        }
        let next = self.next.get();
        let document = self.work.documents.get(*self.work.picks.get(next)?)?;
        self.next.set(next + 1);
        Some(document)
    }

    /// Looks at a request that ended; the first trouble stays. Only one that explains why everything fails takes the
    /// place of a high error rate, which is then its symptom.
    fn watch_over(&self, capture: &Capture, in_flight: u32) {
        let Some(vigil) = self.vigil.as_ref().filter(|_| !capture.cancelled) else { return };
        let Some(seen) = vigil.borrow_mut().see(capture, in_flight) else { return };
        let mut trouble = self.trouble.borrow_mut();
        if trouble.as_ref().is_none_or(|before| seen.is_total() && !before.is_total()) {
            tracing::warn!(%seen, "nothing more is sent in this phase");
            *trouble = Some(seen);
        }
    }

    fn end(&self) -> PhaseEnd {
        let whole = self.next.get() >= self.work.picks.len() && !self.cancelled.get();
        match self.trouble.take() {
            // The last requests failed because nobody was there to answer them, which says nothing about the setting:
            // the pass is not whole though each document had its turn.
            Some(trouble) if trouble.is_total() || !whole => PhaseEnd::Cut(trouble),
            // A high error rate is what this setting came to. When every document had its turn there is nothing left
            // to spare, and the failures are in the figures.
            _ if whole => PhaseEnd::Complete,
            _ if self.halted.get() == Halt::Drain => PhaseEnd::Drained,
            _ => PhaseEnd::Stopped,
        }
    }
}

/// What is asked of the load at this moment.
fn asked(halt: &watch::Receiver<Halt>) -> Halt {
    // Without an owner nobody is left to stop the run.
    if halt.has_changed().is_err() { Halt::Now } else { *halt.borrow() }
}

async fn keep_busy(phase: Rc<PhaseState>, mut slot: Slot, mut halt: watch::Receiver<Halt>) -> Slot {
    while let Some(document) = phase.take_next(&halt) {
        let scheduled = Stamp::now();
        let body = phase.work.form.body(document);
        let id = format!("{}-{}", phase.work.request_prefix, document.index);
        let (mut exchange, mut answer) = (Exchange::default(), Answer::default());
        phase.live.begin();
        let cancelled = tokio::select! {
            biased;
            () = slot.ask(&id, &body, phase.work.limits, &mut exchange, &mut answer) => false,
            // An error means that nobody is left to stop the run: it counts as a stop.
            _ = halt.wait_for(|halt| *halt == Halt::Now) => true,
        };
        let ended = Stamp::now();
        let in_flight = phase.live.counts().in_flight;
        phase.live.end();
        if cancelled {
            phase.cancelled.set(true);
            phase.halted.set(Halt::Now);
        }
        let capture = Capture {
            index: document.index,
            phase: phase.work.phase,
            scheduled,
            ended,
            exchange,
            answer,
            cancelled,
        };
        phase.watch_over(&capture, in_flight);
        // Without a writer, what is measured from here on could not be kept.
        if !(phase.sink)(capture) || cancelled {
            break;
        }
    }
    slot
}
