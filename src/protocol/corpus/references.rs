//! The expected values, from JSONL or CSV.

use super::documents::{Format, format, id_fault, id_text, json_fault};
use super::lines::{each_line, each_record};
use super::refusal::Refusals;
use crate::protocol::problem::{listed, nearest, shown};
use crate::protocol::{Compare, FieldRule, Missing, Parse, QualityRule, Reference};
use indexmap::{IndexMap, IndexSet};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use std::fmt;
use std::path::Path;

/// Most names of a references file that are kept to be shown.
const MAX_NAMES: usize = 50;

/// References by document id, in the order of their file.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub of: IndexMap<String, Placed>,
    /// Whether the file was read to its end without a mistake.
    pub complete: bool,
    /// Names that the file has besides the id.
    names: IndexSet<String>,
    refused: bool,
}

/// A reference and its line.
#[derive(Debug)]
pub(super) struct Placed {
    pub line: u64,
    pub reference: Reference,
}

/// Reads the values of the rule's fields for every id.
pub(super) fn read(source: &Path, rule: &QualityRule, refusals: &mut Refusals) -> Found {
    let mut found = Found::default();
    let to_the_end = match format(source) {
        Some(Format::JsonLines) => each_line(source, refusals, |line, text, refusals| {
            let row = from_json(text, rule, &mut found.names);
            found.add(source, line, row, rule, refusals);
        }),
        Some(Format::Csv) => each_record(source, &["id"], refusals, |record, refusals| {
            if found.names.is_empty() {
                let names = record.names().filter(|name| *name != "id").take(MAX_NAMES);
                found.names.extend(names.map(str::to_owned));
                // The header says which fields there are, however many others come before them.
                found.names.extend(rule.fields.keys().filter(|field| record.cell(field).is_some()).cloned());
            }
            let cells = rule.fields.keys().filter_map(|field| {
                let cell = record.cell(field).filter(|cell| !cell.is_empty())?;
                Some((field.clone(), Value::String(cell.to_owned())))
            });
            let row = Row { id: record.cell("id").unwrap_or_default().to_owned(), values: cells.collect() };
            found.add(source, record.line, Ok(row), rule, refusals);
        }),
        None => {
            refusals.add(source, None, "is none of .jsonl, .ndjson and .csv");
            false
        }
    };
    found.complete = to_the_end && !found.refused;
    if found.complete {
        absent_fields(source, rule, &found, refusals);
    }
    found
}

/// Whether no field of the rule would be checked against this reference.
pub(super) fn checks_nothing(reference: &Reference, rule: &QualityRule) -> bool {
    !rule.fields.iter().any(|(field, rule)| match reference.0.get(field) {
        None => false,
        Some(Value::Null) => rule.missing == Missing::NullMatchesNull,
        Some(_) => true,
    })
}

/// Refuses fields that no reference has: most likely they are misspelt, and would never be checked.
fn absent_fields(source: &Path, rule: &QualityRule, found: &Found, refusals: &mut Refusals) {
    for field in rule.fields.keys().filter(|field| !found.of.is_empty() && !found.names.contains(*field)) {
        let near = nearest(field, found.names.iter().map(String::as_str));
        let near = near.map(|near| format!("; nearest: {near}")).unwrap_or_default();
        let names = listed(found.names.iter().map(String::as_str));
        let message =
            format!("no reference has the field {} of quality.fields; they have {names}{near}", shown(field));
        refusals.add(source, None, message);
    }
}

/// One line: an id, and the values of the rule's fields.
struct Row {
    id: String,
    values: IndexMap<String, Value>,
}

impl Found {
    fn add(
        &mut self,
        file: &Path,
        line: u64,
        row: Result<Row, String>,
        rule: &QualityRule,
        refusals: &mut Refusals,
    ) {
        if let Err(message) = row.and_then(|row| self.keep(line, row, rule)) {
            self.refused = true;
            refusals.add(file, Some(line), message);
        }
    }

