//! Settings: the value of every parameter that can vary, and the sweeps over one of them.

use serde::{Deserialize, Serialize};

/// The value of every parameter that can vary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Requests kept in flight (closed loop).
    pub concurrency: u32,
}

impl Setting {
    /// Largest concurrency that a protocol may name.
    pub const MAX_CONCURRENCY: u32 = 16_384;

    /// This setting with one parameter changed.
    #[must_use]
    pub fn with(&self, parameter: Parameter, value: u32) -> Self {
        match parameter {
            Parameter::Concurrency => Self { concurrency: value },
        }
    }

    /// The value of a parameter.
    pub fn value(&self, parameter: Parameter) -> u32 {
        match parameter {
            Parameter::Concurrency => self.concurrency,
        }
    }
}

/// A parameter that a sweep can vary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Parameter {
    /// Requests kept in flight.
    Concurrency,
}

impl Parameter {
    /// The word used in files and on screen.
    pub fn word(self) -> &'static str {
        match self {
            Self::Concurrency => "concurrency",
        }
    }
}

/// One parameter and its values; everything else as in the baseline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sweep {
    /// What varies.
    pub parameter: Parameter,
    /// Its values, distinct, in the order in which they are measured.
    pub values: Vec<u32>,
}
