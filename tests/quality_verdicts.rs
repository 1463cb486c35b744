//! Verdicts per field and per document.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use aforo::protocol::{
    Accept, Compare, DecimalMark, FailureReason, FieldRule, Missing, Parse, QualityRule, Reference, Threshold,
};
use aforo::quality::{FieldOutcome, Judgement, Outcome, Output, Repair, Verdict, check_reference, judge};
use serde_json::{Value, json};

const PLAIN: Compare = Compare::Text { fold_case: false, fold_accents: false, fold_spaces: false };

fn rule(parse: Parse, fields: Vec<(&str, Compare, Missing)>) -> QualityRule {
    QualityRule {
        parse,
        accept: Accept::AllFields,
        threshold: Threshold::new(0.9).unwrap(),
        fields: fields
            .into_iter()
            .map(|(name, compare, missing)| (name.to_owned(), FieldRule { compare, missing }))
            .collect(),
    }
}

fn reference(value: Value) -> Reference {
    serde_json::from_value(value).unwrap()
}

fn judged(rule: &QualityRule, expected: Value, text: &str) -> Judgement {
    judge(rule, &reference(expected), &Output { text, truncated: false })
}

fn reason(judgement: &Judgement) -> Option<FailureReason> {
    match judgement.verdict {
        Verdict::Accepted => None,
        Verdict::Failed { reason, .. } => Some(reason),
    }
}

fn receipt(missing: Missing) -> QualityRule {
    let total = Compare::Decimal { tolerance: "0.05".parse().unwrap(), mark: None };
    rule(
        Parse::Json,
        vec![
            ("date", Compare::Date { order: None }, missing),
            ("total", total, missing),
            ("kind", Compare::Text { fold_case: true, fold_accents: false, fold_spaces: true }, missing),
        ],
    )
}

