//! What makes it pointless to go on with a pass.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a phase was cut: further requests would fail for a reason that is not the setting's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trouble {
    /// Nothing came back any more.
    EngineGone {
        /// How many requests in a row, and what became of the last.
        text: String,
    },
    /// The engine can no longer use its GPU: the card is gone, or the engine's hold on it is.
    GpuLost {
        /// What the engine said.
        text: String,
    },
    /// The prefix cache could not be emptied, so that what comes next would find answers prepared.
    CacheKept {
        /// What the engine said.
        text: String,
    },
    /// Too many of the last requests brought no answer.
    ErrorRate {
        /// Requests without an answer.
        failed: u32,
        /// Among so many that ended last.
        of: u32,
        /// The share above which a phase is cut.
        limit: f64,
    },
}

impl Trouble {
    /// The word used in files and on screen.
    pub fn word(&self) -> &'static str {
        match self {
            Self::EngineGone { .. } => "engine-gone",
            Self::GpuLost { .. } => "gpu-lost",
            Self::CacheKept { .. } => "cache-kept",
            Self::ErrorRate { .. } => "error-rate",
        }
    }

    /// Whether no request at all can be answered while it lasts.
    pub fn is_total(&self) -> bool {
        match self {
            Self::EngineGone { .. } | Self::GpuLost { .. } => true,
            Self::CacheKept { .. } | Self::ErrorRate { .. } => false,
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EngineGone { text } => write!(f, "the engine no longer answers: {text}"),
            Self::GpuLost { text } => write!(f, "the engine can no longer use its GPU: {text}"),
            Self::CacheKept { text } => write!(f, "the engine does not empty its prefix cache: {text}"),
            Self::ErrorRate { failed, of, limit } => write!(
                f,
                "{failed} of the last {of} requests brought no answer, more than the {} % that the protocol allows",
                // Not more digits than a person wrote.
                (limit * 1e6).round() / 1e4
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_kept_in_the_journal_as_it_is_and_told_in_one_sentence() {
        for (trouble, json, sentence) in [
            (
                Trouble::EngineGone { text: "3 requests in a row got no answer".to_owned() },
                r#"{"engine-gone":{"text":"3 requests in a row got no answer"}}"#,
                "the engine no longer answers: 3 requests in a row got no answer",
            ),
            (
                Trouble::GpuLost { text: "GPU is lost".to_owned() },
                r#"{"gpu-lost":{"text":"GPU is lost"}}"#,
                "the engine can no longer use its GPU: GPU is lost",
            ),
            (
                Trouble::CacheKept { text: "answered 400".to_owned() },
                r#"{"cache-kept":{"text":"answered 400"}}"#,
                "the engine does not empty its prefix cache: answered 400",
            ),
            (
                Trouble::ErrorRate { failed: 26, of: 50, limit: 0.5 },
                r#"{"error-rate":{"failed":26,"of":50,"limit":0.5}}"#,
                "26 of the last 50 requests brought no answer, more than the 50 % that the protocol allows",
            ),
        ] {
            assert_eq!(serde_json::to_string(&trouble).unwrap(), json);
            assert_eq!(serde_json::from_str::<Trouble>(json).unwrap(), trouble);
            assert_eq!(trouble.to_string(), sentence);
        }
    }
}
