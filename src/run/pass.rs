//! How the runner takes a pass: its phases, what is recorded around them, and how it ends.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::cause::CutCause;
use super::error::RunError;
use super::event::{Event, PassEnd, PassId};
use super::ready::Ready;
use super::remaining::remaining;
use super::runner::Runner;
use super::scrape::Scrape;
use crate::engine::clock::Clocks;
use crate::engine::openai::{Isolation, Limits, RequestForm};
use crate::engine::pages::PageError;
use crate::measure::{Halt, Phase, PhaseEnd, Trouble, Work};
use crate::protocol::{Api, EngineKind};

impl Runner {
    /// Takes a pass from its beginning.
    pub(super) async fn take_pass(&self, ready: &Ready, id: PassId) -> Result<PassEnd, RunError> {
        self.recorder
            .append(Event::PassStarted { id, pass_key: self.pass_key(id, 1, Phase::Measurement) })?;
        let all = (0..self.prepared.documents.len()).collect();
        self.phases(ready, id, 1, all).await
    }

    /// Completes a pass that was cut: only what is left is asked.
    pub(super) async fn complete_pass(&self, ready: &Ready, id: PassId) -> Result<PassEnd, RunError> {
        let (attempt, left) = {
            let state = self.recorder.state();
            let documents = &self.prepared.corpus.documents;
            let left = state.pass(id).map(|pass| {
                let ids = documents.iter().map(|document| document.id.as_str());
                (pass.attempts.saturating_add(1), remaining(pass, ids))
            });
            left.unwrap_or_else(|| (1, (0..documents.len()).collect()))
        };
        self.recorder.append(Event::PassContinued { id, attempt, requests: left.len() })?;
        self.phases(ready, id, attempt, left.into()).await
    }

    async fn phases(
        &self,
        ready: &Ready,
        id: PassId,
        attempt: u32,
        asked: Arc<[usize]>,
    ) -> Result<PassEnd, RunError> {
        let concurrency = self.prepared_setting(id.step);
        let documents = self.prepared.documents.len();
        let warm_up = if asked.is_empty() {
            // Everything was answered before the pass could be ended.
            0
        } else {
            self.prepared.frozen.protocol.measure.warm_up_at(concurrency, documents)
        };
        let mut end = PassEnd::Complete;
        for (phase, picks) in [(Phase::WarmUp, (0..warm_up).collect()), (Phase::Measurement, asked)] {
            if picks.is_empty() || end != PassEnd::Complete {
                continue;
            }
            let work = self.work(ready, phase, id, attempt, picks, concurrency);
            let (how, disk) = self.phase(ready, id, work).await?;
            end = match (how, disk) {
                (PhaseEnd::Complete, _) => PassEnd::Complete,
                (PhaseEnd::Stopped, _) => PassEnd::Stopped,
                (PhaseEnd::Cut(trouble), _) => PassEnd::Cut(CutCause::Trouble(trouble)),
                // A person who wants it to pause does so whether or not the disk fills meanwhile.
                (PhaseEnd::Drained, _) if self.recorder.state().paused => PassEnd::Cut(CutCause::Paused),
                (PhaseEnd::Drained, Some(text)) => PassEnd::Cut(CutCause::Disk { text }),
                (PhaseEnd::Drained, None) => PassEnd::Cut(CutCause::Paused),
            };
        }
        self.recorder.append(Event::PassEnded { id, end: end.clone() })?;
        self.settled().await?;
        Ok(end)
    }

    fn prepared_setting(&self, step: usize) -> u32 {
        // A step that a decision opened is in the fold alone.
        let state = self.recorder.state();
        state.steps.get(step).map_or(1, |step| step.step.setting.concurrency)
    }

    pub(super) fn api(&self) -> Api {
        match &self.prepared.frozen.protocol.engine.kind {
            EngineKind::OpenAi(server) => server.api,
            EngineKind::Simulated(_) => Api::Chat,
        }
    }

    pub(super) fn form(&self, api: Api, isolation: &Isolation, key: &str) -> RequestForm {
        let protocol = &self.prepared.frozen.protocol;
        RequestForm::new(api, protocol.engine.model(), &protocol.prompt, &protocol.generation, isolation, key)
    }

    pub(super) fn work(
        &self,
        ready: &Ready,
        phase: Phase,
        id: PassId,
        attempt: u32,
        picks: Arc<[usize]>,
        concurrency: u32,
    ) -> Work {
        let measure = &self.prepared.frozen.protocol.measure;
        let again = if attempt > 1 { format!(".{attempt}") } else { String::new() };
        Work {
            phase,
            documents: Arc::clone(&self.prepared.documents),
            picks,
            form: self.form(self.api(), &ready.found.isolation, &self.pass_key(id, attempt, phase)),
            concurrency,
            limits: Limits { whole: measure.timeout, silence: measure.chunk_timeout },
            max_error_rate: measure.max_error_rate,
            request_prefix: format!("aforo-{}-{}{again}-{}", id.step + 1, id.pass, phase.word()),
        }
    }

