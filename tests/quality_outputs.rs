//! Outputs as models write them: each is read to its value with the repairs that are counted, or refused.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use aforo::protocol::{
    Accept, Compare, FailureReason, FieldRule, Missing, Parse, QualityRule, Reference, Threshold,
};
use aforo::quality::{Output, Repair, Verdict, judge};
use serde_json::{Map, Value};

#[derive(serde::Deserialize)]
struct Case {
    what: String,
    fields: Vec<String>,
    output: String,
    #[serde(default)]
    refused: bool,
    #[serde(default)]
    value: Map<String, Value>,
    #[serde(default)]
    repairs: Vec<Repair>,
}

fn rule(fields: &[String]) -> QualityRule {
    let text = Compare::Text { fold_case: false, fold_accents: false, fold_spaces: false };
    let field = FieldRule { compare: text, missing: Missing::NullMatchesNull };
    QualityRule {
        parse: Parse::Json,
        accept: Accept::AllFields,
        threshold: Threshold::new(0.9).unwrap(),
        fields: fields.iter().map(|name| (name.clone(), field.clone())).collect(),
    }
}

#[test]
fn outputs_are_read_or_refused_as_the_data_says() {
    let data = include_str!("data/quality/outputs.jsonl");
    for line in data.lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        let judgement = judge(
            &rule(&case.fields),
            &Reference::default(),
            &Output { text: &case.output, truncated: false },
        );
        if case.refused {
            let Verdict::Failed { reason, detail } = &judgement.verdict else { panic!("{}", case.what) };
            assert_eq!((*reason, &judgement.parsed), (FailureReason::Format, &None), "{}", case.what);
            assert!(!detail.is_empty() && detail.chars().count() <= 200, "{}: {detail}", case.what);
        } else {
            assert_eq!(
                judgement.parsed.as_ref(),
                Some(&case.value),
                "{}: {:?}",
                case.what,
                judgement.verdict
            );
            assert_eq!(judgement.repairs, case.repairs, "{}", case.what);
        }
    }
}

#[test]
fn deep_nesting_is_refused_and_does_not_overflow() {
    for text in ["[", "{\"when\":", "{", "{\"a\":[", "[{", "{{\"a\":"] {
        let text = text.repeat(200_000);
        let judgement =
            judge(&rule(&["when".into()]), &Reference::default(), &Output { text: &text, truncated: false });
        assert!(matches!(judgement.verdict, Verdict::Failed { reason: FailureReason::Format, .. }));
    }
}

/// Each of these is quadratic for a reader that starts again at every brace; 1 MB would then take minutes.
#[test]
fn a_huge_output_is_read_in_one_go() {
    let rule = rule(&["when".into()]);
    let starts = [
        "{",
        "{'",
        "{“x",
        "{ /*",
        "{ //",
        "[ ",
        "{\"a",
        "<think>",
        "```",
        "</think>",
        "{\"a\":“</think>",
        "<a",
        "{#",
        "\\",
    ];
    for start in starts {
        let text = start.repeat(1_000_000 / start.len());
        let judgement = judge(&rule, &Reference::default(), &Output { text: &text, truncated: false });
        assert!(
            matches!(judgement.verdict, Verdict::Failed { reason: FailureReason::Format, .. }),
            "{start}"
        );
    }
    let text = format!("{{\"when\": \"{}\"}}", "x".repeat(2_000_000));
    let judgement = judge(&rule, &Reference::default(), &Output { text: &text, truncated: false });
    assert_eq!(judgement.parsed.unwrap()["when"].as_str().unwrap().len(), 2_000_000);
}

#[test]
fn numbers_keep_every_digit() {
    let field = FieldRule {
        compare: Compare::Decimal { tolerance: "0".parse().unwrap(), mark: None },
        missing: Missing::Wrong,
    };
    let rule = QualityRule { fields: [("total".to_owned(), field)].into_iter().collect(), ..rule(&[]) };
    let verdict = |answered: &str, expected: &str| {
        let reference = Reference([("total".to_owned(), Value::from(expected))].into_iter().collect());
        let text = format!("{{\"total\": {answered}}}");
        let judgement = judge(&rule, &reference, &Output { text: &text, truncated: false });
        assert_eq!(judgement.repairs, []);
        judgement.verdict
    };
    assert_eq!(verdict("8.10", "8.1"), Verdict::Accepted);
    assert_eq!(verdict("12345678901234567.89", "12345678901234567.89"), Verdict::Accepted);
    assert_ne!(verdict("12345678901234567.89", "12345678901234567.88"), Verdict::Accepted);
    assert_eq!(verdict("18446744073709551617", "18446744073709551617"), Verdict::Accepted);
    assert_ne!(verdict("1e400", "1"), Verdict::Accepted);
}
