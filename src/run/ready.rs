//! The engine of a run: found or started, and asked once whether it answers as the protocol expects.

use std::sync::{Arc, PoisonError};

use super::error::RunError;
use super::event::{EngineFound, Event, PassId};
use super::runner::Runner;
use crate::engine::openai::{Dialer, Endpoint};
use crate::engine::pages::Pages;
use crate::engine::simulated::{Answers, SimulatedEngine};
use crate::measure::{Load, Phase, PhaseEnd};
use crate::protocol::EngineKind;
use crate::quality::Verdict;

/// The engine of a run, ready to be asked.
pub(super) struct Ready {
    pub(super) pages: Pages,
    pub(super) load: Load,
    pub(super) found: EngineFound,
    /// Kept so that it lives as long as it is asked.
    _simulated: Option<SimulatedEngine>,
}

impl Runner {
    /// Finds the engine and probes it; `None` when the run was stopped meanwhile.
    pub(super) async fn ready(&self) -> Result<Option<Ready>, RunError> {
        let ready = tokio::select! {
            ready = self.find_engine() => ready?,
            // An engine that does not answer must not hold up a stop.
            () = self.halts() => return Ok(None),
        };
        Ok(self.probe(&ready).await?.then_some(ready))
    }

    /// Finds the engine, or starts the simulated one.
    async fn find_engine(&self) -> Result<Ready, RunError> {
        let protocol = &self.prepared.frozen.protocol;
        let (endpoint, metrics_url, simulated) = match &protocol.engine.kind {
            EngineKind::OpenAi(server) => (Endpoint::new(server)?, server.metrics_url.clone(), None),
            EngineKind::Simulated(model) => {
                let answers = Answers::new(self.prepared.corpus.documents.iter().map(|document| {
                    (document.text.clone(), document.reference.0.clone().into_iter().collect())
                }));
                let engine = SimulatedEngine::start(model, answers, ([127, 0, 0, 1], 0).into()).await?;
                let endpoint = Endpoint::with_key(&engine.base_url(), crate::protocol::Api::Chat, None)?;
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
        let before = self.recorder.state().engine.clone();
        if let Some(text) = before.and_then(|before| differs(&before, &found)) {
            self.recorder.append(Event::Caution { text })?;
        }
        self.recorder.append(Event::EngineFound(found.clone()))?;
        let load = Load::start(Dialer::new(endpoint), self.halt.subscribe())?;
        *self.live.lock().unwrap_or_else(PoisonError::into_inner) = Some(load.live());
        Ok(Ready { pages, load, found, _simulated: simulated })
    }

    /// One request, to learn whether the engine answers as the protocol expects before hours are spent; false when the
    /// run was stopped meanwhile.
    async fn probe(&self, ready: &Ready) -> Result<bool, RunError> {
        let id = PassId { step: 0, pass: 0 };
        let work = self.work(ready, Phase::Probe, id, 1, Arc::from([0]), 1);
        let end = self.phase(ready, id, work).await?.0;
        let probe = self.recorder.state().probe.clone();
        let Some(probe) = probe.filter(|_| end == PhaseEnd::Complete) else { return Ok(false) };
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
        let mut cautions = Vec::new();
        if probe.tokens.out.is_none() {
            cautions.push("the engine reports no token usage: tokens are unknown in every row".to_owned());
        }
        let model = self.prepared.frozen.protocol.engine.model();
        if let Some(models) = &ready.found.found.models
            && !models.iter().any(|listed| listed.id == model)
        {
            let ids: Vec<_> = models.iter().map(|listed| listed.id.as_str()).collect();
            cautions.push(format!(
                "the engine answered for the model {model:?}, but lists only {}",
                ids.join(", ")
            ));
        }
        for text in cautions {
            // An engine that is probed again need not be warned of again.
            if !self.recorder.state().cautions.contains(&text) {
                self.recorder.append(Event::Caution { text })?;
            }
        }
        Ok(true)
    }
}

/// What is another engine than before, as a sentence; `None` when it is the same.
fn differs(before: &EngineFound, now: &EngineFound) -> Option<String> {
    let name = |found: &EngineFound| {
        let engine = found.found.engine.as_deref().unwrap_or("an unknown engine");
        format!("{engine}, passes isolated by {}", found.isolation.word())
    };
    (name(before) != name(now)).then(|| {
        format!(
            "the engine is another one than before: {}, was {}; do not compare across",
            name(now),
            name(before)
        )
    })
}
