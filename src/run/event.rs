//! What happens in a run, as the journal keeps it: one JSON object a line.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::cause::{CutCause, GateCause};
use super::decision::{Choice, Who};
use super::plan::Step;
use super::scrape::EngineFigures;
use crate::engine::Stamp;
use crate::engine::clock::Drift;
use crate::engine::openai::Isolation;
use crate::engine::pages::Found;
use crate::measure::{Phase, RequestRecord};
use crate::protocol::Deadline;

/// Version of the journal's format. A reader refuses a newer major version and ignores events that it does not know.
pub const SCHEMA: Schema = Schema { major: 1, minor: 1 };

/// Version of the journal's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schema {
    /// Changes when an older reader would misunderstand.
    pub major: u32,
    /// Changes when something was added.
    pub minor: u32,
}

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Position in the journal, from 0, without gaps.
    pub seq: u64,
    /// Wall clock, for people; no duration is computed from it.
    pub at: Timestamp,
    /// Monotonic clock, comparable with every stamp of the same boot.
    pub clock: Stamp,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// Which pass an event belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassId {
    /// Index of the step in the plan, from 0 (the baseline).
    pub step: usize,
    /// Number of the pass in its step, from 1.
    pub pass: u32,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// First line: what is going to be done.
    RunStarted(Box<RunStarted>),
    /// What answers, and how passes are isolated on it.
    EngineFound(EngineFound),
    /// Something that the person should know.
    Caution {
        /// One sentence.
        text: String,
    },
    /// A pass begins.
    PassStarted {
        /// Which.
        #[serde(flatten)]
        id: PassId,
        /// Salt or nonce of the pass.
        pass_key: String,
    },
    /// A phase of a pass begins.
    PhaseStarted {
        /// Which pass.
        #[serde(flatten)]
        id: PassId,
        /// Which phase.
        phase: Phase,
        /// Requests that it will send.
        requests: usize,
    },
    /// A request ended and was judged.
    Request {
        /// Which pass.
        #[serde(flatten)]
        id: PassId,
        /// Its record.
        request: Box<RequestRecord>,
    },
    /// A phase ended.
    PhaseEnded {
        /// Which pass.
        #[serde(flatten)]
        id: PassId,
        /// Which phase.
        phase: Phase,
        /// Highest number of requests in flight, counted at the connections.
        in_flight_peak: u32,
        /// What the engine's metrics page said over the phase.
        engine: Option<Box<EngineFigures>>,
    },
    /// A pass that was cut or interrupted goes on where it was; documents that were answered are not asked again.
    PassContinued {
        /// Which.
        #[serde(flatten)]
        id: PassId,
        /// Which attempt this is, from 2.
        attempt: u32,
        /// Documents that are left to be asked.
        requests: usize,
    },
    /// The machine slept, or its wall clock was set, while a phase ran. No duration is computed from the wall clock,
    /// and the monotonic clock stands still during sleep.
    ClockNoted {
        /// In which pass.
        #[serde(flatten)]
        id: PassId,
        /// In which phase.
        phase: Phase,
        /// What the clocks did.
        drift: Drift,
    },
    /// A pass ended.
    PassEnded {
        /// Which.
        #[serde(flatten)]
        id: PassId,
        /// How.
        end: PassEnd,
    },
    /// The runner waits for a decision.
    GateOpened {
        /// Index of the step that was finished, or in which the run cannot go on by itself.
        step: usize,
        /// Why it opened.
        #[serde(default)]
        cause: GateCause,
    },
    /// What a person or a rule chose.
    Decision {
        /// Index of the step that it is about; for `skip` the one left out.
        step: usize,
        /// What was chosen.
        choice: Choice,
        /// Who chose.
        who: Who,
        /// Why; empty when nobody said.
        reason: String,
    },
    /// The runner begins again where its journal ends.
    RunResumed(RunResumed),
    /// Last line, unless the run is resumed.
    RunEnded {
        /// How.
        end: RunEnd,
    },
    /// An event of a later minor version, which this reader passes over.
    #[serde(other, skip_serializing)]
    Unknown,
}

/// What is going to be done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStarted {
    /// Version of the journal.
    pub schema: Schema,
    /// Version of aforo.
    pub aforo: String,
    /// Name of the run folder.
    pub run: String,
    /// Name of the protocol.
    pub protocol: String,
    /// SHA-256 of everything fixed, in hexadecimal.
    pub fingerprint: String,
    /// Model as requests name it.
    pub model: String,
    /// Documents of the corpus.
    pub documents: usize,
    /// Accepted / expected that a pass must reach.
    pub threshold: f64,
    /// What is measured, the baseline first.
    pub steps: Vec<Step>,
    /// Deadlines that a load must keep.
    pub deadlines: Vec<Deadline>,
    /// Whether steps follow one another without a gate between them.
    #[serde(default)]
    pub auto: bool,
}

/// The runner begins again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunResumed {
    /// Version of aforo.
    pub aforo: String,
    /// Names the boot: stamps before and after this line are comparable only within one. `None` when the system does
    /// not say.
    pub boot: Option<String>,
    /// Whether steps follow one another without a gate between them.
    pub auto: bool,
}

/// What answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EngineFound {
    /// Base URL of the requests.
    pub base_url: String,
    /// What the server says of itself.
    pub found: Found,
    /// How passes are isolated.
    pub isolation: Isolation,
    /// Largest prefix-cache hit rate that a pass can have by itself: the share of all prompts, by bytes, that some other
    /// prompt of the pass begins with too. `None` with images, whose tokens no bytes tell.
    pub shared_prompt_share: Option<f64>,
}

/// How a pass ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PassEnd {
    /// Every document was sent and ended.
    Complete,
    /// The run was stopped in it.
    Stopped,
    /// Something cut it; a decision says how it goes on.
    Cut(CutCause),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunEnd {
    /// Every step was taken or decided away.
    Done,
    /// A person or a signal stopped it.
    Stopped,
    /// It could not go on.
    Failed {
        /// What happened, as text to be shown.
        why: String,
    },
}
