//! The keys themselves, table by table, in the order in which they are listed to a person.

use super::{Key, Kind, MAX_FILE, Need, Table, When};
use crate::protocol::Setting;
use crate::protocol::form::Form;
use std::time::Duration;

const fn required(name: &'static str, kind: Kind, doc: &'static str) -> Key {
    Key { name, kind, need: Need::Required, only: None, doc }
}

const fn optional(name: &'static str, kind: Kind, doc: &'static str) -> Key {
    Key { name, kind, need: Need::Optional, only: None, doc }
}

const fn default(name: &'static str, toml: &'static str, kind: Kind, doc: &'static str) -> Key {
    Key { name, kind, need: Need::Default(toml), only: None, doc }
}

const fn later(name: &'static str, doc: &'static str) -> Key {
    Key { name, kind: Kind::Table(Table::of(&[])), need: Need::Later, only: None, doc }
}

const fn only(key: &'static str, is: &'static [&'static str], of: Key) -> Key {
    Key { only: Some(When { key, is }), ..of }
}

const fn line(most: usize) -> Kind {
    Kind::Text { form: Form::Line, most }
}

const fn word(words: &'static [&'static str]) -> Kind {
    Kind::Word { words, later: &[] }
}

const fn duration(least: Duration, most: Duration) -> Kind {
    Kind::Duration { least, most }
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const SHARE: Kind = Kind::Number { least: 0.0, most: 1.0 };
const DEADLINE: Kind = duration(Duration::from_millis(1), DAY);
const CONCURRENCY: Kind = Kind::Integer { least: 1, most: Setting::MAX_CONCURRENCY as i64 };

/// The whole file.
pub const ROOT: Table = Table::of(&[
    required(
        "name",
        Kind::Text { form: Form::Name, most: 64 },
        "Short name; part of the name of the run's folder.",
    ),
    optional("purpose", line(1000), "What the measurement is for."),
    required("corpus", Kind::Table(CORPUS), "The documents and their expected values."),
    required("prompt", Kind::Table(PROMPT), "How a document becomes a request."),
    required("generation", Kind::Table(GENERATION), "Generation parameters, sent as they are."),
    required("engine", Kind::Table(ENGINE), "Who answers."),
    required("quality", Kind::Table(QUALITY), "When an answer is accepted, and how many must be."),
    optional("measure", Kind::Table(MEASURE), "How a pass is taken."),
    optional("baseline", Kind::Table(BASELINE), "The first setting, from which each sweep departs."),
    default(
        "sweep",
        "[]",
        Kind::Tables { of: SWEEP, most: 32 },
        "One parameter and its values; everything else as in the baseline.",
    ),
    optional("objective", Kind::Table(OBJECTIVE), "Deadlines that a load must keep."),
    later("plan", "Needs and offers for the choice sheet."),
]);

const CORPUS: Table = Table::of(&[
    required(
        "documents",
        Kind::Text { form: Form::Path, most: 4096 },
        "JSONL with id and text, CSV with an id and a text column, or a folder of .txt files.",
    ),
    required(
        "references",
        Kind::Text { form: Form::Path, most: 4096 },
        "JSONL or CSV with an id and the expected value of each field; null or absent is not checked.",
    ),
    optional(
        "expect",
        Kind::Integer { least: 1, most: 10_000_000 },
        "Number of documents that the protocol was written for; another count is refused.",
    ),
]);

const PROMPT: Table = Table {
    keys: &[
        optional("system", Kind::Text { form: Form::Prose, most: MAX_FILE }, "System message."),
        optional(
            "user",
            Kind::Text { form: Form::Prose, most: MAX_FILE },
            "User message; {{text}} and {{id}} are replaced by the document's.",
        ),
        optional(
            "user_file",
            Kind::Text { form: Form::Path, most: 4096 },
            "File that holds the user message, beside the protocol file.",
        ),
    ],
    one_of: &["user", "user_file"],
};

const GENERATION: Table = Table::of(&[
    required(
        "max_tokens",
        Kind::Integer { least: 1, most: 1_000_000 },
        "Upper bound of output tokens per request.",
    ),
    optional(
        "temperature",
        Kind::Number { least: 0.0, most: 2.0 },
        "Sampling temperature; the engine's own when absent.",
    ),
    optional(
        "seed",
        Kind::Integer { least: 0, most: i64::MAX },
        "Sampling seed; the engine's own when absent.",
    ),
    default(
        "extra",
        "{}",
        Kind::Free { most: 64 << 10 },
        "Engine-specific request fields, sent as they are.",
    ),
]);

const ENGINE: Table = Table::of(&[
    required(
        "kind",
        Kind::Word { words: &["openai", "simulated"], later: &["worker"] },
        "A server that speaks the OpenAI API, or the embedded simulated engine.",
    ),
    only(
        "kind",
        &["openai"],
        required(
            "base_url",
            Kind::Text { form: Form::BaseUrl, most: 2048 },
            "Where the API is, for example http://127.0.0.1:8000/v1.",
        ),
    ),
    only(
        "kind",
        &["openai"],
        default("api", "\"chat\"", word(&["chat", "completions"]), "Form of the request."),
    ),
    only("kind", &["openai"], required("model", line(512), "Name of the model as requests carry it.")),
    optional("revision", line(512), "Revision of the weights, as you know it."),
    optional("tokenizer", line(512), "Tokenizer, as you know it."),
    optional("precision", line(64), "Precision of the weights, as you know it: bf16, fp8, awq …"),
    only(
        "kind",
        &["openai"],
        optional(
            "api_key_env",
            Kind::Text { form: Form::Variable, most: 128 },
            "Name of the environment variable that holds the key; never the key.",
        ),
    ),
    only(
        "kind",
        &["openai"],
        optional(
            "metrics_url",
            Kind::Text { form: Form::Url, most: 2048 },
            "The engine's metrics page; looked for beside the API when absent.",
        ),
    ),
    only(
        "kind",
        &["simulated"],
        optional("simulated", Kind::Table(SIMULATED), "Parameters of the simulated engine."),
    ),
    later("launch", "Start and stop the engine."),
]);

const SIMULATED: Table = Table::of(&[
    default("seed", "7", Kind::Integer { least: 0, most: i64::MAX }, "Seed of every random choice."),
    default("wrong_rate", "0.04", SHARE, "Share of answers with one wrong field."),
    default("broken_rate", "0.01", SHARE, "Share of answers that cannot be parsed."),
    default("error_rate", "0", SHARE, "Share of requests that end in an error inside the stream."),
    default("slots", "64", Kind::Integer { least: 1, most: 16_384 }, "Sequences decoded together at most."),
    default(
        "kv_tokens",
        "65536",
        Kind::Integer { least: 16, most: 1_000_000_000 },
        "Tokens that the KV cache holds, over all sequences.",
    ),
    default(
        "context",
        "8192",
        Kind::Integer { least: 16, most: 10_000_000 },
        "Longest prompt plus output, in tokens.",
    ),
    default(
        "prefill_tokens_per_second",
        "20000",
        Kind::Number { least: 1.0, most: 1e9 },
        "Prompt tokens processed per second by one prefill alone.",
    ),
    default(
        "iteration",
        "\"5ms\"",
        duration(Duration::from_micros(1), Duration::from_secs(10)),
        "Duration of a decode iteration before any sequence is counted.",
    ),
    default(
        "iteration_per_sequence",
        "\"100us\"",
        duration(Duration::ZERO, Duration::from_secs(1)),
        "Added to an iteration per sequence decoded in it.",
    ),
    default(
        "tokens_per_event",
        "1",
        Kind::Integer { least: 1, most: 1024 },
        "Output tokens carried by one event.",
    ),
    default("prefix_cache", "true", Kind::Boolean, "Whether prompt prefixes are cached."),
]);

const QUALITY: Table = Table::of(&[
    required("parse", word(&["json", "text", "regex", "choice"]), "How the output is read."),
    only(
        "parse",
        &["regex"],
        required(
            "pattern",
            Kind::Text { form: Form::Regex, most: 4096 },
            "Regular expression; its named groups are the fields.",
        ),
    ),
    only(
        "parse",
        &["choice"],
        required(
            "choices",
            Kind::List { of: &line(256), least: 2, most: 1000 },
            "Labels, one of which the output must name.",
        ),
    ),
    default(
        "accept",
        "\"all-fields\"",
        word(&["all-fields"]),
        "When a document is accepted, given its fields.",
    ),
    required("threshold", SHARE, "Accepted / expected that a pass must reach: 0.90 is 90 %."),
    required("fields", Kind::Named { of: FIELD, most: 64 }, "The checked fields and how each is compared."),
]);

const FIELD: Table = Table::of(&[
    required("compare", word(&["date", "decimal", "text", "integer", "set"]), "How the value is compared."),
    only(
        "compare",
        &["date"],
        optional(
            "order",
            word(&["day-first", "month-first"]),
            "Which number is the day where both readings are valid; without it such a date is not accepted.",
        ),
    ),
    only(
        "compare",
        &["decimal"],
        default(
            "tolerance",
            "\"0\"",
            Kind::Text { form: Form::Decimal, most: 32 },
            "Largest accepted absolute difference, in quotes so that it is exact.",
        ),
    ),
    only(
        "compare",
        &["decimal"],
        optional(
            "mark",
            word(&["point", "comma"]),
            "Which mark separates decimals where both readings are valid; without it such a number is not accepted.",
        ),
    ),
    only("compare", &["text", "set"], default("fold_case", "false", Kind::Boolean, "Ignore case.")),
    only("compare", &["text", "set"], default("fold_accents", "false", Kind::Boolean, "Ignore accents.")),
    only(
        "compare",
        &["text"],
        default("fold_spaces", "true", Kind::Boolean, "Treat runs of white space as one space, and trim."),
    ),
    default(
        "missing",
        "\"wrong\"",
        word(&["wrong", "null-matches-null"]),
        "Whether an expected null is not checked, or must be answered by null or nothing.",
    ),
]);

const MEASURE: Table = Table::of(&[
    optional(
        "warm_up",
        Kind::Table(WARM_UP),
        "What is sent before each pass and excluded from every figure.",
    ),
    default("repetitions", "3", Kind::Integer { least: 1, most: 1000 }, "Passes per step."),
    default("timeout", "\"120s\"", duration(Duration::from_millis(1), DAY), "Limit on one whole request."),
    default(
        "chunk_timeout",
        "\"60s\"",
        duration(Duration::from_millis(1), DAY),
        "Limit on the silence before and between two reads of one stream.",
    ),
    default(
        "max_error_rate",
        "0.5",
        SHARE,
        "Share of the last 50 requests without an answer above which a pass is cut and you are asked; 1 never cuts.",
    ),
    default(
        "prefix_cache",
        "\"isolated\"",
        word(&["isolated", "as-is"]),
        "Whether each pass is kept from hitting what an earlier pass left in the engine's cache.",
    ),
]);

const WARM_UP: Table = Table::of(&[optional(
    "documents",
    Kind::Integer { least: 0, most: 100_000 },
    "Documents sent as warm-up; 8, or all of a smaller corpus, when absent.",
)]);

const BASELINE: Table = Table::of(&[default("concurrency", "1", CONCURRENCY, "Requests kept in flight.")]);

const SWEEP: Table = Table::of(&[
    required("parameter", word(&["concurrency"]), "What varies."),
    required(
        "values",
        Kind::List { of: &CONCURRENCY, least: 1, most: 256 },
        "Its values, in the order in which they are measured; the baseline's own is not one of them.",
    ),
]);

const OBJECTIVE: Table = Table::of(&[
    optional("first_token_p50", DEADLINE, "Deadline of the median time to first token."),
    optional("first_token_p90", DEADLINE, "Deadline of the 90th percentile of the time to first token."),
    optional("first_token_p95", DEADLINE, "Deadline of the 95th percentile of the time to first token."),
    optional("first_token_p99", DEADLINE, "Deadline of the 99th percentile of the time to first token."),
    optional("whole_answer_p50", DEADLINE, "Deadline of the median time to the whole answer."),
    optional(
        "whole_answer_p90",
        DEADLINE,
        "Deadline of the 90th percentile of the time to the whole answer.",
    ),
    optional(
        "whole_answer_p95",
        DEADLINE,
        "Deadline of the 95th percentile of the time to the whole answer.",
    ),
    optional(
        "whole_answer_p99",
        DEADLINE,
        "Deadline of the 99th percentile of the time to the whole answer.",
    ),
]);
