//! The runner: takes a protocol's steps, one after the other, and is the only source of a run's events.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use tokio::sync::{mpsc, watch};

use super::cause::GateCause;
use super::decision::Choice;
use super::error::RunError;
use super::event::{EngineFound, Event, Line, PassEnd, PassId, RunEnd, RunStarted, SCHEMA};
use super::folder::RunFolder;
use super::gate::Gate;
use super::machine::Machine;
use super::prepare::Prepare;
use super::recorder::{Begun, Recorder};
use super::scrape::Scrape;
use super::state::State;
use crate::engine::openai::{Dialer, Endpoint, Isolation, Limits, RequestForm};
use crate::engine::pages::Pages;
use crate::engine::simulated::{Answers, SimulatedEngine};
use crate::measure::{Live, Load, Phase, PhaseEnd, Work};
use crate::protocol::{Api, EngineKind, Problem};
use crate::quality::Verdict;

/// A caution of the protocol without its place, which is one in the file that the person wrote and not in the copy.
fn about(caution: &Problem) -> String {
    let Problem { key, message, allowed, .. } = caution;
    let allowed = if allowed.is_empty() { String::new() } else { format!("; allowed: {allowed}") };
    if key.is_empty() { format!("{message}{allowed}") } else { format!("{key} {message}{allowed}") }
}

/// A run that is about to be taken.
#[derive(Debug)]
pub struct Runner {
    prepared: Prepare,
    folder: RunFolder,
    recorder: Recorder,
    lines: Option<mpsc::UnboundedReceiver<Line>>,
    stop: Arc<watch::Sender<bool>>,
    stopped: watch::Receiver<bool>,
    live: LiveView,
}

/// The counts of the running phase, once there is a load.
pub type LiveView = Arc<Mutex<Option<Arc<Live>>>>;

/// What a viewer in the same process follows.
#[derive(Debug)]
pub struct View {
    /// Lines of the journal as they are written, without those of requests.
    pub lines: mpsc::UnboundedReceiver<Line>,
    /// The fold.
    pub state: Arc<Mutex<State>>,
    /// Counts of the running phase.
    pub live: LiveView,
}

/// What is left of a run: its folder and its last state.
#[derive(Debug)]
pub struct Ended {
    /// Where it is kept.
    pub folder: PathBuf,
    /// The fold of its journal.
    pub state: State,
}

/// The engine of a run, ready to be asked.
struct Ready {
    pages: Pages,
    load: Load,
    found: EngineFound,
    /// Kept so that it lives as long as the run.
    _simulated: Option<SimulatedEngine>,
}

enum Flow {
    On,
    Stop,
}

impl Runner {
    /// A run in a folder of its own under `runs`, in which all is written that is known so far.
    pub(super) fn new(prepared: Prepare, runs: &Path) -> Result<Self, RunError> {
        let Prepare { frozen, corpus, .. } = &prepared;
        let folder = RunFolder::create(runs, &frozen.protocol.name, Timestamp::now())?;
        folder.write("protocol.toml", frozen.source.as_bytes())?;
        folder.write_json("machine.json", &Machine::look())?;
        let (notices, lines) = mpsc::unbounded_channel();
        let recorder = Recorder::start(
            &folder,
            frozen.protocol.quality.clone(),
            Arc::clone(corpus),
            Begun::default(),
            notices,
        )?;
        let (stop, stopped) = watch::channel(false);
        let (lines, stop, live) = (Some(lines), Arc::new(stop), Arc::default());
        Ok(Self { prepared, folder, recorder, lines, stop, stopped, live })
    }

    /// The run folder.
    pub fn folder(&self) -> &RunFolder {
        &self.folder
    }

    /// What a viewer follows; `None` when it was taken before.
    pub fn view(&mut self) -> Option<View> {
        let lines = self.lines.take()?;
        Some(View { lines, state: self.recorder.shared_state(), live: Arc::clone(&self.live) })
    }

    /// Turning this true stops the run: what is in flight is cancelled and counted so.
    pub fn stopper(&self) -> Arc<watch::Sender<bool>> {
        Arc::clone(&self.stop)
    }

