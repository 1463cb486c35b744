//! The runner: does what the fold says comes next, and is the only source of a run's events.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, watch};

use super::attend::Deciding;
use super::cause::{CutCause, GateCause};
use super::control::{Listener, Server, Sources};
use super::desk::{Desk, Order};
use super::error::RunError;
use super::event::{Event, Line, PassEnd, RunEnd, RunResumed, RunStarted, SCHEMA};
use super::folder::RunFolder;
use super::lock::RunLock;
use super::machine::{Machine, boot};
use super::plan;
use super::position::{self, Next};
use super::prepare::{Manner, Prepare};
use super::ready::Ready;
use super::recorder::{Begun, Recorder};
use super::recover::{Recovered, recover};
use super::state::State;
use crate::measure::{Halt, Live, LiveCounts, raise_open_files};
use crate::protocol::Problem;

/// A caution of the protocol without its place, which is one in the file that the person wrote and not in the copy.
fn about(caution: &Problem) -> String {
    let Problem { key, message, allowed, .. } = caution;
    let allowed = if allowed.is_empty() { String::new() } else { format!("; allowed: {allowed}") };
    if key.is_empty() { format!("{message}{allowed}") } else { format!("{key} {message}{allowed}") }
}

/// A run that is about to be taken, or to be taken up again. While it lives no other runner has its folder.
pub struct Runner {
    pub(super) prepared: Prepare,
    pub(super) manner: Manner,
    pub(super) folder: RunFolder,
    pub(super) recorder: Recorder,
    pub(super) halt: Arc<watch::Sender<Halt>>,
    /// One decision at a time, whoever takes it.
    pub(super) deciding: Deciding,
    pub(super) live: LiveView,
    faults: Vec<String>,
    lines: Option<mpsc::UnboundedReceiver<Line>>,
    desk: Desk,
    orders: Option<mpsc::Receiver<Order>>,
    listener: Option<Listener>,
    _lock: RunLock,
}

/// The counts of the running phase, once there is a load.
pub(super) type LiveView = Arc<Mutex<Option<Arc<Live>>>>;

/// Tells the counts of the running phase; `None` before there is a load.
pub type LiveSource = Arc<dyn Fn() -> Option<LiveCounts> + Send + Sync>;

/// What a viewer follows.
pub struct View {
    /// Lines of the journal as they are written, without those of requests.
    pub lines: mpsc::UnboundedReceiver<Line>,
    /// The fold.
    pub state: Arc<Mutex<State>>,
    /// Counts of the running phase.
    pub live: LiveSource,
    /// Why the run folder cannot be written right now.
    pub trouble: watch::Receiver<Option<String>>,
}

/// What is left of a run: its folder and its last state.
#[derive(Debug)]
pub struct Ended {
    /// Where it is kept.
    pub folder: PathBuf,
    /// The fold of its journal.
    pub state: State,
}

/// Stops a run in order: what is in flight is cancelled and counted so.
#[derive(Debug, Clone)]
pub struct Stopper(Arc<watch::Sender<Halt>>);

impl Stopper {
    /// Stops; true when it had been stopped before.
    pub fn stop(&self) -> bool {
        self.0.send_replace(Halt::Now) == Halt::Now
    }
}

impl Runner {
    /// Takes the folder, reads what an earlier runner left in it, and listens for viewers.
    pub(super) fn new(
        mut prepared: Prepare,
        folder: RunFolder,
        mut manner: Manner,
    ) -> Result<Self, RunError> {
        let lock = RunLock::take(&folder)?;
        let Recovered { state, bytes, faults } = recover(&folder)?;
        if let Some(started) = &state.started {
            prepared.is_still(started)?;
            prepared.steps = state.steps.iter().map(|step| step.step.clone()).collect();
            // Among them those that decisions opened.
            raise_open_files(plan::highest_concurrency(&prepared.steps))?;
        } else {
            folder.write_json("machine.json", &Machine::look())?;
        }
        if state.unfinished().is_none() {
            // What was to become of a half-measured pass is not said of one that is cut later.
            manner.half_measured = Mutex::default();
        }
        let listener = Listener::bind(&folder)?;
        let (notices, lines) = mpsc::unbounded_channel();
        let rule = prepared.frozen.protocol.quality.clone();
        let recorder =
            Recorder::start(&folder, rule, Arc::clone(&prepared.corpus), Begun { state, bytes }, notices)?;
        let (desk, orders) = Desk::new();
        let (halt, _) = watch::channel(Halt::No);
        Ok(Self {
            prepared,
            manner,
            folder,
            recorder,
            halt: Arc::new(halt),
            deciding: Deciding::default(),
            live: Arc::default(),
            faults,
            lines: Some(lines),
            desk,
            orders: Some(orders),
            listener: Some(listener),
            _lock: lock,
        })
    }

