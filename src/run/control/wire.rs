//! The lines of the control socket.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::measure::LiveCounts;
use crate::run::decision::Decision;
use crate::run::desk::Answer;

/// Version of the lines. A client refuses a newer major one and passes over what it does not know.
pub(super) const VERSION: Version = Version { major: 1, minor: 0 };

/// Longest line that a viewer may send, in bytes.
pub(super) const LONGEST: usize = 64 << 10;

/// Version of the control socket's lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Changes when an older client would misunderstand.
    pub major: u32,
    /// Changes when something was added.
    pub minor: u32,
}

/// The first line of a connection, by the runner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the lines.
    pub control: Version,
    /// Version of aforo.
    pub aforo: String,
    /// Name of the run folder.
    pub run: String,
    /// The runner's process.
    pub pid: u32,
    /// Sequence number of the next line of the journal.
    pub next_seq: u64,
}

/// A line by a viewer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Comes back in the answer.
    pub id: u64,
    /// What is asked.
    #[serde(flatten)]
    pub ask: Ask,
}

/// What a viewer can ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// Take this decision.
    Decide(Decision),
    /// Send the journal's lines from this one on, and `live` lines. Once a connection.
    Follow {
        /// Sequence number of the first line that is sent; 0 is everything.
        from: u64,
    },
}

/// A line by the runner that is not one of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Said {
    /// Who speaks.
    Hello(Hello),
    /// What became of a request.
    Answer(Answered),
    /// What is not in the journal.
    Live(Live),
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// The request's; `None` where it could not be read.
    pub id: Option<u64>,
    /// Accepted, or refused and why.
    pub result: Answer,
}

/// What is not in the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Live {
    /// Wall clock, for people.
    pub at: Timestamp,
    /// Counts of the running phase; `None` before there is a load.
    pub counts: Option<LiveCounts>,
    /// Why the run folder cannot be written right now; `None` when it can.
    pub trouble: Option<String>,
    /// Live lines that this viewer was too slow for.
    pub dropped: u64,
}