    /// Takes the steps. Whatever happens is in the journal before this returns.
    pub async fn run(self, mut gate: Gate) -> Result<Ended, RunError> {
        let taken = self.take(&mut gate).await;
        let end = match &taken {
            Ok(Flow::On) => RunEnd::Done,
            Ok(Flow::Stop) => RunEnd::Stopped,
            Err(error) => RunEnd::Failed { why: error.to_string() },
        };
        self.recorder.append(Event::RunEnded { end })?;
        self.recorder.sync().await?;
        taken?;
        let state = self.recorder.state().clone();
        Ok(Ended { folder: self.folder.path().to_owned(), state })
    }

    async fn take(&self, gate: &mut Gate) -> Result<Flow, RunError> {
        self.announce()?;
        let mut stopped = self.stopped.clone();
        let ready = tokio::select! {
            ready = self.ready() => ready?,
            // An engine that does not answer must not hold up a stop.
            _ = stopped.wait_for(|stop| *stop) => return Ok(Flow::Stop),
        };
        if self.probe(&ready).await? == PhaseEnd::Stopped {
            return Ok(Flow::Stop);
        }
        let mut step = 0;
        while step < self.prepared.steps.len() {
            if let Flow::Stop = self.take_step(&ready, step).await? {
                return Ok(Flow::Stop);
            }
            match self.pass_gate(gate, step).await? {
                Choice::Next | Choice::Auto => step += 1,
                Choice::Skip => step += 2,
                Choice::Stop => return Ok(Flow::Stop),
                _ => {}
            }
        }
        Ok(Flow::On)
    }

