//! The columns of the results: one table drives the CSV, the JSON, `aforo columns` and the definitions on screen.

use super::cell::Cell;
use super::row::Row;
use crate::protocol::FailureReason;
use crate::run::cause::CutCause;

/// A column: what it is called, what it means, and how it is read from a row.
#[derive(Debug)]
pub struct Column {
    /// Name in files.
    pub name: &'static str,
    /// Unit; empty for words and counts.
    pub unit: &'static str,
    /// Who says it: `client`, `engine`, `protocol` or `quality rule`.
    pub source: &'static str,
    /// What it means, in one or two sentences.
    pub definition: &'static str,
    /// Reads it.
    pub cell: fn(&Row<'_>) -> Cell,
}

const NOT_BEGUN: &str = "the run has not begun";
const NO_PAGE: &str = "no metrics page of a known engine";
const NOT_OVER: &str = "the pass is not complete";
const NO_ANSWER: &str = "no answer";
const NO_USAGE: &str = "the engine did not count";
const RESUMED: &str = "the pass was resumed";
const NOT_COMPARED: &str = "the clocks were not compared over the whole pass";

macro_rules! column {
    ($name:literal, $unit:literal, $source:literal, $definition:literal, $cell:expr) => {
        Column { name: $name, unit: $unit, source: $source, definition: $definition, cell: $cell }
    };
}

macro_rules! failed {
    ($name:literal, $reason:ident, $definition:literal) => {
        column!($name, "", "client", $definition, |row| Cell::Count(row.failed(FailureReason::$reason)))
    };
}

fn count(value: usize) -> Cell {
    Cell::Count(value as u64)
}

fn engine(row: &Row<'_>, of: fn(&crate::run::scrape::EngineFigures) -> Option<f64>) -> Cell {
    Cell::number(row.engine().and_then(of), undisturbed(row, NO_PAGE))
}

/// Why a figure of the whole pass is missing: no figure spans the parts of one that was resumed.
fn undisturbed(row: &Row<'_>, otherwise: &'static str) -> &'static str {
    if row.resumed() { RESUMED } else { otherwise }
}

