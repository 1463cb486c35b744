//! What is made ready before anything is measured.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use super::cause::{CutCause, GateCause};
use super::decision::{Choice, Who};
use super::error::RunError;
use super::event::RunStarted;
use super::folder::RunFolder;
use super::plan::{self, Step};
use super::runner::Runner;
use super::state::{Ending, State};
use crate::engine::openai::{Endpoint, Prepared};
use crate::measure::{Trouble, raise_open_files};
use crate::protocol::corpus::Corpus;
use crate::protocol::{EngineKind, Fingerprint, Frozen, Protocol, fingerprint};

/// A protocol with its corpus, checked and ready to be run.
#[derive(Debug)]
pub struct Prepare {
    pub(super) frozen: Frozen,
    pub(super) corpus: Arc<Corpus>,
    pub(super) documents: Arc<[Prepared]>,
    pub(super) fingerprint: Fingerprint,
    pub(super) steps: Vec<Step>,
}

impl Prepare {
    /// Loads the corpus, reads images, and makes sure that the steps can be taken on this machine.
    pub fn new(frozen: Frozen) -> Result<Self, RunError> {
        if let EngineKind::OpenAi(server) = &frozen.protocol.engine.kind {
            // A key that is not there is known before a folder is made.
            Endpoint::new(server)?;
        }
        let corpus = frozen.protocol.load_corpus()?;
        let fingerprint = fingerprint(&frozen.protocol, &corpus);
        let documents =
            corpus.documents.iter().enumerate().map(|(index, document)| Prepared::new(index, document));
        let documents = documents.collect::<Result<_, _>>().map_err(RunError::Document)?;
        let steps = plan::steps(&frozen.protocol);
        raise_open_files(plan::highest_concurrency(&steps))?;
        Ok(Self { frozen, corpus: Arc::new(corpus), documents, fingerprint, steps })
    }

    /// The checked protocol.
    pub fn protocol(&self) -> &Protocol {
        &self.frozen.protocol
    }

    /// The corpus.
    pub fn corpus(&self) -> &Corpus {
        &self.corpus
    }

    /// Makes the folder of a new run, with the frozen protocol in it: all that a runner needs.
    pub fn create(&self, runs: &Path) -> Result<RunFolder, RunError> {
        let folder = RunFolder::create(runs, &self.frozen.protocol.name, Timestamp::now())?;
        folder.write("protocol.toml", self.frozen.source.as_bytes())?;
        Ok(folder)
    }

    /// The runner of a folder: of a new run, or of one that is taken up again. Asks for a runtime around it.
    pub fn open(self, folder: RunFolder, manner: Manner) -> Result<Runner, RunError> {
        Runner::new(self, folder, manner)
    }

    /// Makes sure that what is fixed is still what a run began with.
    pub(super) fn is_still(&self, started: &RunStarted) -> Result<(), RunError> {
        let (now, then) = (self.fingerprint.to_string(), started.fingerprint.clone());
        if now == then { Ok(()) } else { Err(RunError::Changed { then, now }) }
    }
}

/// How a run is taken.
#[derive(Debug, Default)]
pub struct Manner {
    /// Steps follow one another without a gate.
    pub auto: bool,
    /// Nobody is there to decide: where the run cannot go on by itself, a rule decides.
    pub unattended: bool,
    /// What is to become of a pass that an earlier runner left half measured, and why. It is asked when this is `None`.
    pub half_measured: Mutex<Option<(HalfMeasured, String)>>,
}

/// What is to become of a half-measured pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HalfMeasured {
    /// Ask what is left; the pass is marked as resumed.
    Complete,
    /// Take it from its beginning; what was measured of it is kept apart.
    Repeat,
}

impl Manner {
    /// The decision that is taken at a gate without asking.
    pub(super) fn rule(&self, cause: &GateCause, state: &State) -> Option<(Who, Choice, String)> {
        let mut half_measured = self.half_measured.lock().unwrap_or_else(PoisonError::into_inner);
        if state.unfinished().is_some()
            && let Some((what, reason)) = half_measured.take()
        {
            let choice = match what {
                HalfMeasured::Complete => Choice::Continue,
                HalfMeasured::Repeat => Choice::Repeat,
            };
            return Some((Who::Person, choice, reason));
        }
        if let GateCause::Cut(CutCause::Disk { .. }) = cause {
            return Some((Who::Rule, Choice::Continue, "the run folder can be written again".to_owned()));
        }
        if !self.unattended || !cause.is_failure() {
            return None;
        }
        let choice = match cause {
            // Another setting may serve better; but a person wanted this pass to be the last.
            GateCause::Cut(CutCause::Trouble(Trouble::ErrorRate { .. })) if state.ending == Ending::No => {
                Choice::Next
            }
            // Without an engine every further step would fail; the run can be resumed.
            _ => Choice::Stop,
        };
        Some((Who::Rule, choice, "nobody was there to decide".to_owned()))
    }
}
