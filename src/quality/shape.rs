//! From a JSON value to the object that holds the rule's fields.

use serde_json::{Map, Value};

use super::json;
use super::refusal::{Refusal, clip};
use super::repair::{Repair, Repairs};

/// Layers of wrapping that are taken off.
const LAYERS: usize = 3;

/// The object with at least one of the fields as a key. Each layer taken off is a repair; a layer is taken off only
/// when it holds none of the fields and exactly one object.
pub(super) fn fields_object(
    mut value: Value,
    fields: &[&str],
    repairs: &mut Repairs,
) -> Result<Map<String, Value>, Refusal> {
    for _ in 0..=LAYERS {
        value = match value {
            Value::Object(members) if fields.iter().any(|field| members.contains_key(*field)) => {
                return Ok(members);
            }
            Value::Object(members) => {
                let inner = only_object(members).ok_or_else(|| none_of(fields))?;
                repairs.add(Repair::Wrapped);
                inner
            }
            Value::Array(elements) => {
                let inner = only(elements).ok_or("an array that does not hold exactly one object")?;
                repairs.add(Repair::ArrayOfOne);
                inner
            }
            Value::String(text) => {
                let inner = encoded(&text).ok_or("a text in quotes, not an object")?;
                repairs.add(Repair::DoubleEncoded);
                inner
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                return Err("a bare value, not an object".into());
            }
        };
    }
    Err(none_of(fields))
}

fn none_of(fields: &[&str]) -> Refusal {
    format!("none of the fields is in the output: {}", clip(&fields.join(", "), 120)).into()
}

/// The one value that is an object, or stands for one.
fn only_object(members: Map<String, Value>) -> Option<Value> {
    let alone = members.len() == 1;
    only(members.into_iter().map(|(_, value)| value).filter(|value| match value {
        Value::Object(_) => true,
        Value::Array(elements) => matches!(elements.as_slice(), [Value::Object(_)]),
        Value::String(text) => alone && encoded(text).is_some(),
        _ => false,
    }))
}

fn only<T>(items: impl IntoIterator<Item = T>) -> Option<T> {
    let mut items = items.into_iter();
    let first = items.next()?;
    items.next().is_none().then_some(first)
}

/// The object that a string holds as JSON text.
fn encoded(text: &str) -> Option<Value> {
    json::strict(text).filter(Value::is_object)
}
