//! What holds for every output, number and date.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use aforo::protocol::{
    Accept, Compare, DateOrder, DecimalMark, FieldRule, Missing, Parse, QualityRule, Reference, Threshold,
};
use aforo::quality::{Output, Verdict, date, decimal, json, judge};
use jiff::civil::Date;
use proptest::prelude::*;
use rust_decimal::Decimal;
use serde_json::{Map, Value};

fn rule(parse: Parse, fields: &[(&str, Compare)]) -> QualityRule {
    QualityRule {
        parse,
        accept: Accept::AllFields,
        threshold: Threshold::new(0.9).unwrap(),
        fields: fields
            .iter()
            .map(|(name, compare)| {
                ((*name).to_owned(), FieldRule { compare: compare.clone(), missing: Missing::Wrong })
            })
            .collect(),
    }
}

fn all_comparisons() -> Vec<(&'static str, Compare)> {
    vec![
        ("day", Compare::Date { order: None }),
        ("total", Compare::Decimal { tolerance: Decimal::ZERO, mark: None }),
        ("name", Compare::Text { fold_case: true, fold_accents: true, fold_spaces: true }),
        ("count", Compare::Integer),
        ("tags", Compare::Set { fold_case: true, fold_accents: true }),
    ]
}

fn any_day() -> impl Strategy<Value = Date> {
    (1969_i16..2069, 1_i8..=12, 1_i8..=31).prop_filter_map("a day", |(y, m, d)| Date::new(y, m, d).ok())
}

fn any_decimal() -> impl Strategy<Value = Decimal> {
    (-1_000_000_000_000_000_i64..1_000_000_000_000_000, 0_u32..=6)
        .prop_map(|(digits, scale)| Decimal::new(digits, scale))
}

/// Text made of what outputs are made of, so that the readers get far into it.
fn messy_text() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        "\"",
        "'",
        "“",
        "”",
        ":",
        ",",
        "\\",
        "\\u",
        "d83d",
        "day",
        "total",
        "name",
        "count",
        "tags",
        "\"day\": ",
        "\"total\": ",
        "null",
        "None",
        "NaN",
        "12",
        "-1.5e3",
        "2018-03-15",
        "15 Mar",
        "1,234",
        "$",
        "€",
        "-",
        "//",
        "/*",
        "*/",
        "#",
        "\n",
        " ",
        "```json\n",
        "```",
        "<think>",
        "</think>",
        "<a>",
        "<|x|>",
        "é",
        "\u{301}",
        "😀",
        "The answer is ",
        "yes",
        "no",
        "A",
        "not ",
        "`",
        "<",
        "(",
        ")",
        "17:34",
        "+02:00",
        "\u{0}",
    ]);
    prop::collection::vec(pieces, 0..40).prop_map(|pieces| pieces.concat())
}