    /// The run folder.
    pub fn folder(&self) -> &RunFolder {
        &self.folder
    }

    /// What a viewer of this process follows; `None` when it was taken before.
    pub fn view(&mut self) -> Option<View> {
        let lines = self.lines.take()?;
        let (state, trouble) = (self.recorder.shared_state(), self.recorder.trouble());
        Some(View { lines, state, live: self.live_source(), trouble })
    }

    fn live_source(&self) -> LiveSource {
        let live = Arc::clone(&self.live);
        Arc::new(move || Some(live.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.counts()))
    }

    /// Where decisions are handed in by this process.
    pub fn desk(&self) -> Desk {
        self.desk.clone()
    }

    /// Stops the run.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.halt))
    }

    /// Takes the steps. Whatever happens is in the journal before this returns.
    pub async fn run(mut self) -> Result<Ended, RunError> {
        let server = self.serve()?;
        let mut orders = self.orders.take();
        let taken = {
            let attending = self.attend(orders.as_mut());
            tokio::pin!(attending);
            let taken = tokio::select! {
                taken = self.take() => taken,
                never = &mut attending => match never {},
            };
            // A decision that ends the run is answered before the run ends; what comes later is refused.
            tokio::select! {
                biased;
                never = &mut attending => match never {},
                _ = self.deciding.lock() => taken,
            }
        };
        drop(orders);
        let end = match &taken {
            Ok(end) => end.clone(),
            Err(error) => RunEnd::Failed { why: error.to_string() },
        };
        let ended = self.end(end).await;
        if let Some(server) = server {
            server.finish().await;
        }
        taken?;
        ended?;
        let state = self.recorder.state().clone();
        self.recorder.close()?;
        Ok(Ended { folder: self.folder.path().to_owned(), state })
    }

    /// Lets viewers in; there is nobody to let in when it was done before.
    fn serve(&mut self) -> Result<Option<Server>, RunError> {
        let Some(listener) = self.listener.take() else { return Ok(None) };
        let sources = Sources {
            journal: self.folder.journal(),
            committed: self.recorder.committed(),
            trouble: self.recorder.trouble(),
            live: self.live_source(),
            desk: self.desk.clone(),
            run: self.folder.name().to_owned(),
        };
        Ok(Some(Server::start(listener, sources).map_err(RunError::Serve)?))
    }

    async fn end(&self, end: RunEnd) -> Result<(), RunError> {
        self.recorder.append(Event::RunEnded { end })?;
        self.settled().await
    }

    async fn take(&self) -> Result<RunEnd, RunError> {
        self.announce()?;
        self.settled().await?;
        let mut engine: Option<Ready> = None;
        loop {
            if self.halted() {
                return Ok(RunEnd::Stopped);
            }
            let next = position::next(&self.recorder.state());
            let id = match next {
                Next::Done => return Ok(RunEnd::Done),
                Next::Stopped => return Ok(RunEnd::Stopped),
                Next::OpenGate { step, cause } => {
                    self.open_gate(step, cause).await?;
                    continue;
                }
                Next::Wait => {
                    self.gate_closed().await;
                    continue;
                }
                Next::Take(id) | Next::Complete(id) => id,
            };
            let Some(ready) = &engine else {
                engine = self.engine_for_pass().await?;
                // Whatever was decided while it was looked for holds.
                continue;
            };
            let end = match next {
                Next::Complete(_) => self.complete_pass(ready, id).await?,
                _ => self.take_pass(ready, id).await?,
            };
            if matches!(end, PassEnd::Cut(CutCause::Trouble(_))) {
                // What comes back need not be what was there.
                engine = None;
            }
        }
    }

    /// Looks for the engine; `None` when the run was stopped meanwhile, when the disk kept the probe from being sent, or
    /// when the run waits at a gate because there is nothing to go on with. An engine that was never there is an error:
    /// the protocol may be wrong.
    async fn engine_for_pass(&self) -> Result<Option<Ready>, RunError> {
        match self.ready().await {
            Err(error) if error.is_engine() && self.has_measured() => {
                let step = self.recorder.state().current;
                self.open_gate(step, GateCause::NoEngine { text: error.to_string() }).await?;
                Ok(None)
            }
            found => found,
        }
    }

    fn has_measured(&self) -> bool {
        self.recorder.state().steps.iter().any(|step| !step.passes.is_empty())
    }

    fn announce(&self) -> Result<(), RunError> {
        let Prepare { frozen, corpus, fingerprint, steps, .. } = &self.prepared;
        let has_begun = self.recorder.state().started.is_some();
        if has_begun {
            self.recorder.append(Event::RunResumed(RunResumed {
                aforo: env!("CARGO_PKG_VERSION").to_owned(),
                boot: boot(),
                auto: self.manner.auto,
            }))?;
            for text in &self.faults {
                self.recorder.append(Event::Caution { text: text.clone() })?;
            }
            return Ok(());
        }
        let started = RunStarted {
            schema: SCHEMA,
            aforo: env!("CARGO_PKG_VERSION").to_owned(),
            run: self.folder.name().to_owned(),
            protocol: frozen.protocol.name.clone(),
            fingerprint: fingerprint.to_string(),
            model: frozen.protocol.engine.model().to_owned(),
            documents: corpus.documents.len(),
            threshold: frozen.protocol.quality.threshold.share(),
            steps: steps.clone(),
            deadlines: frozen.protocol.objective.deadlines.clone(),
            auto: self.manner.auto,
        };
        self.recorder.append(Event::RunStarted(Box::new(started)))?;
        for caution in &frozen.cautions {
            self.recorder.append(Event::Caution { text: about(caution) })?;
        }
        Ok(())
    }

    /// Whether the run is to end at once.
    pub(super) fn halted(&self) -> bool {
        *self.halt.borrow() == Halt::Now
    }

    /// Waits until the run is to end at once.
    pub(super) async fn halts(&self) {
        // The sender is kept by `self`: it cannot be gone.
        let _ = self.halt.subscribe().wait_for(|halt| *halt == Halt::Now).await;
    }

    /// Waits until everything handed over is on the disk, however long the disk takes; but a run that is to end does
    /// not wait for a disk that takes nothing.
    pub(super) async fn settled(&self) -> Result<(), RunError> {
        let mut trouble = self.recorder.trouble();
        let given_up = async {
            self.halts().await;
            match trouble.wait_for(Option::is_some).await {
                Ok(text) => text.clone().unwrap_or_default(),
                Err(_) => String::new(),
            }
        };
        tokio::select! {
            biased;
            synced = self.recorder.sync() => Ok(synced?),
            text = given_up => Err(RunError::Unwritten(text)),
        }
    }

    /// Waits until a decision has closed the gate, or the run is to end.
    async fn gate_closed(&self) {
        let mut committed = self.recorder.committed();
        loop {
            committed.borrow_and_update();
            if self.recorder.state().gate.is_none() {
                return;
            }
            tokio::select! {
                changed = committed.changed() => if changed.is_err() { return },
                () = self.halts() => return,
            }
        }
    }

    /// Opens a gate; a rule may close it at once.
    async fn open_gate(&self, step: usize, cause: GateCause) -> Result<(), RunError> {
        let _one = self.deciding.lock().await;
        let rule = self.manner.rule(&cause, &self.recorder.state());
        self.recorder.append(Event::GateOpened { step, cause })?;
        if let Some((who, choice, reason)) = rule {
            self.recorder.append(Event::Decision { step, choice, who, reason })?;
        }
        self.settled().await
    }
}
