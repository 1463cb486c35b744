//! Why a run could not begin or go on.

use super::control::ListenError;
use super::folder::FolderError;
use super::lock::LockError;
use super::recorder::RecordError;
use super::recover::RecoverError;
use crate::engine::openai::EndpointError;
use crate::engine::pages::PageError;
use crate::engine::simulated::StartError;
use crate::measure::{LoadError, OpenFilesError};
use crate::protocol::corpus::CorpusErrors;

/// Why a run could not begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The corpus is not what the protocol needs.
    #[error(transparent)]
    Corpus(#[from] CorpusErrors),
    /// A file of a document cannot be read.
    #[error("{0}")]
    Document(std::io::Error),
    /// Too few open files.
    #[error(transparent)]
    OpenFiles(#[from] OpenFilesError),
    /// The URL or the key.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The run folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The run folder, later.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Another runner has the folder.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// What an earlier runner left cannot be read.
    #[error(transparent)]
    Recover(#[from] RecoverError),
    /// Viewers could not be listened for.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Viewers could not be served.
    #[error("viewers cannot be served: {0}")]
    Serve(std::io::Error),
    /// The run was to end while nothing could be recorded.
    #[error(
        "the run was stopped while its folder could not be written: {0}; what was recorded before is safe, and `aforo resume` goes on from there"
    )]
    Unwritten(String),
    /// Something fixed is not what the run began with.
    #[error(
        "what the protocol fixes has changed since the run began (fingerprint {then:.12}, now {now:.12}): put the documents and references back as they were, or start a new run"
    )]
    Changed {
        /// Fingerprint at the start.
        then: String,
        /// Fingerprint now.
        now: String,
    },
    /// The load thread.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The simulated engine.
    #[error(transparent)]
    Simulated(#[from] StartError),
    /// The server does not answer.
    #[error("{0}; {advice}", advice = advice(.0))]
    Engine(#[from] PageError),
    /// The probe failed.
    #[error("the engine did not answer the probe request ({reason}): {detail}{listed}")]
    Probe {
        /// The reason's word.
        reason: String,
        /// What came back.
        detail: String,
        /// The models that the server lists, when it lists any.
        listed: String,
    },
}

/// What a person can do about a page that could not be had.
fn advice(error: &PageError) -> &'static str {
    match error {
        PageError::Unreachable { .. } => "no engine answers there: start it, or correct engine.base_url",
        PageError::Status { status: 401 | 403, .. } => {
            "the engine asks for a key: name its variable in engine.api_key_env"
        }
        PageError::Status { .. } => {
            "is engine.base_url the address of an OpenAI-compatible API, with its /v1?"
        }
    }
}

impl RunError {
    /// Whether there is no engine that answers as it should.
    pub fn is_engine(&self) -> bool {
        matches!(self, Self::Engine(_) | Self::Probe { .. })
    }

    /// Whether the person has to change the protocol or its files, rather than the machine or the engine.
    pub fn is_wrong_use(&self) -> bool {
        matches!(self, Self::Corpus(_) | Self::Document(_) | Self::Endpoint(_) | Self::Changed { .. })
    }
}