fn short_number() -> impl Strategy<Value = Value> {
    (-9_999_999_i64..9_999_999, 0_u32..4)
        .prop_map(|(digits, scale)| serde_json::from_str(&Decimal::new(digits, scale).to_string()).unwrap())
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        short_number(),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// An amount as it is printed with a decimal mark and a mark between thousands.
fn printed(value: Decimal, mark: char, group: Option<char>) -> String {
    let plain = value.abs().to_string();
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let mut text = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            text.extend(group);
        }
        text.push(digit);
    }
    if !fraction.is_empty() {
        text.push(mark);
        text.push_str(fraction);
    }
    if value.is_sign_negative() { format!("-{text}") } else { text }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_gets_a_judgement(text in prop_oneof![any::<String>(), messy_text()], truncated: bool) {
        let reference: Map<String, Value> = serde_json::from_str(
            r#"{"day": "2018-03-15", "total": "12", "name": "no", "count": 12, "tags": ["a"]}"#,
        ).unwrap();
        let reference = Reference(reference.into_iter().collect());
        let labels = vec!["A".to_owned(), "no".to_owned(), "é".to_owned()];
        let pattern = regex::Regex::new("(?<day>[0-9-]+).*(?<name>no)?").unwrap();
        let one = [("name", Compare::Text { fold_case: true, fold_accents: true, fold_spaces: true })];
        for rule in [
            rule(Parse::Json, &all_comparisons()),
            rule(Parse::Regex(pattern), &all_comparisons()),
            rule(Parse::Text, &one),
            rule(Parse::Choice(labels), &one),
        ] {
            let judgement = judge(&rule, &reference, &Output { text: &text, truncated });
            if let Verdict::Failed { detail, .. } = &judgement.verdict {
                prop_assert!(detail.chars().count() <= 200);
            }
            prop_assert!(!(truncated && judgement.verdict == Verdict::Accepted));
            let line = serde_json::to_string(&judgement).unwrap();
            prop_assert_eq!(serde_json::from_str::<aforo::quality::Judgement>(&line).unwrap(), judgement);
        }
    }

    #[test]
    fn any_field_text_is_read_or_refused(text in prop_oneof![any::<String>(), messy_text(), "[-+0-9.,' $€()/]{0,16}"]) {
        for order in [None, Some(DateOrder::DayFirst), Some(DateOrder::MonthFirst)] {
            let _ = date::read(&text, order);
        }
        let [point, comma, undeclared] =
            [Some(DecimalMark::Point), Some(DecimalMark::Comma), None].map(|mark| decimal::read(&text, mark).ok());
        // Without a mark there is a value only where both marks give it.
        if undeclared.is_some() {
            prop_assert_eq!(undeclared, point);
            prop_assert_eq!(undeclared, comma);
        }
    }

    #[test]
    fn strict_json_of_right_values_is_accepted_without_repairs(
        day in any_day(), total in any_decimal(), name in any::<String>(), count in any::<i64>(),
        tags in prop::collection::vec("[a-zé ]{1,5}", 0..4), other in any_json(),
    ) {
        let answer = serde_json::json!({
            "other": other, "day": day.to_string(), "total": total.to_string(), "name": name, "count": count, "tags": tags,
        });
        let reference = Reference(answer.as_object().unwrap().clone().into_iter().collect());
        let mut rule = rule(Parse::Json, &all_comparisons());
        rule.fields.insert("total".into(), FieldRule {
            compare: Compare::Decimal { tolerance: Decimal::ZERO, mark: Some(DecimalMark::Point) },
            missing: Missing::Wrong,
        });
        for text in [answer.to_string(), serde_json::to_string_pretty(&answer).unwrap()] {
            let judgement = judge(&rule, &reference, &Output { text: &text, truncated: false });
            prop_assert_eq!(&judgement.verdict, &Verdict::Accepted);
            prop_assert_eq!(judgement.repairs, vec![]);
            prop_assert_eq!(judgement.parsed.as_ref(), answer.as_object());
        }
    }

    /// The reader's notion of strict JSON is that of an independent parser.
    #[test]
    fn no_repair_means_strict_json(
        value in any_json(), at in any::<prop::sample::Index>(), put in "[\\[\\]{}\",:01\\-. a'\\\\]{0,2}", cut in 0_usize..2,
    ) {
        let mut characters: Vec<char> = value.to_string().chars().collect();
        let at = at.index(characters.len());
        characters.splice(at..at + cut, put.chars());
        let text: String = characters.into_iter().collect();
        match (serde_json::from_str::<Value>(&text), json::read(&text)) {
            (Ok(strict), Ok(reading)) => {
                prop_assert_eq!(reading.repairs, vec![]);
                // A number of many digits is kept as text.
                let is_long_number = text.bytes().filter(u8::is_ascii_digit).count() > 15;
                prop_assert!(reading.value == strict || is_long_number);
            }
            (Ok(_), Err(why)) => prop_assert_eq!(why.to_string(), "a key appears twice"),
            (Err(_), Ok(reading)) => prop_assert!(!reading.repairs.is_empty()),
            (Err(_), Err(_)) => {}
        }
    }

    #[test]
    fn a_cut_object_never_gives_another_value(
        members in prop::collection::vec(("[a-z]{1,6}", prop_oneof![any::<String>().prop_map(Value::from), short_number()]), 1..5),
        at in any::<prop::sample::Index>(),
    ) {
        let whole: Map<String, Value> = members.into_iter().collect();
        let text = Value::Object(whole.clone()).to_string();
        let cut: String = text.chars().take(at.index(text.chars().count())).collect();
        if let Ok(reading) = json::read(&cut) {
            for (name, value) in reading.value.as_object().unwrap() {
                prop_assert_eq!(Some(value), whole.get(name));
            }
        }
    }

    #[test]
    fn a_printed_amount_reads_back(value in any_decimal(), currency in prop::sample::select(vec!["", "€", "$", "RM "])) {
        for (mark, group, declared) in [
            ('.', None, DecimalMark::Point), ('.', Some(','), DecimalMark::Point), ('.', Some('\''), DecimalMark::Point),
            (',', None, DecimalMark::Comma), (',', Some('.'), DecimalMark::Comma), (',', Some('\u{202f}'), DecimalMark::Comma),
            (',', Some(' '), DecimalMark::Comma), ('.', Some('\u{a0}'), DecimalMark::Point),
        ] {
            let text = printed(value, mark, group);
            let expected = Ok(value);
            prop_assert_eq!(&decimal::read(&text, Some(declared)), &expected, "{}", text);
            prop_assert_eq!(&decimal::read(&format!("{currency}{text}"), Some(declared)), &expected, "{}", text);
            prop_assert_eq!(&decimal::read(&format!("{text} {}", currency.trim()), Some(declared)), &expected, "{}", text);
            if let Ok(undeclared) = decimal::read(&text, None) {
                prop_assert_eq!(undeclared, value, "{}", text);
            }
        }
    }

    #[test]
    fn a_written_day_reads_back(day in any_day()) {
        const ENGLISH: [&str; 12] = [
            "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
            "December",
        ];
        const SPANISH: [&str; 12] = [
            "enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre", "octubre", "noviembre",
            "diciembre",
        ];
        const FRENCH: [&str; 12] = [
            "janvier", "février", "mars", "avril", "mai", "juin", "juillet", "août", "septembre", "octobre", "novembre",
            "décembre",
        ];
        const GERMAN: [&str; 12] = [
            "Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober", "November",
            "Dezember",
        ];
        const ITALIAN: [&str; 12] = [
            "gennaio", "febbraio", "marzo", "aprile", "maggio", "giugno", "luglio", "agosto", "settembre", "ottobre",
            "novembre", "dicembre",
        ];
        const PORTUGUESE: [&str; 12] = [
            "janeiro", "fevereiro", "março", "abril", "maio", "junho", "julho", "agosto", "setembro", "outubro", "novembro",
            "dezembro",
        ];
        const DUTCH: [&str; 12] = [
            "januari", "februari", "maart", "april", "mei", "juni", "juli", "augustus", "september", "oktober", "november",
            "december",
        ];
        const POLISH: [&str; 12] = [
            "stycznia", "lutego", "marca", "kwietnia", "maja", "czerwca", "lipca", "sierpnia", "września", "października",
            "listopada", "grudnia",
        ];
        let month = |names: [&'static str; 12]| names[usize::try_from(day.month() - 1).unwrap()];
        let (y, yy, m, d) = (day.year(), day.year().rem_euclid(100), day.month(), day.day());
        let english = month(ENGLISH);
        let short = &english[..3];
        for text in [
            day.to_string(), format!("{y}/{m}/{d}"), format!("{y}{m:02}{d:02}"), format!("{day}T09:05:00Z"),
            format!("{english} {d}, {y}"), format!("{d} {english} {y}"), format!("{d}-{short}-{y}"), format!("{d} {short} {yy:02}"),
            format!("{d}th of {english}, {y}"), format!("{d} de {} de {y}", month(SPANISH)), format!("{d} {} {y}", month(FRENCH)),
            format!("{d}. {} {y}", month(GERMAN)), format!("{d} {} {y}", month(ITALIAN)),
            format!("{d} de {} de {y}", month(PORTUGUESE)), format!("{d} {} {y}", month(DUTCH)), format!("{d} {} {y}", month(POLISH)),
        ] {
            for order in [None, Some(DateOrder::DayFirst), Some(DateOrder::MonthFirst)] {
                prop_assert_eq!(date::read(&text, order), Ok(day), "{}", text);
            }
        }
        for (text, order) in [
            (format!("{d}/{m}/{y}"), DateOrder::DayFirst), (format!("{d:02}.{m:02}.{yy:02}"), DateOrder::DayFirst),
            (format!("{d}-{m}-{y} 17:34"), DateOrder::DayFirst), (format!("{m}/{d}/{y}"), DateOrder::MonthFirst),
            (format!("{m:02}-{d:02}-{yy:02}"), DateOrder::MonthFirst),
        ] {
            prop_assert_eq!(date::read(&text, Some(order)), Ok(day), "{}", text);
            if let Ok(undeclared) = date::read(&text, None) {
                prop_assert_eq!(undeclared, day, "{}", text);
            }
        }
    }
}
