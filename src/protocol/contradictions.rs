//! The checks that need more than one key, or the meaning of one.

use super::build::texts;
use super::place::join;
use super::problem::{Finding, listed, nearest, shown};
use super::prompt;
use super::tree::{Tree, Value};
use regex::Regex;
use std::collections::{BTreeSet, HashSet};

/// Request fields that aforo sets by itself, and where their value comes from.
const SET_BY_AFORO: [(&str, &str); 13] = [
    ("messages", "[prompt]"),
    ("prompt", "[prompt]"),
    ("model", "engine.model"),
    ("max_tokens", "generation.max_tokens"),
    ("max_completion_tokens", "generation.max_tokens"),
    ("temperature", "generation.temperature"),
    ("seed", "generation.seed"),
    ("stream", "aforo"),
    ("stream_options", "aforo"),
    ("cache_salt", "measure.prefix_cache"),
    ("cache_prompt", "measure.prefix_cache"),
    ("n", "aforo: one answer per document"),
    ("best_of", "aforo: one answer per document"),
];

/// Names of request fields that would write a secret into the run.
const SECRETS: [&str; 4] = ["api_key", "apikey", "authorization", "password"];

/// Checks what the values mean together. A value that is absent here was refused before.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(prompt) = tree.table("prompt") {
        if let Some(user) = prompt.text("user") {
            placeholders("prompt.user", user, &mut findings);
        }
        system(prompt, &mut findings);
    }
    if let Some(generation) = tree.table("generation") {
        sampling(generation, &mut findings);
    }
    if let Some(simulated) = tree.table("engine").and_then(|engine| engine.table("simulated")) {
        rates(simulated, &mut findings);
    }
    if let Some(quality) = tree.table("quality") {
        rule(quality, &mut findings);
    }
    measuring(tree, &mut findings);
    sweeps(tree, &mut findings);
    findings
}

/// Checks the placeholders of the user message, which is at `key`.
pub(super) fn placeholders(key: &str, user: &str, findings: &mut Vec<Finding>) {
    let unknown: BTreeSet<&str> = prompt::pieces(user).filter_map(prompt::Piece::unknown).collect();
    for written in unknown {
        let near = nearest(written, prompt::PLACEHOLDERS).map(str::to_owned);
        let message = format!("{} is an unknown placeholder", shown(written));
        findings.push(Finding::value(key, message, listed(prompt::PLACEHOLDERS)).nearest(near));
    }
    if !prompt::pieces(user).any(|piece| piece == prompt::Piece::Text) {
        findings.push(Finding::value(
            key,
            "does not hold the document's text",
            "a message with {{text}} in it",
        ));
    }
}

fn system(prompt: &Tree, findings: &mut Vec<Finding>) {
    let known = |piece: &prompt::Piece<'_>| matches!(piece, prompt::Piece::Text | prompt::Piece::Id);
    if prompt.text("system").is_some_and(|system| prompt::pieces(system).any(|piece| known(&piece))) {
        let message = "holds a placeholder, which is replaced in the user message only";
        findings.push(Finding::value("prompt.system", message, "placeholders in prompt.user"));
    }
}

fn sampling(generation: &Tree, findings: &mut Vec<Finding>) {
    for name in generation.free("extra").into_iter().flat_map(|extra| extra.keys()) {
        let at = join("generation.extra", name);
        if let Some((_, by)) = SET_BY_AFORO.iter().find(|(field, _)| field == name) {
            findings.push(Finding::key(
                at,
                format!("is set by {by}"),
                "request fields that aforo does not set",
            ));
        } else if SECRETS.iter().any(|secret| name.to_lowercase().replace('-', "_").contains(secret)) {
            let allowed = "no secrets; the key is sent from the variable that engine.api_key_env names";
            findings.push(Finding::key(at, "would write a secret into the run", allowed));
        }
    }
    match generation.number("temperature") {
        None if !generation.given("temperature") => findings.push(Finding::caution(
            "generation",
            "has no temperature: each engine uses its own",
            "temperature = 0 for answers that can be compared",
        )),
        Some(temperature) if temperature > 0.0 && !generation.given("seed") => {
            findings.push(Finding::caution(
                "generation.temperature",
                "is above 0 without a seed: repetitions differ by chance",
                "temperature = 0, or a seed",
            ));
        }
        _ => {}
    }
}

fn rates(simulated: &Tree, findings: &mut Vec<Finding>) {
    let rates = ["wrong_rate", "broken_rate", "error_rate"];
    let sum: f64 = rates.iter().filter_map(|name| simulated.number(name)).sum();
    // Shares such as 0.7 + 0.2 + 0.1 need not add up to 1 exactly.
    if sum > 1.0 + 1e-9 {
        let message = format!("has rates that add up to {sum}");
        findings.push(Finding::value(
            "engine.simulated",
            message,
            format!("{} of together at most 1", listed(rates)),
        ));
    }
}

