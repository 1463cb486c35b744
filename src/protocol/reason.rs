//! Why a request did not lead to an accepted answer.

use serde::{Deserialize, Serialize};

/// The reason of a failure. Every request that is not accepted has exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureReason {
    /// The engine ran out of device memory.
    Memory,
    /// The answer was cut at a token limit; never merged with a wrong one.
    Truncated,
    /// The output could not be read by the protocol's parsing rule.
    Format,
    /// The output was read, and at least one checked field is wrong.
    Quality,
    /// A time limit passed: whole request, or silence between two reads.
    Timeout,
    /// No connection, or it broke: DNS, TLS, refused, reset.
    Connection,
    /// The engine refused the request (status 3xx or 4xx).
    Rejected,
    /// The engine failed: status 5xx, an error inside a stream, a stream without a finish reason, not the API.
    Engine,
    /// The run was stopped while the request was in flight.
    Cancelled,
}

impl FailureReason {
    /// All reasons, in the order in which they are shown.
    pub const ALL: [Self; 9] = [
        Self::Memory,
        Self::Truncated,
        Self::Format,
        Self::Quality,
        Self::Timeout,
        Self::Connection,
        Self::Rejected,
        Self::Engine,
        Self::Cancelled,
    ];

    /// The word used in files and on screen.
    pub fn word(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Truncated => "truncated",
            Self::Format => "format",
            Self::Quality => "quality",
            Self::Timeout => "timeout",
            Self::Connection => "connection",
            Self::Rejected => "rejected",
            Self::Engine => "engine",
            Self::Cancelled => "cancelled",
        }
    }
}

impl std::fmt::Display for FailureReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}
