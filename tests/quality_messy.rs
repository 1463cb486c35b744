//! The shared corpus of messy outputs: `parse` gives its value, `either` its value as a repair or a failure, `reject` a
//! failure.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::path::PathBuf;

use aforo::protocol::{Accept, Compare, FieldRule, Missing, Parse, QualityRule, Reference, Threshold};
use aforo::quality::{Judgement, Output, choice, date, decimal, judge};
use serde_json::{Map, Value};

#[derive(serde::Deserialize)]
struct Case {
    id: String,
    raw: String,
    expect: String,
    expected_parse: Value,
    kind: String,
    strict_json: bool,
}

/// The value that was read, and whether it counts as repaired.
type Reading = Option<(Value, bool)>;

fn cases() -> Option<Vec<Case>> {
    let shared = std::env::var_os("AFORO_SHARED")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared")), PathBuf::from);
    let Ok(lines) = std::fs::read_to_string(shared.join("corpus/messy-outputs.jsonl")) else {
        println!("skipped: the shared corpus is not here");
        return None;
    };
    Some(lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// The object that holds the fields, below wrappers and arrays of one.
fn innermost(value: &Value) -> Option<&Map<String, Value>> {
    match value {
        Value::Array(elements) if elements.len() == 1 => innermost(&elements[0]),
        Value::Object(members) => {
            let inner = if members.len() == 1 {
                members.values().next().filter(|value| value.is_object())
            } else {
                None
            };
            inner.map_or(Some(members), innermost)
        }
        _ => None,
    }
}

fn judged(raw: &str, fields: impl IntoIterator<Item = String>, reference: &Reference) -> Judgement {
    let text = Compare::Text { fold_case: false, fold_accents: false, fold_spaces: false };
    let field = FieldRule { compare: text, missing: Missing::Wrong };
    let rule = QualityRule {
        parse: Parse::Json,
        accept: Accept::AllFields,
        threshold: Threshold::new(0.9).unwrap(),
        fields: fields.into_iter().map(|name| (name, field.clone())).collect(),
    };
    judge(&rule, reference, &Output { text: raw, truncated: false })
}

fn read_object(case: &Case) -> Reading {
    let expected = innermost(&case.expected_parse);
    let fields: Vec<String> = match expected {
        Some(expected) => expected.keys().cloned().collect(),
        None => ["date", "amount", "category", "price"].map(str::to_owned).into(),
    };
    let judgement = judged(&case.raw, fields, &Reference::default());
    judgement.parsed.map(|value| (Value::Object(value), !judgement.repairs.is_empty()))
}

fn read_choice(raw: &str) -> Reading {
    let labels = |labels: &[&str]| labels.iter().map(|label| (*label).to_owned()).collect::<Vec<_>>();
    let letters = labels(&["A", "B", "C", "D", "E", "F", "G", "H", "I", "J"]);
    let answers = labels(&["yes", "no"]);
    let label = choice::read(raw, &letters).or_else(|_| choice::read(raw, &answers)).ok()?;
    Some((label.into(), false))
}

fn read(case: &Case) -> Reading {
    let written = || serde_json::from_str::<String>(&case.raw).unwrap();
    match case.kind.as_str() {
        "object" => read_object(case),
        "amount" => decimal::read(&written(), None).ok().map(|value| (value.to_string().into(), false)),
        "date" => date::read(&written(), None).ok().map(|value| (value.to_string().into(), false)),
        "choice" => read_choice(&case.raw),
        other => panic!("a kind of case that is not known: {other}"),
    }
}

#[test]
fn every_case_as_the_corpus_expects() {
    let Some(cases) = cases() else { return };
    assert!(!cases.is_empty());
    let mut refused = Vec::new();
    for case in cases {
        let expected = match innermost(&case.expected_parse) {
            Some(members) => Value::Object(members.clone()),
            None => case.expected_parse.clone(),
        };
        match (case.expect.as_str(), read(&case)) {
            ("parse" | "either", Some((value, repaired))) => {
                assert_eq!(value, expected, "{}", case.id);
                let is_direct = case.kind != "object" || (case.strict_json && value == case.expected_parse);
                assert_eq!(repaired, !is_direct, "{}: counted as repaired", case.id);
            }
            ("reject", None) => {}
            ("either", None) => refused.push(case.id),
            (expect, got) => panic!("{}: expected {expect}, got {got:?}", case.id),
        }
    }
    println!("refused, as they may be: {}", refused.join(" "));
}

#[test]
fn right_values_are_accepted_whatever_surrounds_them() {
    let Some(cases) = cases() else { return };
    for case in cases.iter().filter(|case| case.kind == "object" && case.expect == "parse") {
        let expected = innermost(&case.expected_parse).unwrap();
        let texts: Vec<(String, Value)> = expected
            .iter()
            .filter(|(_, value)| value.is_string())
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        let fields = texts.iter().map(|(name, _)| name.clone());
        let judgement = judged(&case.raw, fields, &Reference(texts.iter().cloned().collect()));
        assert_eq!(judgement.verdict, aforo::quality::Verdict::Accepted, "{}", case.id);
    }
}
