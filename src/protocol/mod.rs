//! Everything that is held fixed in a run, and the sweeps that depart from it.
//!
//! [`Protocol`] is what a checked file means. Only [`read`](fn@read) makes one, so a `Protocol` in hand has passed
//! every check. [`Protocol::load_corpus`] then brings the documents, and [`fingerprint`](fn@fingerprint) names all
//! that is fixed.

mod build;
mod check;
mod contradictions;
pub mod corpus;
mod duration;
mod fingerprint;
mod form;
pub mod keys;
mod overrides;
mod place;
mod problem;
mod prompt;
mod read;
mod reason;
mod reference;
mod rule;
mod schema;
mod setting;
mod tree;

pub use fingerprint::{Fingerprint, NotAFingerprint, fingerprint};
pub use form::Form;
pub use overrides::{Override, OverrideError};
pub use problem::{Problem, Severity};
pub use read::{Frozen, ReadError, Unreadable, read};
pub use reason::FailureReason;
pub use reference::Reference;
pub use rule::{Accept, Compare, DateOrder, DecimalMark, FieldRule, Missing, Parse, QualityRule, Threshold};
pub use schema::schema;
pub use setting::{Parameter, Setting, Sweep};

use std::path::PathBuf;
use std::time::Duration;

/// A checked protocol: what is held fixed, the baseline and the sweeps.
#[derive(Debug, Clone, PartialEq)]
pub struct Protocol {
    /// Short name; part of the run folder's name (letters, digits, `-`, `_`, `.`).
    pub name: String,
    /// What the measurement is for, in the person's words.
    pub purpose: Option<String>,
    /// Where the documents and references are.
    pub corpus: CorpusSource,
    /// How a document becomes messages.
    pub prompt: Prompt,
    /// Generation parameters, sent as they are.
    pub generation: Generation,
    /// Who answers.
    pub engine: Engine,
    /// When an answer is accepted.
    pub quality: QualityRule,
    /// How a pass is taken.
    pub measure: Measure,
    /// The first setting: one request at a time unless the file says otherwise.
    pub baseline: Setting,
    /// Departures from the baseline, one parameter each.
    pub sweeps: Vec<Sweep>,
    /// Deadlines that a load must keep.
    pub objective: Objective,
}

/// `[corpus]`: paths are resolved against the protocol file's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorpusSource {
    /// JSONL, CSV or a folder of `.txt` files.
    pub documents: PathBuf,
    /// JSONL or CSV with the expected values.
    pub references: PathBuf,
    /// Number of documents the protocol was written for; another count is refused.
    pub expect: Option<usize>,
}

/// `[prompt]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// System message, if any.
    pub system: Option<String>,
    /// User message; `{{text}}` and `{{id}}` are replaced by the document's.
    pub user: String,
}

/// `[generation]`: sent as written, counted in the fingerprint.
#[derive(Debug, Clone, PartialEq)]
pub struct Generation {
    /// Upper bound of output tokens per request.
    pub max_tokens: u32,
    /// Sampling temperature; the engine's default when absent.
    pub temperature: Option<f64>,
    /// Sampling seed.
    pub seed: Option<i64>,
    /// Engine-specific request fields, merged into the request body.
    pub extra: serde_json::Map<String, serde_json::Value>,
}

/// `[engine]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Engine {
    /// Which engine answers.
    pub kind: EngineKind,
    /// Revision of the weights, as the person knows it.
    pub revision: Option<String>,
    /// Tokenizer, as the person knows it.
    pub tokenizer: Option<String>,
    /// Precision of the weights, as the person knows it (`bf16`, `fp8`, `awq` …).
    pub precision: Option<String>,
}

impl Engine {
    /// The model's name as requests carry it.
    pub fn model(&self) -> &str {
        match &self.kind {
            EngineKind::OpenAi(server) => &server.model,
            EngineKind::Simulated(_) => "simulated",
        }
    }
}

/// The kinds of engine that a protocol can name.
#[derive(Debug, Clone, PartialEq)]
pub enum EngineKind {
    /// A server that speaks `/v1/chat/completions` or `/v1/completions` with server-sent events.
    OpenAi(Server),
    /// The embedded simulated engine, started on loopback for the run.
    Simulated(Box<Simulated>),
}