    fn keep(&mut self, line: u64, row: Row, rule: &QualityRule) -> Result<(), String> {
        let Row { id, mut values } = row;
        if let Some(fault) = id_fault(&id) {
            return Err(fault);
        }
        if let Some(before) = self.of.get(&id) {
            return Err(format!("id {} is there twice, first on line {}", shown(&id), before.line));
        }
        for (field, value) in &values {
            if let Some(fault) = rule.fields.get(field).and_then(|of| value_fault(value, of, &rule.parse)) {
                return Err(format!("the reference of {} for {} {fault}", shown(&id), shown(field)));
            }
        }
        values.sort_by_cached_key(|field, _| rule.fields.get_index_of(field));
        self.of.insert(id, Placed { line, reference: Reference(values) });
        Ok(())
    }
}

/// What is wrong with an expected value, as far as its kind tells; the comparison itself reads it.
fn value_fault(value: &Value, field: &FieldRule, parse: &Parse) -> Option<String> {
    if let (Parse::Choice(labels), Value::String(label)) = (parse, value)
        && !labels.contains(label)
    {
        let near = nearest(label, labels.iter().map(String::as_str));
        let near = near.map(|near| format!("; nearest: {near}")).unwrap_or_default();
        return Some(format!("is {}, which is not among quality.choices{near}", shown(label)));
    }
    let not_blank = |text: &str| !text.trim().is_empty();
    let has_digit = |text: &str| text.bytes().any(|b| b.is_ascii_digit());
    let (good, allowed) = match (&field.compare, value) {
        (_, Value::Null) => return None,
        (Compare::Text { .. }, value) => (!value.is_array() && !value.is_object(), "text"),
        (Compare::Set { .. }, Value::Array(elements)) => {
            (elements.iter().all(|element| element.is_string() || element.is_number()), "a list of texts")
        }
        (Compare::Set { .. }, value) => (value.is_string(), "a list of texts"),
        (Compare::Date { .. }, value) => (value.as_str().is_some_and(not_blank), "a date as text"),
        (Compare::Decimal { .. }, value) => {
            (value.is_number() || value.as_str().is_some_and(has_digit), "a number, or text with one")
        }
        (Compare::Integer, value) => {
            let whole = value.is_i64() || value.is_u64();
            (whole || value.as_str().is_some_and(has_digit), "a whole number, or text with one")
        }
    };
    (!good).then(|| format!("is {}; allowed: {allowed}", kind_of(value)))
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(text) if text.trim().is_empty() => "empty text",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn from_json(line: &str, rule: &QualityRule, names: &mut IndexSet<String>) -> Result<Row, String> {
    let mut reader = serde_json::Deserializer::from_str(line);
    let row = Fields { rule, names }.deserialize(&mut reader).map_err(|error| json_fault(&error))?;
    reader.end().map_err(|error| json_fault(&error))?;
    Ok(Row { id: id_text(row.0)?, values: row.1 })
}

/// Reads the id and the rule's fields of an object, each at most once, and skips the rest.
struct Fields<'r> {
    rule: &'r QualityRule,
    names: &'r mut IndexSet<String>,
}

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = (Option<Value>, IndexMap<String, Value>);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = (Option<Value>, IndexMap<String, Value>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with an id")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut id = None;
        let mut values = IndexMap::new();
        while let Some(name) = map.next_key::<String>()? {
            let repeated = if name == "id" {
                id.replace(map.next_value()?).is_some()
            } else if self.rule.fields.contains_key(&name) {
                self.names.insert(name.clone());
                values.insert(name.clone(), map.next_value()?).is_some()
            } else {
                map.next_value::<IgnoredAny>()?;
                if self.names.len() < MAX_NAMES {
                    self.names.insert(name.clone());
                }
                false
            };
            if repeated {
                return Err(A::Error::custom(format_args!("duplicate field {}", shown(&name))));
            }
        }
        Ok((id, values))
    }
}
