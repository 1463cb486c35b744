//! From the raw output to one value per field.

use regex::Regex;
use serde_json::{Map, Value};

use super::refusal::Refusal;
use super::repair::{Repair, Repairs};
use super::{choice, json, shape, think};
use crate::protocol::{Parse, QualityRule};

/// The fields of an output, as they were answered.
pub(super) struct Answer {
    pub(super) values: Map<String, Value>,
    pub(super) repairs: Vec<Repair>,
}

/// Reads an output by the rule. An output with none of the rule's fields is refused.
pub(super) fn read(rule: &QualityRule, text: &str) -> Result<Answer, Refusal> {
    let fields: Vec<&str> = rule.fields.keys().map(String::as_str).collect();
    match &rule.parse {
        Parse::Json => {
            let reading = json::read(text)?;
            let mut repairs = Repairs::from(reading.repairs);
            let values = shape::fields_object(reading.value, &fields, &mut repairs)?;
            Ok(Answer { values, repairs: repairs.into_vec() })
        }
        Parse::Text => after_reasoning(text, |text| {
            if text.is_empty() { Err("the output is empty".into()) } else { one_field(&fields, text) }
        }),
        Parse::Choice(labels) => {
            after_reasoning(text, |text| one_field(&fields, choice::read(text, labels)?))
        }
        Parse::Regex(pattern) => after_reasoning(text, |text| groups(pattern, &fields, text)),
    }
}

/// Reads what follows the reasoning, which counts as a repair.
fn after_reasoning(
    text: &str,
    values: impl FnOnce(&str) -> Result<Map<String, Value>, Refusal>,
) -> Result<Answer, Refusal> {
    let (answer, has_reasoning) = think::answer(text)?;
    let repairs = if has_reasoning { vec![Repair::Think] } else { Vec::new() };
    Ok(Answer { values: values(answer.trim())?, repairs })
}

fn one_field(fields: &[&str], value: &str) -> Result<Map<String, Value>, Refusal> {
    let [field] = fields else { return Err("the rule must have exactly one field".into()) };
    Ok(Map::from_iter([((*field).to_owned(), value.into())]))
}

/// The named groups of the first match; a group that took no part is absent.
fn groups(pattern: &Regex, fields: &[&str], text: &str) -> Result<Map<String, Value>, Refusal> {
    let captures = pattern.captures(text).ok_or("the pattern is not in the output")?;
    let values: Map<String, Value> = fields
        .iter()
        .filter_map(|field| Some(((*field).to_owned(), captures.name(field)?.as_str().into())))
        .collect();
    if values.is_empty() { Err("the pattern found none of the fields".into()) } else { Ok(values) }
}