/// A running server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// `http://host:port/v1`.
    pub base_url: String,
    /// Which of the two request forms is used.
    pub api: Api,
    /// Model name sent with each request.
    pub model: String,
    /// Name of the environment variable that holds the key; never the key.
    pub api_key_env: Option<String>,
    /// Metrics page; when absent it is looked for at `/metrics` beside the base URL.
    pub metrics_url: Option<String>,
}

/// Request form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Api {
    /// `/chat/completions` with messages.
    #[default]
    Chat,
    /// `/completions` with one prompt text.
    Completions,
}

/// `[engine.simulated]`: the parameters of the simulated engine's model (see `engine::simulated`).
#[derive(Debug, Clone, PartialEq)]
pub struct Simulated {
    /// Seed of every random choice.
    pub seed: u64,
    /// Share of answers with one wrong field, 0 to 1.
    pub wrong_rate: f64,
    /// Share of answers that are not valid JSON, 0 to 1.
    pub broken_rate: f64,
    /// Share of requests that end in an error inside the stream, 0 to 1.
    pub error_rate: f64,
    /// Sequences decoded together at most (vLLM's `--max-num-seqs`).
    pub slots: u32,
    /// Tokens that the KV cache holds, over all sequences.
    pub kv_tokens: u64,
    /// Longest prompt plus output, in tokens (vLLM's `--max-model-len`).
    pub context: u32,
    /// Prompt tokens processed per second by one prefill alone.
    pub prefill_tokens_per_second: f64,
    /// Duration of a decode iteration before any sequence is counted.
    pub iteration: Duration,
    /// Added to an iteration per sequence decoded in it.
    pub iteration_per_sequence: Duration,
    /// Output tokens carried by one event.
    pub tokens_per_event: u32,
    /// Whether prompt prefixes are cached.
    pub prefix_cache: bool,
}

/// `[measure]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    /// What is sent before each pass and excluded from every figure.
    pub warm_up: WarmUp,
    /// Passes per step.
    pub repetitions: u32,
    /// Limit on one whole request.
    pub timeout: Duration,
    /// Limit on the silence between two reads of one stream (before the first one too).
    pub chunk_timeout: Duration,
    /// Share of the last requests without an answer, 0 to 1, above which a pass is cut; 1 never cuts.
    pub max_error_rate: f64,
    /// How passes are kept independent of each other's prompts.
    pub prefix_cache: PrefixCache,
}

impl Measure {
    /// Documents sent as warm-up before each pass of a step. Where the file does not say how many, there are at least
    /// as many as are in flight, so that the first full batch is not part of the measurement.
    pub fn warm_up_at(&self, concurrency: u32, corpus: usize) -> usize {
        match self.warm_up {
            WarmUp::Documents(documents) => documents,
            WarmUp::Usual => WarmUp::USUAL.max(usize::try_from(concurrency).unwrap_or(corpus)).min(corpus),
        }
    }

    /// Documents sent as warm-up before each pass over a corpus of that many, one request at a time.
    pub fn warm_up_documents(&self, corpus: usize) -> usize {
        match self.warm_up {
            WarmUp::Documents(documents) => documents,
            WarmUp::Usual => WarmUp::USUAL.min(corpus),
        }
    }
}

/// `measure.warm_up`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarmUp {
    /// This many documents; a smaller corpus is refused.
    Documents(usize),
    /// [`WarmUp::USUAL`] documents, or all of a smaller corpus.
    Usual,
}

impl WarmUp {
    /// Documents sent as warm-up when the file says nothing.
    pub const USUAL: usize = 8;
}

/// `measure.prefix_cache`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PrefixCache {
    /// Each pass is kept from hitting what an earlier pass left in the engine's cache.
    #[default]
    Isolated,
    /// The cache is left alone; the hit rate is shown beside each row.
    AsIs,
}

/// `[objective]`: deadlines; empty when the file names none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Objective {
    /// Deadlines on percentiles, for example 2 s on the p90 of the first token.
    pub deadlines: Vec<Deadline>,
}

/// One deadline.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Deadline {
    /// Which figure is bounded.
    pub figure: DeadlineFigure,
    /// Percentile in percent: 50, 90, 95 or 99.
    pub percentile: u8,
    /// The bound.
    pub limit: Duration,
}

/// Figures that a deadline can bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeadlineFigure {
    /// Time to first token.
    FirstToken,
    /// Whole answer.
    WholeAnswer,
}
