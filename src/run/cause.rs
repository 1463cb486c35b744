//! Why a pass was cut and why the runner waits.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::measure::Trouble;

/// Why a pass ended before its last document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CutCause {
    /// A person paused the run in it.
    Paused,
    /// The run folder could not be written.
    Disk {
        /// What the system said.
        text: String,
    },
    /// The load saw that it makes no sense to go on.
    Trouble(Trouble),
}

/// Why the runner waits for a decision.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GateCause {
    /// The passes of a step were taken.
    #[default]
    StepDone,
    /// A person paused the run between two passes.
    Paused,
    /// A pass was cut.
    Cut(CutCause),
    /// The run was stopped, or the runner died, in a pass.
    Interrupted,
    /// There is no engine to go on with.
    NoEngine {
        /// What happened when it was looked for.
        text: String,
    },
}

impl CutCause {
    /// The word used in files and on screen.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::Disk { .. } => "disk",
            Self::Trouble(trouble) => trouble.word(),
        }
    }
}

impl GateCause {
    /// Whether something went wrong, so that going on by itself would be no decision of anybody.
    pub fn is_failure(&self) -> bool {
        match self {
            Self::StepDone | Self::Paused | Self::Cut(CutCause::Paused) => false,
            Self::Cut(CutCause::Disk { .. } | CutCause::Trouble(_))
            | Self::Interrupted
            | Self::NoEngine { .. } => true,
        }
    }
}

impl fmt::Display for CutCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused => f.write_str("paused"),
            Self::Disk { text } => write!(f, "the run folder could not be written: {text}"),
            Self::Trouble(trouble) => trouble.fmt(f),
        }
    }
}

impl fmt::Display for GateCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StepDone => f.write_str("the step is done"),
            Self::Paused => f.write_str("paused"),
            Self::Cut(cause) => cause.fmt(f),
            Self::Interrupted => f.write_str("the run broke off in this pass"),
            Self::NoEngine { text } => write!(f, "no engine to go on with: {text}"),
        }
    }
}