    fn announce(&self) -> Result<(), RunError> {
        let Prepare { frozen, corpus, fingerprint, steps, .. } = &self.prepared;
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
            auto: false,
        };
        self.recorder.append(Event::RunStarted(Box::new(started)))?;
        for caution in &frozen.cautions {
            self.recorder.append(Event::Caution { text: about(caution) })?;
        }
        Ok(())
    }

    /// Finds the engine, or starts the simulated one.
    async fn ready(&self) -> Result<Ready, RunError> {
        let protocol = &self.prepared.frozen.protocol;
        let (endpoint, metrics_url, simulated) = match &protocol.engine.kind {
            EngineKind::OpenAi(server) => (Endpoint::new(server)?, server.metrics_url.clone(), None),
            EngineKind::Simulated(model) => {
                let answers = Answers::new(self.prepared.corpus.documents.iter().map(|document| {
                    (document.text.clone(), document.reference.0.clone().into_iter().collect())
                }));
                let engine = SimulatedEngine::start(model, answers, ([127, 0, 0, 1], 0).into()).await?;
                let endpoint = Endpoint::with_key(&engine.base_url(), Api::Chat, None)?;
                (endpoint, Some(engine.metrics_url()), Some(engine))
            }
        };
        let pages = Pages::new(endpoint.clone())?;
        let found = pages.look(metrics_url.as_deref()).await?;
        let isolation = pages.isolation(protocol.measure.prefix_cache, &found).await;
        let form = self.form(self.api(), &isolation, "");
        let found = EngineFound {
            base_url: endpoint.base_url().to_owned(),
            found,
            isolation,
            shared_prompt_share: form.shared_share(&self.prepared.documents),
        };
        self.recorder.append(Event::EngineFound(found.clone()))?;
        let load = Load::start(Dialer::new(endpoint), self.stopped.clone())?;
        *self.live.lock().unwrap_or_else(PoisonError::into_inner) = Some(load.live());
        Ok(Ready { pages, load, found, _simulated: simulated })
    }

    fn api(&self) -> Api {
        match &self.prepared.frozen.protocol.engine.kind {
            EngineKind::OpenAi(server) => server.api,
            EngineKind::Simulated(_) => Api::Chat,
        }
    }

    fn form(&self, api: Api, isolation: &Isolation, key: &str) -> RequestForm {
        let protocol = &self.prepared.frozen.protocol;
        RequestForm::new(api, protocol.engine.model(), &protocol.prompt, &protocol.generation, isolation, key)
    }

    /// One request, to learn whether the engine answers as the protocol expects before hours are spent.
    async fn probe(&self, ready: &Ready) -> Result<PhaseEnd, RunError> {
        let id = PassId { step: 0, pass: 0 };
        let work = self.work(ready, Phase::Probe, id, 1, 1);
        let end = self.phase(ready, id, work).await?;
        let probe = self.recorder.state().probe.clone();
        let Some(probe) = probe.filter(|_| end == PhaseEnd::Complete) else { return Ok(PhaseEnd::Stopped) };
        if let Verdict::Failed { reason, detail } = &probe.verdict
            && !probe.answered()
        {
            let listed = ready.found.found.models.as_ref().map(|models| {
                let ids: Vec<_> = models.iter().map(|model| model.id.as_str()).collect();
                format!("; the server lists the models: {}", ids.join(", "))
            });
            return Err(RunError::Probe {
                reason: reason.to_string(),
                // The detail is one short sentence; a probe that fails is shown in full.
                detail: probe.said.as_ref().filter(|_| detail.ends_with('…')).unwrap_or(detail).clone(),
                listed: listed.unwrap_or_default(),
            });
        }
        if probe.tokens.out.is_none() {
            let text = "the engine reports no token usage: tokens are unknown in every row".to_owned();
            self.recorder.append(Event::Caution { text })?;
        }
        let model = self.prepared.frozen.protocol.engine.model();
        if let Some(models) = &ready.found.found.models
            && !models.iter().any(|listed| listed.id == model)
        {
            let ids: Vec<_> = models.iter().map(|listed| listed.id.as_str()).collect();
            let text =
                format!("the engine answered for the model {model:?}, but lists only {}", ids.join(", "));
            self.recorder.append(Event::Caution { text })?;
        }
        Ok(PhaseEnd::Complete)
    }

    /// The passes of a step. A step that is repeated gets further passes; the earlier ones stay.
    async fn take_step(&self, ready: &Ready, step: usize) -> Result<Flow, RunError> {
        let taken = self.recorder.state().steps.get(step).map_or(0, |state| state.passes.len());
        let first = u32::try_from(taken).unwrap_or(u32::MAX).saturating_add(1);
        for number in first..first.saturating_add(self.prepared.steps[step].repetitions) {
            let id = PassId { step, pass: number };
            if *self.stopped.borrow() {
                return Ok(Flow::Stop);
            }
            if self.take_pass(ready, id).await? == PhaseEnd::Stopped {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::On)
    }

    async fn take_pass(&self, ready: &Ready, id: PassId) -> Result<PhaseEnd, RunError> {
        self.recorder.append(Event::PassStarted { id, pass_key: self.pass_key(id, Phase::Measurement) })?;
        let concurrency = self.prepared.steps[id.step].setting.concurrency;
        let documents = self.prepared.documents.len();
        let warm_up = self.prepared.frozen.protocol.measure.warm_up_at(concurrency, documents);
        let mut end = PhaseEnd::Complete;
        for (phase, count) in [(Phase::WarmUp, warm_up), (Phase::Measurement, documents)] {
            if count > 0 && end == PhaseEnd::Complete {
                let work = self.work(ready, phase, id, count, concurrency);
                end = self.phase(ready, id, work).await?;
            }
        }
        let how = match end {
            PhaseEnd::Complete => PassEnd::Complete,
            PhaseEnd::Stopped => PassEnd::Stopped,
        };
        self.recorder.append(Event::PassEnded { id, end: how })?;
        self.recorder.sync().await?;
        Ok(end)
    }

    fn work(&self, ready: &Ready, phase: Phase, id: PassId, count: usize, concurrency: u32) -> Work {
        let measure = &self.prepared.frozen.protocol.measure;
        Work {
            phase,
            documents: Arc::clone(&self.prepared.documents),
            count,
            form: self.form(self.api(), &ready.found.isolation, &self.pass_key(id, phase)),
            concurrency,
            limits: Limits { whole: measure.timeout, silence: measure.chunk_timeout },
            request_prefix: format!("aforo-{}-{}-{}", id.step + 1, id.pass, phase.word()),
        }
    }

    /// Salt or nonce of a phase: another for each run, pass and phase, so that a measurement finds in the cache
    /// neither an earlier pass nor its own warm-up.
    fn pass_key(&self, id: PassId, phase: Phase) -> String {
        let text = format!("{}/{}/{}/{}", self.folder.name(), id.step, id.pass, phase.word());
        let digest = Sha256::digest(text.as_bytes());
        digest.iter().take(8).fold(String::with_capacity(16), |key, byte| format!("{key}{byte:02x}"))
    }

    /// One phase: the load takes it, the metrics page is read meanwhile, everything is on disk at the end.
    async fn phase(&self, ready: &Ready, id: PassId, work: Work) -> Result<PhaseEnd, RunError> {
        let phase = work.phase;
        if ready.found.isolation == Isolation::Reset {
            ready.pages.reset_prefix_cache().await?;
        }
        self.recorder.append(Event::PhaseStarted { id, phase, requests: work.count })?;
        let scrape = match &ready.found.found.metrics {
            Some(page) if phase == Phase::Measurement => Scrape::start(&ready.pages, page)
                .await
                .inspect_err(|error| tracing::warn!(%error, "no reading of the metrics page"))
                .ok(),
            _ => None,
        };
        let sink = self.recorder.captures(id);
        let end = ready.load.take(work, Box::new(move |capture| sink.take(capture))).await?;
        let counts = ready.load.live().counts();
        let engine = match scrape {
            Some(scrape) => Some(Box::new(scrape.finish(self.answered(id).await?).await)),
            None => None,
        };
        self.recorder.append(Event::PhaseEnded {
            id,
            phase,
            in_flight_peak: counts.in_flight_peak,
            engine,
        })?;
        self.recorder.sync().await?;
        if phase == Phase::Measurement {
            self.account(id, counts.sent)?;
        }
        Ok(end)
    }

    /// The load's own count is another witness of what was recorded: a request that is in no total would show here.
    fn account(&self, id: PassId, sent: u64) -> Result<(), RunError> {
        let recorded = self.recorder.state().pass(id).map_or(0, |pass| pass.requests.len() as u64);
        if recorded != sent {
            let text = format!(
                "{sent} requests were sent in step {} pass {} and {recorded} are recorded: do not use this pass",
                id.step + 1,
                id.pass
            );
            self.recorder.append(Event::Caution { text })?;
        }
        Ok(())
    }

    /// Requests of a pass's measurement with an answer: those that the engine counts as finished.
    async fn answered(&self, id: PassId) -> Result<u64, RunError> {
        self.recorder.sync().await?;
        let state = self.recorder.state();
        let requests = state.pass(id).map_or(&[][..], |pass| &pass.requests);
        Ok(requests.iter().filter(|request| request.answered()).count() as u64)
    }

    /// Waits for a decision after a step, records it and what it leaves out.
    async fn pass_gate(&self, gate: &mut Gate, step: usize) -> Result<Choice, RunError> {
        let is_last = step + 1 == self.prepared.steps.len();
        if matches!(gate, Gate::Open) {
            return Ok(Choice::Next);
        }
        self.recorder.append(Event::GateOpened { step, cause: GateCause::StepDone })?;
        self.recorder.sync().await?;
        let mut stopped = self.stopped.clone();
        let decided = tokio::select! {
            decided = gate.decide() => decided,
            _ = stopped.wait_for(|stop| *stop) => return Ok(Choice::Stop),
        };
        let Some((who, decision)) = decided else { return Ok(Choice::Next) };
        let about = if decision.choice == Choice::Skip && !is_last { step + 1 } else { step };
        self.recorder.append(Event::Decision {
            step: about,
            choice: decision.choice,
            who,
            reason: decision.reason,
        })?;
        if decision.choice == Choice::Auto {
            *gate = Gate::Open;
        }
        Ok(decision.choice)
    }
}
