//! The name of everything that is fixed.
//!
//! # Canonical form
//!
//! A sequence of records, hashed with SHA-256. A record is a label and a value, each as its length in bytes (64 bits,
//! little-endian) followed by its bytes in UTF-8. The first record is `aforo fingerprint` with the version of this
//! form. Then, in the order of the functions below: documents, prompt, generation, model, quality rule, timer scope.
//! What is not set has no record. Numbers with a fraction are written in the shortest form that reads back exactly,
//! durations in nanoseconds, JSON values with the keys of each object sorted, images as the SHA-256 of their contents.
//!
//! The order of documents counts, since what is in flight together depends on it. The order of fields does not.
//!
//! Of the simulated engine, what decides its answers counts (`seed` and the rates: they stand for the model); what
//! decides its speed does not (it stands for the card and its flags, which is what is compared).

use super::corpus::{Corpus, Document, Image};
use super::{
    Accept, Api, Compare, DateOrder, DecimalMark, Engine, EngineKind, FieldRule, Generation, Measure,
    Missing, Parse, PrefixCache, Prompt, Protocol, QualityRule, Reference, Server, Simulated,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fmt;
use std::time::Duration;

/// Version of the canonical form; another one gives another fingerprint for the same inputs.
const VERSION: &str = "1";

/// SHA-256 over the canonical form of everything fixed, in hexadecimal. Equal fingerprints mean equal fixed inputs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fingerprint(String);

impl Fingerprint {
    /// All 64 digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first 12 digits, for tables and names.
    pub fn short(&self) -> &str {
        &self.0[..12]
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that is not 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a fingerprint is 64 lower-case hexadecimal digits")]
pub struct NotAFingerprint;

impl TryFrom<String> for Fingerprint {
    type Error = NotAFingerprint;

    fn try_from(text: String) -> Result<Self, NotAFingerprint> {
        let digits = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if digits && text.len() == 64 { Ok(Self(text)) } else { Err(NotAFingerprint) }
    }
}

impl From<Fingerprint> for String {
    fn from(fingerprint: Fingerprint) -> Self {
        fingerprint.0
    }
}

/// The fingerprint of a protocol on its corpus.
pub fn fingerprint(protocol: &Protocol, corpus: &Corpus) -> Fingerprint {
    // Every field is named here and below, so that a new one cannot be forgotten.
    let Protocol {
        name: _,
        purpose: _,
        corpus: _,
        prompt,
        generation,
        engine,
        quality,
        measure,
        baseline: _,
        sweeps: _,
        objective: _,
    } = protocol;
    let Corpus { documents } = corpus;

    let mut form = Form(Sha256::new());
    form.record("aforo fingerprint", VERSION);
    for one in documents {
        form.document(one);
    }
    form.prompt(prompt);
    form.generation(generation);
    form.engine(engine);
    form.quality(quality);
    form.measure(measure, documents.len());
    Fingerprint(hexadecimal(&form.0.finalize()))
}

struct Form(Sha256);

impl Form {
    fn record(&mut self, label: &str, value: &str) {
        for part in [label, value] {
            self.0.update((part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
    }

    fn optional(&mut self, label: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.record(label, value);
        }
    }

    fn number(&mut self, label: &str, value: f64) {
        // Rust prints the shortest decimal that reads back as the same number.
        self.record(label, &format!("{value:?}"));
    }

    fn whole(&mut self, label: &str, value: impl Into<i128>) {
        self.record(label, &value.into().to_string());
    }

    fn duration(&mut self, label: &str, value: Duration) {
        self.record(label, &value.as_nanos().to_string());
    }

    fn document(&mut self, document: &Document) {
        let Document { id, text, images, reference: Reference(values) } = document;
        self.record("document.id", id);
        self.record("document.text", text);
        for Image { path: _, format: _, sha256 } in images {
            self.record("document.image", &hexadecimal(sha256));
        }
        let mut values: Vec<_> = values.iter().collect();
        values.sort_by_key(|(field, _)| *field);
        for (field, value) in values {
            self.record("document.reference.field", field);
            self.record("document.reference.value", &sorted(value).to_string());
        }
    }

    fn prompt(&mut self, prompt: &Prompt) {
        let Prompt { system, user } = prompt;
        self.optional("prompt.system", system.as_deref());
        self.record("prompt.user", user);
    }

    fn generation(&mut self, generation: &Generation) {
        let Generation { max_tokens, temperature, seed, extra } = generation;
        self.whole("generation.max_tokens", *max_tokens);
        if let Some(temperature) = temperature {
            self.number("generation.temperature", *temperature);
        }
        if let Some(seed) = seed {
            self.whole("generation.seed", *seed);
        }
        self.record("generation.extra", &sorted(&Value::Object(extra.clone())).to_string());
    }

    fn engine(&mut self, engine: &Engine) {
        let Engine { kind, revision, tokenizer, precision } = engine;
        match kind {
            EngineKind::OpenAi(Server { base_url: _, api, model, api_key_env: _, metrics_url: _ }) => {
                self.record("engine.kind", "openai");
                self.record("engine.model", model);
                self.record(
                    "engine.api",
                    match api {
                        Api::Chat => "chat",
                        Api::Completions => "completions",
                    },
                );
            }
            EngineKind::Simulated(simulated) => self.simulated(simulated),
        }
        self.optional("engine.revision", revision.as_deref());
        self.optional("engine.tokenizer", tokenizer.as_deref());
        self.optional("engine.precision", precision.as_deref());
    }

    fn simulated(&mut self, simulated: &Simulated) {
        let Simulated {
            seed,
            wrong_rate,
            broken_rate,
            error_rate,
            slots: _,
            kv_tokens: _,
            context: _,
            prefill_tokens_per_second: _,
            iteration: _,
            iteration_per_sequence: _,
            tokens_per_event: _,
            prefix_cache: _,
        } = simulated;
        self.record("engine.kind", "simulated");
        self.whole("engine.simulated.seed", *seed);
        self.number("engine.simulated.wrong_rate", *wrong_rate);
        self.number("engine.simulated.broken_rate", *broken_rate);
        self.number("engine.simulated.error_rate", *error_rate);
    }

    fn quality(&mut self, rule: &QualityRule) {
        let QualityRule { parse, accept, threshold, fields } = rule;
        match parse {
            Parse::Json => self.record("quality.parse", "json"),
            Parse::Text => self.record("quality.parse", "text"),
            Parse::Regex(pattern) => {
                self.record("quality.parse", "regex");
                self.record("quality.pattern", pattern.as_str());
            }
            Parse::Choice(labels) => {
                self.record("quality.parse", "choice");
                for label in labels {
                    self.record("quality.choice", label);
                }
            }
        }
        self.record(
            "quality.accept",
            match accept {
                Accept::AllFields => "all-fields",
            },
        );
        self.number("quality.threshold", threshold.share());
        let mut fields: Vec<_> = fields.iter().collect();
        fields.sort_by_key(|(name, _)| *name);
        for (name, rule) in fields {
            self.record("quality.field", name);
            self.field(rule);
        }
    }

    fn field(&mut self, rule: &FieldRule) {
        let FieldRule { compare, missing } = rule;
        match compare {
            Compare::Date { order } => {
                self.record("compare", "date");
                self.optional(
                    "order",
                    order.map(|order| match order {
                        DateOrder::DayFirst => "day-first",
                        DateOrder::MonthFirst => "month-first",
                    }),
                );
            }
            Compare::Decimal { tolerance, mark } => {
                self.record("compare", "decimal");
                self.record("tolerance", &tolerance.normalize().to_string());
                self.optional(
                    "mark",
                    mark.map(|mark| match mark {
                        DecimalMark::Point => "point",
                        DecimalMark::Comma => "comma",
                    }),
                );
            }
            Compare::Text { fold_case, fold_accents, fold_spaces } => {
                self.record("compare", "text");
                self.whole("fold_case", *fold_case);
                self.whole("fold_accents", *fold_accents);
                self.whole("fold_spaces", *fold_spaces);
            }
            Compare::Integer => self.record("compare", "integer"),
            Compare::Set { fold_case, fold_accents } => {
                self.record("compare", "set");
                self.whole("fold_case", *fold_case);
                self.whole("fold_accents", *fold_accents);
            }
        }
        self.record(
            "missing",
            match missing {
                Missing::Wrong => "wrong",
                Missing::NullMatchesNull => "null-matches-null",
            },
        );
    }

    fn measure(&mut self, measure: &Measure, documents: usize) {
        let Measure { warm_up: _, repetitions: _, max_error_rate: _, timeout, chunk_timeout, prefix_cache } =
            measure;
        self.record("measure.warm_up.documents", &measure.warm_up_documents(documents).to_string());
        self.duration("measure.timeout", *timeout);
        self.duration("measure.chunk_timeout", *chunk_timeout);
        self.record(
            "measure.prefix_cache",
            match prefix_cache {
                PrefixCache::Isolated => "isolated",
                PrefixCache::AsIs => "as-is",
            },
        );
    }
}

/// The value with the keys of every object in it sorted.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(name, _)| *name);
            Value::Object(entries.into_iter().map(|(name, value)| (name.clone(), sorted(value))).collect())
        }
        Value::Array(elements) => Value::Array(elements.iter().map(sorted).collect()),
        plain => plain.clone(),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    use fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