fn rule(quality: &Tree, findings: &mut Vec<Finding>) {
    let names: Vec<&str> =
        quality.named("fields").into_iter().flat_map(|fields| fields.keys()).map(String::as_str).collect();
    if names.contains(&"id") {
        let message = "is the document's id, not a field";
        findings.push(Finding::key("quality.fields.id", message, "any other name"));
    }
    let parse = quality.text("parse");
    if let Some(parse @ ("text" | "choice")) = parse
        && names.len() > 1
    {
        let message = format!("has {} fields, and parse = \"{parse}\" reads one value", names.len());
        findings.push(Finding::key("quality.fields", message, "one field"));
    }
    if let Some(pattern) = quality.text("pattern").and_then(|pattern| Regex::new(pattern).ok()) {
        groups(&pattern, &names, findings);
    }
    if let Some(choices) = quality.list("choices") {
        let mut seen = HashSet::new();
        for (index, label) in texts(choices).into_iter().enumerate() {
            let at = join("quality.choices", &index.to_string());
            if label.trim() != label {
                findings.push(Finding::value(
                    at,
                    "begins or ends with white space",
                    "labels without it around",
                ));
            } else if !seen.insert(label) {
                findings.push(Finding::value(at, "is there twice", "each label once"));
            }
        }
    }
    if quality.number("threshold") == Some(0.0) {
        let message = "is 0: every pass meets it, whatever it answers";
        findings.push(Finding::caution("quality.threshold", message, "the share that must be accepted"));
    }
}

fn groups(pattern: &Regex, fields: &[&str], findings: &mut Vec<Finding>) {
    let at = "quality.pattern";
    let groups: Vec<&str> = pattern.capture_names().flatten().collect();
    let mut misspelt = Vec::new();
    for group in groups.iter().filter(|group| !fields.contains(group)) {
        let near = nearest(group, fields.iter().copied());
        misspelt.extend(near);
        let message = format!("has the group {}, which is no field", shown(group));
        findings.push(
            Finding::value(at, message, listed(fields.iter().copied())).nearest(near.map(str::to_owned)),
        );
    }
    for field in fields.iter().filter(|field| !groups.contains(field) && !misspelt.contains(field)) {
        let message = format!("has no group for the field {}", shown(field));
        findings.push(Finding::value(
            at,
            message,
            "one named group per field, for example (?P<amount>[0-9.]+)",
        ));
    }
}

fn measuring(tree: &Tree, findings: &mut Vec<Finding>) {
    let expect: Option<u64> = tree.table("corpus").and_then(|corpus| corpus.integer("expect"));
    let Some(measure) = tree.table("measure") else { return };
    let warm_up: Option<u64> = measure.table("warm_up").and_then(|warm_up| warm_up.integer("documents"));
    if let (Some(warm_up), Some(expect)) = (warm_up, expect)
        && warm_up > expect
    {
        let message = format!("is more than the {expect} documents of the corpus");
        let at = "measure.warm_up.documents";
        findings.push(Finding::value(at, message, format!("a whole number from 0 to {expect}")));
    }
    if measure.given("chunk_timeout") && measure.duration("chunk_timeout") > measure.duration("timeout") {
        let message = "is longer than the timeout, so that it never passes";
        findings.push(Finding::caution(
            "measure.chunk_timeout",
            message,
            "a shorter one than measure.timeout",
        ));
    }
}

fn sweeps(tree: &Tree, findings: &mut Vec<Finding>) {
    let baseline: Option<i64> = tree.table("baseline").and_then(|baseline| baseline.integer("concurrency"));
    if baseline.is_some_and(|concurrency| concurrency > 1) {
        let message = "is above 1, so that the baseline is not one request at a time";
        findings.push(Finding::caution("baseline.concurrency", message, "concurrency = 1"));
    }
    let expect: Option<i64> = tree.table("corpus").and_then(|corpus| corpus.integer("expect"));
    let mut parameters = HashSet::new();
    for (index, sweep) in tree.tables("sweep").unwrap_or_default().iter().enumerate() {
        let at = join("sweep", &index.to_string());
        if sweep.text("parameter").is_some_and(|parameter| !parameters.insert(parameter)) {
            let message = "is swept twice";
            findings.push(Finding::value(join(&at, "parameter"), message, "one sweep per parameter"));
        }
        values(&join(&at, "values"), sweep.list("values").unwrap_or_default(), baseline, expect, findings);
    }
}

fn values(
    at: &str,
    values: &[Value],
    baseline: Option<i64>,
    expect: Option<i64>,
    findings: &mut Vec<Finding>,
) {
    let mut seen = HashSet::new();
    let numbers =
        values.iter().filter_map(|value| if let Value::Integer(n) = value { Some(*n) } else { None });
    for (index, number) in numbers.enumerate() {
        let at = join(at, &index.to_string());
        if !seen.insert(number) {
            findings.push(Finding::value(at, format!("{number} is there twice"), "each value once"));
        } else if baseline == Some(number) {
            let message = format!("{number} is the baseline's own value, which is measured anyway");
            findings.push(Finding::value(at, message, "values that depart from the baseline"));
        } else if expect.is_some_and(|expect| number > expect) {
            let message =
                format!("{number} is more than the documents of the corpus: so many are never in flight");
            findings.push(Finding::caution(at, message, "at most the number of documents"));
        }
    }
}
