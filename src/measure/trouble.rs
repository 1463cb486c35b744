//! Why the load sends nothing more although documents are left.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why the load sends nothing more although documents are left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trouble {
    /// Nothing answers any more.
    EngineGone {
        /// What the last request met.
        text: String,
    },
    /// The engine says that its card is gone.
    GpuLost {
        /// What it said.
        text: String,
    },
    /// Too many requests end without an answer.
    ErrorRate {
        /// Requests without an answer.
        failed: u32,
        /// Among this many.
        of: u32,
        /// Share that the protocol allows.
        limit: f64,
    },
}

impl Trouble {
    /// The word used in files and on screen.
    pub fn word(&self) -> &'static str {
        match self {
            Self::EngineGone { .. } => "engine-gone",
            Self::GpuLost { .. } => "gpu-lost",
            Self::ErrorRate { .. } => "error-rate",
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EngineGone { text } => write!(f, "the engine does not answer any more: {text}"),
            Self::GpuLost { text } => write!(f, "the GPU is lost: {text}"),
            Self::ErrorRate { failed, of, limit } => {
                write!(f, "{failed} of {of} requests had no answer; measure.max_error_rate allows {limit}")
            }
        }
    }
}
