//! What is made ready before anything is measured.

use std::path::Path;
use std::sync::Arc;

use super::error::RunError;
use super::plan::{self, Step};
use super::runner::Runner;
use crate::engine::openai::{Endpoint, Prepared};
use crate::measure::raise_open_files;
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

    /// Makes the run folder and writes what is known before anything is measured.
    pub fn open(self, runs: &Path) -> Result<Runner, RunError> {
        Runner::new(self, runs)
    }
}
