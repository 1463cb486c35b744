//! One field: the answered value against the reference.

use jiff::civil::Date;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;

use super::fold::Folding;
use super::refusal::Refusal;
use super::{date, decimal};
use crate::protocol::{Compare, DateOrder, DecimalMark, FieldRule, Missing};

/// What became of one field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// As the reference says.
    Match,
    /// Read, and not as the reference says.
    Wrong {
        /// The reference's value; null where nothing was to be answered.
        expected: Value,
        /// The answer's value.
        answered: Value,
    },
    /// The reference has a value and the answer has none.
    Missing {
        /// The reference's value.
        expected: Value,
    },
    /// The answer's value, or the reference's, is not of the kind that is compared.
    Unreadable {
        /// The answer's value.
        answered: Value,
        /// Why, in a few words.
        why: String,
    },
    /// The document has no reference for this field.
    NotChecked,
}

/// Compares one field. `None` is an absent key. An answer of null is an absent answer; what null in the reference
/// means is the rule's `missing`.
pub(super) fn outcome(rule: &FieldRule, expected: Option<&Value>, answered: Option<&Value>) -> Outcome {
    let answered = answered.filter(|value| !value.is_null());
    match (expected, answered, rule.missing) {
        (None, _, _) | (Some(Value::Null), _, Missing::Wrong) => Outcome::NotChecked,
        (Some(Value::Null), None, Missing::NullMatchesNull) => Outcome::Match,
        (Some(Value::Null), Some(answered), Missing::NullMatchesNull) => {
            Outcome::Wrong { expected: Value::Null, answered: answered.clone() }
        }
        (Some(expected), None, _) => Outcome::Missing { expected: expected.clone() },
        (Some(expected), Some(answered), _) => match matches(&rule.compare, expected, answered) {
            Ok(true) => Outcome::Match,
            Ok(false) => Outcome::Wrong { expected: expected.clone(), answered: answered.clone() },
            Err(why) => Outcome::Unreadable { answered: answered.clone(), why: why.to_string() },
        },
    }
}

/// Whether a reference's value can be compared at all; to be asked before a run. Null always can.
pub fn check_reference(compare: &Compare, value: &Value) -> Result<(), Refusal> {
    if value.is_null() { Ok(()) } else { Comparable::read(compare, value).map(|_| ()) }
}

fn matches(compare: &Compare, expected: &Value, answered: &Value) -> Result<bool, Refusal> {
    let answered = Comparable::read(compare, answered)?;
    let expected =
        Comparable::read(compare, expected).map_err(|why| Refusal::from(format!("the reference: {why}")))?;
    Ok(match (compare, &expected, &answered) {
        (Compare::Decimal { tolerance, .. }, Comparable::Number(expected), Comparable::Number(answered)) => {
            expected.checked_sub(*answered).is_some_and(|difference| difference.abs() <= *tolerance)
        }
        _ => expected == answered,
    })
}

/// A value as its comparison sees it.
#[derive(PartialEq)]
enum Comparable {
    Date(Date),
    Number(Decimal),
    Text(String),
    Set(BTreeSet<String>),
}

impl Comparable {
    fn read(compare: &Compare, value: &Value) -> Result<Self, Refusal> {
        match *compare {
            Compare::Date { order } => read_date(value, order).map(Self::Date),
            Compare::Decimal { mark, .. } => read_decimal(value, mark).map(Self::Number),
            Compare::Integer => read_integer(value).map(Self::Number),
            Compare::Text { fold_case, fold_accents, fold_spaces } => {
                let folding = Folding { case: fold_case, accents: fold_accents, spaces: fold_spaces };
                written(value).map(|text| Self::Text(folding.apply(&text)))
            }
            Compare::Set { fold_case, fold_accents } => {
                read_set(value, Folding { case: fold_case, accents: fold_accents, spaces: true })
                    .map(Self::Set)
            }
        }
    }
}

fn read_date(value: &Value, order: Option<DateOrder>) -> Result<Date, Refusal> {
    match value {
        Value::String(text) => date::read(text, order),
        _ => Err("not a date".into()),
    }
}

fn read_decimal(value: &Value, mark: Option<DecimalMark>) -> Result<Decimal, Refusal> {
    match value {
        Value::String(text) => decimal::read(text, mark),
        Value::Number(number) => decimal::read_json_number(&number.to_string()),
        _ => Err("not a number".into()),
    }
}

/// A whole number. In a written one a comma before three digits groups thousands, as there are no decimals; a point
/// there stays ambiguous.
fn read_integer(value: &Value) -> Result<Decimal, Refusal> {
    let mark = match value {
        Value::String(text) if !text.contains('.') => Some(DecimalMark::Point),
        _ => None,
    };
    let number = read_decimal(value, mark)?;
    if number.is_integer() { Ok(number) } else { Err("not a whole number".into()) }
}

/// The elements of an array, or of a text that sets them apart by `;`, `|` or line breaks (never by commas, which
/// names contain).
fn read_set(value: &Value, folding: Folding) -> Result<BTreeSet<String>, Refusal> {
    let elements = match value {
        Value::Array(elements) => elements.iter().map(written).collect::<Result<Vec<_>, _>>()?,
        other => written(other)?.split([';', '|', '\n']).map(str::to_owned).collect(),
    };
    Ok(elements.iter().map(|element| folding.apply(element)).filter(|element| !element.is_empty()).collect())
}

/// The text of a single value.
fn written(value: &Value) -> Result<String, Refusal> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(yes) => Ok(yes.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => Err("not a single text".into()),
    }
}