    /// Salt or nonce of a phase: another for each run, pass, attempt and phase, so that a measurement finds in the
    /// cache neither an earlier pass nor its own warm-up.
    fn pass_key(&self, id: PassId, attempt: u32, phase: Phase) -> String {
        let again = if attempt > 1 { format!("/{attempt}") } else { String::new() };
        let text = format!("{}/{}/{}{again}/{}", self.folder.name(), id.step, id.pass, phase.word());
        let digest = Sha256::digest(text.as_bytes());
        digest.iter().take(8).fold(String::with_capacity(16), |key, byte| format!("{key}{byte:02x}"))
    }

    /// One phase: the load takes it, the metrics page is read meanwhile, everything is on disk at the end. With it what
    /// the disk said, when it took nothing any more and the load was drained for that.
    pub(super) async fn phase(
        &self,
        ready: &Ready,
        id: PassId,
        work: Work,
    ) -> Result<(PhaseEnd, Option<String>), RunError> {
        let phase = work.phase;
        // A probe is not measured: what it finds in the cache is of no account.
        if ready.found.isolation == Isolation::Reset
            && phase != Phase::Probe
            && let Err(error) = ready.pages.reset_prefix_cache().await
        {
            return Ok((PhaseEnd::Cut(no_reset(&error)), None));
        }
        self.rearm(phase).await;
        self.recorder.append(Event::PhaseStarted { id, phase, requests: work.picks.len() })?;
        let scrape = match &ready.found.found.metrics {
            Some(page) if phase == Phase::Measurement => Scrape::start(&ready.pages, page)
                .await
                .inspect_err(|error| tracing::warn!(%error, "no reading of the metrics page"))
                .ok(),
            _ => None,
        };
        let recorded = self.recorded(id);
        let clocks = Clocks::now();
        let (end, disk) = self.load(ready, id, work).await?;
        // Durations come from the monotonic clock, which stands still during sleep: what is noted distorts none.
        let drift = Clocks::now().drift_since(&clocks);
        let counts = ready.load.live().counts();
        let engine = match scrape {
            Some(scrape) => Some(Box::new(scrape.finish(self.answered(id, recorded).await?).await)),
            None => None,
        };
        self.recorder.append(Event::PhaseEnded {
            id,
            phase,
            in_flight_peak: counts.in_flight_peak,
            engine,
        })?;
        if let Some(drift) = drift {
            self.recorder.append(Event::ClockNoted { id, phase, drift })?;
        }
        self.settled().await?;
        if phase == Phase::Measurement {
            self.account(id, counts.sent, recorded)?;
        }
        Ok((end, disk))
    }

    /// Lets the load take the work; a disk that takes nothing any more drains it, for what is measured from then on
    /// would have to be kept in memory.
    async fn load(
        &self,
        ready: &Ready,
        id: PassId,
        work: Work,
    ) -> Result<(PhaseEnd, Option<String>), RunError> {
        let sink = self.recorder.captures(id);
        let taking = ready.load.take(work, Box::new(move |capture| sink.take(capture)));
        tokio::pin!(taking);
        let mut trouble = self.recorder.trouble();
        let mut disk = None;
        loop {
            tokio::select! {
                end = &mut taking => return Ok((end?, disk)),
                found = trouble.wait_for(Option::is_some), if disk.is_none() => {
                    disk = Some(found.ok().and_then(|text| text.clone()).unwrap_or_default());
                    self.drain();
                }
            }
        }
    }

    /// Lets the load send again, whatever the phase before was drained for; unless a person paused the run by now.
    async fn rearm(&self, phase: Phase) {
        // Not between a person's pause and its taking effect.
        let _one = tokio::select! {
            one = self.deciding.lock() => one,
            // The load sees it too.
            () = self.halts() => return,
        };
        // A probe measures nothing: the pause comes after it.
        let paused = phase != Phase::Probe && self.recorder.state().paused;
        let wanted = if paused { Halt::Drain } else { Halt::No };
        self.halt.send_if_modified(|halt| {
            let differs = *halt != Halt::Now && *halt != wanted;
            if differs {
                *halt = wanted;
            }
            differs
        });
    }

    /// Sends nothing new; a run that is to end ends all the same.
    pub(super) fn drain(&self) {
        self.halt.send_if_modified(|halt| {
            let goes_on = *halt == Halt::No;
            if goes_on {
                *halt = Halt::Drain;
            }
            goes_on
        });
    }

    /// Measured requests of a pass that are recorded.
    fn recorded(&self, id: PassId) -> usize {
        self.recorder.state().pass(id).map_or(0, |pass| pass.requests.len())
    }

    /// The load's own count is another witness of what was recorded: a request that is in no total would show here.
    fn account(&self, id: PassId, sent: u64, before: usize) -> Result<(), RunError> {
        let recorded = (self.recorded(id) - before) as u64;
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

    /// Requests of a phase with an answer, those that the engine counts as finished: after the first `before` of the
    /// pass, which an earlier attempt had.
    async fn answered(&self, id: PassId, before: usize) -> Result<u64, RunError> {
        self.settled().await?;
        let state = self.recorder.state();
        let requests = state.pass(id).map_or(&[][..], |pass| &pass.requests);
        Ok(requests.iter().skip(before).filter(|request| request.answered()).count() as u64)
    }
}

/// Why a phase cannot begin when the prefix cache cannot be emptied.
fn no_reset(error: &PageError) -> Trouble {
    let text = error.to_string();
    match error {
        PageError::Unreachable { .. } => Trouble::EngineGone { text },
        PageError::Status { .. } => Trouble::CacheKept { text },
    }
}