/// All columns of `results.csv`, in order.
pub static COLUMNS: &[Column] = &[
    column!("run", "", "client", "Name of the run folder.", |r| {
        r.started.map_or(Cell::Missing(NOT_BEGUN), |started| Cell::Word(started.run.clone()))
    }),
    column!(
        "fingerprint",
        "",
        "protocol",
        "SHA-256 of everything fixed, in hexadecimal; rows with another one are not comparable.",
        |r| r.started.map_or(Cell::Missing(NOT_BEGUN), |started| Cell::Word(started.fingerprint.clone()))
    ),
    column!("step", "", "protocol", "Number of the step in the plan; 1 is the baseline.", |r| count(
        r.step_index + 1
    )),
    column!(
        "label",
        "",
        "protocol",
        "baseline, or the one parameter that differs from it and its value.",
        |r| { Cell::Word(r.step.label.clone()) }
    ),
    column!("concurrency", "requests", "protocol", "Requests kept in flight (closed loop).", |r| {
        Cell::Count(r.step.setting.concurrency.into())
    }),
    column!("pass", "", "protocol", "Number of the pass in its step, from 1.", |r| Cell::Count(
        r.pass.number.into()
    )),
    column!(
        "status",
        "",
        "client",
        "complete, running, cut (cut_by says what did it), stopped (by a person or a signal) or interrupted.",
        |r| { Cell::Word(r.status.word().to_owned()) }
    ),
    column!(
        "attempts",
        "",
        "client",
        "Attempts at the pass: 1, and one for each time that it was continued after a cut.",
        |r| Cell::Count(r.pass.attempts.into())
    ),
    column!(
        "resumed",
        "",
        "client",
        "Whether the pass was continued after a cut or an interruption: it has no duration, no rate and no figures of the engine's metrics page, and is kept out of timing comparisons.",
        |r| Cell::Flag(r.resumed())
    ),
    column!(
        "cut_by",
        "",
        "client",
        "What cut the pass, the last time that something did: paused, disk, engine-gone, gpu-lost, cache-kept, error-rate or none; the journal has the whole reason.",
        |r| Cell::Word(r.cut_by().map_or("none", CutCause::word).to_owned())
    ),
    column!(
        "simulated",
        "",
        "client",
        "true when the simulated engine answered: nothing in the row was measured on a model.",
        |r| { Cell::Flag(r.simulated) }
    ),
    column!("documents", "", "protocol", "Documents of the corpus.", |r| count(r.documents)),
    column!(
        "sent",
        "",
        "client",
        "Requests of the measurement that ended: accepted plus each failure. A document that was asked again after a cut counts each time.",
        |r| Cell::Count(r.sent())
    ),
    column!(
        "accepted",
        "",
        "quality rule",
        "Outputs in which every checked field matches its reference.",
        |r| { Cell::Count(r.accepted) }
    ),
    column!("accepted_share", "0 to 1", "quality rule", "accepted / documents.", |r| {
        Cell::number(r.accepted_share, NOT_OVER)
    }),
    column!(
        "quality_met",
        "",
        "quality rule",
        "Whether accepted_share reaches the protocol's threshold.",
        |r| { r.quality_met.map_or(Cell::Missing(NOT_OVER), Cell::Flag) }
    ),
    column!(
        "repaired",
        "",
        "quality rule",
        "Outputs that could be read only after a repair; accepted ones are among accepted.",
        |r| { count(r.pass.requests.iter().filter(|request| request.repairs > 0).count()) }
    ),
    failed!("failed_memory", Memory, "Failures: the engine ran out of device memory."),
    failed!(
        "failed_truncated",
        Truncated,
        "Failures: the answer was cut at a token limit, whether it parses or not."
    ),
    failed!("failed_format", Format, "Failures: the output could not be read by the parsing rule."),
    failed!(
        "failed_quality",
        Quality,
        "Failures: the output was read, and a checked field is wrong or missing."
    ),
    failed!("failed_timeout", Timeout, "Failures: a time limit on the whole request or on silence passed."),
    failed!("failed_connection", Connection, "Failures: no connection, or it broke."),
    failed!("failed_rejected", Rejected, "Failures: the engine refused the request (status 3xx or 4xx)."),
    failed!(
        "failed_engine",
        Engine,
        "Failures: status 5xx, an error inside a stream, a stream without a finish reason, or not the API."
    ),
    failed!("failed_cancelled", Cancelled, "Failures: the run was stopped while the request was in flight."),
    column!("ids_recovered", "", "client", "Distinct documents with an output, accepted or not.", |r| {
        Cell::Count(r.ids_recovered)
    }),
    column!("duplicates", "", "client", "Outputs of documents that had one already.", |r| Cell::Count(
        r.duplicates()
    )),
    column!(
        "duration_s",
        "s",
        "client",
        "Last end minus first sent, of the measurement phase; empty when the pass was resumed.",
        |r| { Cell::number(r.duration.map(|d| d.as_secs_f64()), undisturbed(r, "nothing was sent")) }
    ),
    column!(
        "accepted_per_hour",
        "1/h",
        "client",
        "accepted / duration; empty when the pass was resumed.",
        |r| { Cell::number(r.accepted_per_hour(), undisturbed(r, NOT_OVER)) }
    ),
    column!(
        "first_token_n",
        "",
        "client",
        "Requests behind the first-token figures: those with an answer.",
        |r| count(r.first_token.len())
    ),
    column!(
        "first_token_mean_s",
        "s",
        "client",
        "Mean of first_token minus sent. The first token is the first event with real output, stamped when its bytes were read.",
        |r| { Cell::number(r.first_token.mean(), NO_ANSWER) }
    ),
    column!(
        "first_token_p50_s",
        "s",
        "client",
        "Median of first_token minus sent (nearest rank, from 10 requests).",
        |r| r.first_token(50).into()
    ),
    column!(
        "first_token_p90_s",
        "s",
        "client",
        "90th percentile of first_token minus sent (from 64 requests).",
        |r| r.first_token(90).into()
    ),
    column!(
        "first_token_p95_s",
        "s",
        "client",
        "95th percentile of first_token minus sent (from 130 requests).",
        |r| r.first_token(95).into()
    ),
    column!(
        "first_token_p99_s",
        "s",
        "client",
        "99th percentile of first_token minus sent (from 662 requests).",
        |r| r.first_token(99).into()
    ),
    column!("whole_answer_p50_s", "s", "client", "Median of last_token minus sent.", |r| r
        .whole_answer
        .percentile(50)
        .into()),
    column!("whole_answer_p90_s", "s", "client", "90th percentile of last_token minus sent.", |r| r
        .whole_answer
        .percentile(90)
        .into()),
    column!("whole_answer_p95_s", "s", "client", "95th percentile of last_token minus sent.", |r| r
        .whole_answer
        .percentile(95)
        .into()),
    column!("whole_answer_p99_s", "s", "client", "99th percentile of last_token minus sent.", |r| r
        .whole_answer
        .percentile(99)
        .into()),
    column!(
        "time_per_output_token_p50_s",
        "s",
        "client",
        "Median over requests of (last_token minus first_token) / (output tokens minus those of the first event, one where the engine does not count them). Nothing below two tokens.",
        |r| { r.per_token.percentile(50).into() }
    ),
    column!(
        "client_wait_p99_s",
        "s",
        "client",
        "99th percentile of sent minus scheduled, without opening connections: what the client itself added before sending.",
        |r| { r.client_wait.percentile(99).into() }
    ),
    column!(
        "client_wait_max_s",
        "s",
        "client",
        "Largest sent minus scheduled, without opening connections.",
        |r| { Cell::number(r.client_wait.spread().map(|s| s.max), "nothing was sent") }
    ),
    column!(
        "deadlines_kept",
        "",
        "protocol",
        "Whether every deadline of [objective] was kept, a request without an answer having missed it unless its document was asked again; empty without deadlines or where the sample is too small.",
        |r| { r.deadlines_kept().map_or(Cell::Missing("no deadline, or n too small"), Cell::Flag) }
    ),
    column!("tokens_in", "tokens", "engine", "Prompt tokens over all answers, cached ones included.", |r| {
        Cell::count(r.tokens(|t| t.input), NO_USAGE)
    }),
    column!("tokens_out", "tokens", "engine", "Output tokens over all answers, reasoning included.", |r| {
        Cell::count(r.tokens(|t| t.out), NO_USAGE)
    }),
    column!("tokens_source", "", "client", "Who counted the tokens: the engine's usage, or unknown.", |r| {
        r.token_source().map_or(Cell::Missing(NO_ANSWER), |word| Cell::Word(word.to_owned()))
    }),
    column!("tokens_out_per_s", "tokens/s", "engine", "tokens_out / duration.", |r| {
        let tokens = r.tokens(|t| t.out).map(|tokens| tokens as f64);
        let seconds = r.duration.map(|d| d.as_secs_f64()).filter(|seconds| *seconds > 0.0);
        let rate = tokens.zip(seconds).map(|(tokens, seconds)| tokens / seconds);
        Cell::number(rate, undisturbed(r, NO_USAGE))
    }),
    column!(
        "connections_opened",
        "",
        "client",
        "Connections opened during the measurement; their time is not part of any other.",
        |r| { count(r.pass.requests.iter().filter(|request| request.connected_in_s.is_some()).count()) }
    ),
    column!(
        "resent",
        "",
        "client",
        "Requests sent once more because a kept connection turned out to be closed.",
        |r| { count(r.pass.requests.iter().filter(|request| request.resent).count()) }
    ),
    column!(
        "in_flight_peak",
        "requests",
        "client",
        "Highest number of requests begun and not ended, counted where each has its own connection.",
        |r| { Cell::count(r.pass.in_flight_peak.map(u64::from), NOT_OVER) }
    ),
    column!(
        "isolation",
        "",
        "client",
        "How the pass was kept from other passes' prefixes: cache-salt, cache-prompt-off, reset, nonce-line or none.",
        |r| { r.isolation.map_or(Cell::Missing("no engine found"), |word| Cell::Word(word.to_owned())) }
    ),
    column!(
        "prefix_hit_rate",
        "0 to 1",
        "engine",
        "Share of prompt tokens found in the prefix cache: by the metrics page, else by the requests' usage.",
        |r| { Cell::number(r.hit_rate(), "the engine does not say") }
    ),
    column!(
        "prefix_cache_contradiction",
        "",
        "client",
        "true when the hit rate is over 10 points higher than what the prompt's shared beginning explains.",
        |r| { Cell::Flag(r.cache_contradiction) }
    ),
    column!(
        "engine_requests",
        "",
        "engine",
        "Requests that the engine counts as finished in the measurement.",
        |r| engine(r, |e| e.delta.finished)
    ),
    column!(
        "engine_prompt_tokens",
        "tokens",
        "engine",
        "Prompt tokens that the engine counts in the measurement.",
        |r| engine(r, |e| e.delta.prompt_tokens)
    ),
    column!(
        "engine_generation_tokens",
        "tokens",
        "engine",
        "Output tokens that the engine counts in the measurement.",
        |r| engine(r, |e| e.delta.generation_tokens)
    ),
    column!(
        "engine_first_token_mean_s",
        "s",
        "engine",
        "Mean time to first token by the engine's histogram; its clock starts when the request reaches the engine.",
        |r| { engine(r, |e| e.delta.mean_first_token) }
    ),
    column!(
        "engine_queue_mean_s",
        "s",
        "engine",
        "Mean time in the engine's queue, by its histogram.",
        |r| engine(r, |e| e.delta.mean_queue)
    ),
    column!(
        "engine_prefill_mean_s",
        "s",
        "engine",
        "Mean time in prefill, by the engine's histogram.",
        |r| engine(r, |e| e.delta.mean_prefill)
    ),
    column!("engine_decode_mean_s", "s", "engine", "Mean time in decode, by the engine's histogram.", |r| {
        engine(r, |e| e.delta.mean_decode)
    }),
    column!(
        "engine_running_peak",
        "requests",
        "engine",
        "Highest number of running requests that a reading showed (a reading each 333 ms).",
        |r| engine(r, |e| e.running_peak)
    ),
    column!(
        "engine_waiting_peak",
        "requests",
        "engine",
        "Highest number of waiting requests that a reading showed (a reading each 333 ms).",
        |r| engine(r, |e| e.waiting_peak)
    ),
    column!(
        "engine_kv_peak",
        "0 to 1",
        "engine",
        "Highest share of the KV cache in use that a reading showed (a reading each 333 ms).",
        |r| engine(r, |e| e.kv_peak)
    ),
    column!("engine_preemptions", "", "engine", "Requests preempted in the measurement.", |r| engine(
        r,
        |e| e.delta.preemptions
    )),
    column!("engine_readings", "", "engine", "Readings of the metrics page behind the peaks.", |r| {
        Cell::count(r.engine().map(|e| e.readings.into()), undisturbed(r, NO_PAGE))
    }),
    column!(
        "slept_s",
        "s",
        "client",
        "How long the machine slept in the pass: time on the boot clock minus time on the monotonic clock, noted from half a second a phase. It is in no duration. Empty where the clocks were not compared over the whole pass.",
        |r| Cell::number(r.drift(|drift| drift.slept_s), NOT_COMPARED)
    ),
    column!(
        "wall_step_s",
        "s",
        "client",
        "By how much the wall clock was set in the pass, negative when back: what it passed minus what the boot clock passed, noted from one second a phase. It is in no duration. Empty where the clocks were not compared over the whole pass.",
        |r| Cell::number(r.drift(|drift| drift.wall_step_s), NOT_COMPARED)
    ),
    column!(
        "warm_up_sent",
        "",
        "client",
        "Requests of the warm-up; excluded from every other figure.",
        |r| count(r.pass.warm_up.len())
    ),
    column!("warm_up_failed", "", "client", "Requests of the warm-up without an answer.", |r| {
        count(r.pass.warm_up.iter().filter(|request| !request.answered()).count())
    }),
];

/// The column of that name.
pub fn find(name: &str) -> Option<&'static Column> {
    COLUMNS.iter().find(|column| column.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_has_a_name_of_its_own_and_a_definition() {
        for (index, column) in COLUMNS.iter().enumerate() {
            assert!(COLUMNS[..index].iter().all(|other| other.name != column.name), "{}", column.name);
            assert!(column.definition.ends_with('.') && column.definition.len() > 15, "{}", column.name);
            assert!(!column.source.is_empty(), "{}", column.name);
        }
    }

    #[test]
    fn every_failure_reason_has_its_column() {
        for reason in FailureReason::ALL {
            assert!(find(&format!("failed_{reason}")).is_some(), "{reason}");
        }
    }
}