#[test]
fn every_checked_field_must_match() {
    let rule = receipt(Missing::Wrong);
    let expected = json!({"date": "2018-03-15", "total": "8.00", "kind": "receipt"});
    let right =
        judged(&rule, expected.clone(), r#"{"date": "15 March 2018", "total": 8.05, "kind": " Receipt "}"#);
    assert_eq!((right.verdict, right.repairs), (Verdict::Accepted, vec![]));

    let wrong = judged(&rule, expected, r#"{"date": "soon", "total": "8.06", "kind": null}"#);
    let outcomes: Vec<&Outcome> = wrong.fields.iter().map(|field| &field.outcome).collect();
    assert!(matches!(outcomes[0], Outcome::Unreadable { answered, .. } if answered == "soon"));
    assert_eq!(outcomes[1], &Outcome::Wrong { expected: json!("8.00"), answered: json!("8.06") });
    assert_eq!(outcomes[2], &Outcome::Missing { expected: json!("receipt") });
    let Verdict::Failed { reason, detail } = wrong.verdict else { panic!() };
    assert_eq!(reason, FailureReason::Quality);
    assert_eq!(detail, "date: \"soon\" cannot be compared: a word that is not part of a date; 2 more wrong");
}

#[test]
fn absent_and_null_mean_what_the_rule_says() {
    use Outcome::{Match, Missing as NotAnswered, NotChecked};

    let text = r#"{"date": null, "total": "8.00"}"#;
    let outcomes = |missing, expected: Value| -> Vec<Outcome> {
        judged(&receipt(missing), expected, text).fields.into_iter().map(|field| field.outcome).collect()
    };
    let null = json!({"date": null, "total": "8.00", "kind": null});
    assert_eq!(outcomes(Missing::Wrong, null.clone()), [NotChecked, Match, NotChecked]);
    assert_eq!(outcomes(Missing::NullMatchesNull, null), [Match, Match, Match]);
    let absent = json!({"total": "8.00"});
    assert_eq!(outcomes(Missing::Wrong, absent.clone()), [NotChecked, Match, NotChecked]);
    assert_eq!(outcomes(Missing::NullMatchesNull, absent), [NotChecked, Match, NotChecked]);
    let valued = json!({"date": "2018-03-15", "kind": "receipt"});
    let expected = [
        NotAnswered { expected: json!("2018-03-15") },
        NotChecked,
        NotAnswered { expected: json!("receipt") },
    ];
    assert_eq!(outcomes(Missing::Wrong, valued.clone()), expected);
    assert_eq!(outcomes(Missing::NullMatchesNull, valued), expected);
    let answered_null = judged(&receipt(Missing::NullMatchesNull), json!({"total": null}), text);
    let wrong = Outcome::Wrong { expected: Value::Null, answered: json!("8.00") };
    assert_eq!(answered_null.fields[1], FieldOutcome { field: "total".into(), outcome: wrong });
}

#[test]
fn an_empty_object_never_scores() {
    for missing in [Missing::Wrong, Missing::NullMatchesNull] {
        for expected in
            [json!({}), json!({"date": null, "total": null, "kind": null}), json!({"total": "8.00"})]
        {
            for text in ["{}", "[{}]", "```json\n{}\n```", "{\"a\": {}}", "{\"other\": null}"] {
                let judgement = judged(&receipt(missing), expected.clone(), text);
                assert_eq!(reason(&judgement), Some(FailureReason::Format), "{text}");
            }
        }
    }
}

#[test]
fn a_document_without_a_reference_never_scores() {
    let text = r#"{"date": "2018-03-15", "total": "8.00", "kind": "receipt"}"#;
    for expected in [json!({}), json!({"date": null, "total": null, "kind": null})] {
        assert_eq!(reason(&judged(&receipt(Missing::Wrong), expected, text)), Some(FailureReason::Quality));
    }
    let no_fields = rule(Parse::Json, vec![]);
    assert!(reason(&judged(&no_fields, json!({}), text)).is_some());
}

#[test]
fn f44_truncated_is_never_merged_with_wrong_or_right() {
    let rule = receipt(Missing::Wrong);
    let expected = json!({"total": "8.00"});
    for text in [r#"{"total": "8.00"}"#, r#"{"total": "9.00"}"#, r#"{"total": "8"#, "", "{}"] {
        let judgement = judge(&rule, &reference(expected.clone()), &Output { text, truncated: true });
        assert_eq!(reason(&judgement), Some(FailureReason::Truncated), "{text}");
    }
    let whole = judge(&rule, &reference(expected), &Output { text: r#"{"total": "8.00"}"#, truncated: true });
    assert_eq!(whole.parsed.unwrap()["total"], "8.00");
}

#[test]
fn f66_a_repetition_loop_does_not_score() {
    let rule = receipt(Missing::Wrong);
    let object = r#"{"total": "8.00", "kind": ""#.to_owned() + &"very ".repeat(10_000);
    assert_eq!(reason(&judged(&rule, json!({"total": "8.00"}), &object)), Some(FailureReason::Format));
    let prose = "the total is 8.00 ".repeat(10_000);
    assert_eq!(reason(&judged(&rule, json!({"total": "8.00"}), &prose)), Some(FailureReason::Format));
}

#[test]
fn the_whole_text_is_the_one_field() {
    let rule = rule(Parse::Text, vec![("answer", Compare::Integer, Missing::Wrong)]);
    for text in ["18", " 18\n", "18.0", "<think>17? no, 18</think>18", "well</think>\n\n18"] {
        let judgement = judged(&rule, json!({"answer": 18}), text);
        assert_eq!(judgement.verdict, Verdict::Accepted, "{text}");
        let repairs = if text.contains("think") { vec![Repair::Think] } else { vec![] };
        assert_eq!(judgement.repairs, repairs, "{text}");
    }
    assert_eq!(reason(&judged(&rule, json!({"answer": 18}), "18.5")), Some(FailureReason::Quality));
    assert_eq!(reason(&judged(&rule, json!({"answer": 18}), "It is 18")), Some(FailureReason::Quality));
    for text in ["", " \n", "<think>18"] {
        assert_eq!(
            reason(&judged(&rule, json!({"answer": 18}), text)),
            Some(FailureReason::Format),
            "{text}"
        );
    }
}

#[test]
fn named_groups_are_the_fields() {
    let pattern = regex::Regex::new(r"(?m)^Total: (?<total>\S+)(?: on (?<date>\S+))?$").unwrap();
    let rule = QualityRule { parse: Parse::Regex(pattern), ..receipt(Missing::Wrong) };
    let expected = json!({"total": "8.00", "date": "2018-03-15"});
    let both = judged(&rule, expected.clone(), "Sure.\nTotal: 8,00 on 15/03/2018\n");
    assert_eq!((both.verdict, both.repairs), (Verdict::Accepted, vec![]));
    let one = judged(&rule, expected.clone(), "Total: 8,00");
    assert_eq!(one.fields[0].outcome, Outcome::Missing { expected: json!("2018-03-15") });
    assert_eq!(reason(&judged(&rule, expected, "8.00")), Some(FailureReason::Format));
}

#[test]
fn a_choice_is_one_label() {
    let parse = Parse::Choice(["spam", "ham"].map(str::to_owned).into());
    let rule = rule(parse, vec![("category", PLAIN, Missing::Wrong)]);
    let verdict = |text| reason(&judged(&rule, json!({"category": "spam"}), text));
    assert_eq!(verdict("SPAM."), None);
    assert_eq!(verdict("Ham"), Some(FailureReason::Quality));
    assert_eq!(verdict("spam or ham"), Some(FailureReason::Format));
    assert_eq!(verdict("not spam"), Some(FailureReason::Format));
    assert_eq!(verdict("spammer"), Some(FailureReason::Format));
}

#[test]
fn comparisons_of_single_values() {
    let point = Compare::Decimal { tolerance: "0".parse().unwrap(), mark: Some(DecimalMark::Point) };
    let set = Compare::Set { fold_case: true, fold_accents: true };
    let matches = |compare: &Compare, expected: Value, answered: Value| {
        let rule = rule(Parse::Json, vec![("x", compare.clone(), Missing::Wrong)]);
        judged(&rule, json!({ "x": expected }), &json!({ "x": answered }).to_string()).verdict
            == Verdict::Accepted
    };
    for answered in [json!("12"), json!(12), json!(12.0), json!("12.0"), json!("$12")] {
        assert!(matches(&Compare::Integer, json!(12), answered));
    }
    for answered in [json!("12.5"), json!(12.5), json!("1 2"), json!(true), json!([12]), json!("")] {
        assert!(!matches(&Compare::Integer, json!(12), answered));
    }
    assert!(matches(&Compare::Integer, json!(1234), json!("1,234")));
    assert!(!matches(&Compare::Integer, json!(1234), json!("1.234")));
    assert!(matches(&point, json!("1234"), json!("1,234")));
    assert!(matches(&point, json!(0.1), json!("0.10")));
    assert!(matches(&set, json!(["Ábc", "d"]), json!(["D", "abc", "d "])));
    assert!(matches(&set, json!("Ábc; d"), json!(["D", "abc"])));
    assert!(matches(&set, json!(["a, b"]), json!("A, B")));
    assert!(!matches(&set, json!(["a", "b"]), json!(["a"])));
    assert!(!matches(&set, json!(["a"]), json!(["a", ["b"]])));
    assert!(!matches(&PLAIN, json!("a"), json!("A")));
    assert!(matches(&PLAIN, json!("12"), json!(12)));
    assert!(!matches(&PLAIN, json!("a"), json!({"a": 1})));
    assert!(!matches(&point, json!("1e999"), json!("79228162514264337593543950336")));
}

#[test]
fn a_reference_can_be_checked_before_a_run() {
    let date = Compare::Date { order: None };
    assert!(check_reference(&date, &json!("2018-03-15")).is_ok());
    assert!(check_reference(&date, &Value::Null).is_ok());
    assert!(check_reference(&date, &json!("03/04/2018")).is_err());
    let rule = rule(Parse::Json, vec![("x", date, Missing::Wrong)]);
    let judgement = judged(&rule, json!({"x": "03/04/2018"}), r#"{"x": "2018-04-03"}"#);
    let Verdict::Failed { detail, .. } = judgement.verdict else { panic!() };
    assert!(detail.contains("the reference: day and month"), "{detail}");
}

#[test]
fn a_detail_is_short_and_a_judgement_is_stored_in_kebab_case() {
    let rule = rule(Parse::Json, vec![("x", PLAIN, Missing::Wrong)]);
    let text = json!({ "x": "é".repeat(5_000) }).to_string();
    let judgement = judged(&rule, json!({"x": "é".repeat(4_000)}), &text);
    let Verdict::Failed { detail, .. } = &judgement.verdict else { panic!() };
    assert!(detail.chars().count() <= 200);

    assert_eq!(serde_json::to_value(Verdict::Accepted).unwrap(), json!("accepted"));
    let failed = Verdict::Failed { reason: FailureReason::Format, detail: "x".into() };
    assert_eq!(serde_json::to_value(failed).unwrap(), json!({"failed": {"reason": "format", "detail": "x"}}));
    let field = FieldOutcome { field: "x".into(), outcome: Outcome::NotChecked };
    assert_eq!(serde_json::to_value(field).unwrap(), json!({"field": "x", "outcome": "not-checked"}));
}
