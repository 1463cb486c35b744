//! The JSON Schema of the protocol file, printed from the table of keys.

use super::check::allowed;
use super::duration;
use super::keys::{Key, Kind, Need, ROOT, Table, When};
use serde_json::{Map, Value as Json, json};

/// The JSON Schema (draft 2020-12) of the protocol file, for editors that complete and check TOML.
///
/// It says what can be said of one key and its neighbours; contradictions between tables are found by
/// [`read`](super::read()) alone.
pub fn schema() -> Json {
    let mut schema = Map::new();
    schema.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    schema.insert("title".to_owned(), json!("aforo protocol"));
    schema.insert(
        "description".to_owned(),
        json!("Everything that is held fixed in a measurement, the baseline, and the sweeps that depart from it."),
    );
    describe_table(&ROOT, &mut schema);
    Json::Object(schema)
}

fn describe_table(table: &Table, schema: &mut Map<String, Json>) {
    let keys = || table.keys.iter().filter(|key| key.need != Need::Later);
    let properties: Map<String, Json> = keys().map(|key| (key.name.to_owned(), property(key))).collect();
    let required: Vec<&str> =
        keys().filter(|key| key.need == Need::Required && key.only.is_none()).map(|key| key.name).collect();
    let mut rules: Vec<Json> = keys().filter_map(|key| Some(conditional(table, key, key.only?))).collect();
    if !table.one_of.is_empty() {
        let each: Vec<Json> = table.one_of.iter().map(|name| json!({ "required": [name] })).collect();
        rules.push(json!({ "oneOf": each }));
    }
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("additionalProperties".to_owned(), json!(false));
    schema.insert("properties".to_owned(), Json::Object(properties));
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    if !rules.is_empty() {
        schema.insert("allOf".to_owned(), Json::Array(rules));
    }
}

/// A key that belongs to some values of a neighbour: required or free with those, refused with the others.
fn conditional(table: &Table, key: &Key, when: When) -> Json {
    let name = key.name;
    let applies = json!({ "properties": { when.key: { "enum": when.is } } });
    let neighbour_has_default = table.key(when.key).is_some_and(|key| matches!(key.need, Need::Default(_)));
    let then = if key.need == Need::Required { json!({ "required": [name] }) } else { json!(true) };
    let mut condition = applies;
    if !neighbour_has_default && let Some(condition) = condition.as_object_mut() {
        condition.insert("required".to_owned(), json!([when.key]));
    }
    json!({ "if": condition, "then": then, "else": { "properties": { name: false } } })
}

fn property(key: &Key) -> Json {
    let mut schema = Map::new();
    schema.insert("description".to_owned(), json!(format!("{} Allowed: {}.", key.doc, allowed(&key.kind))));
    describe(&key.kind, &mut schema);
    if let Need::Default(toml) = key.need
        && let Some(value) = default(toml)
    {
        schema.insert("default".to_owned(), value);
    }
    Json::Object(schema)
}

fn describe(kind: &Kind, schema: &mut Map<String, Json>) {
    let mut say = |name: &str, value: Json| schema.insert(name.to_owned(), value);
    match kind {
        Kind::Text { form, most } => {
            say("type", json!("string"));
            say("maxLength", json!(most));
            if let Some(pattern) = form.pattern() {
                say("pattern", json!(pattern));
            }
        }
        Kind::Word { words, .. } => {
            say("enum", json!(words));
        }
        Kind::Integer { least, most } => {
            say("type", json!("integer"));
            say("minimum", json!(least));
            say("maximum", json!(most));
        }
        Kind::Number { least, most } => {
            say("type", json!("number"));
            say("minimum", json!(least));
            say("maximum", json!(most));
        }
        Kind::Duration { .. } => {
            say("type", json!("string"));
            say("pattern", json!(duration::PATTERN));
        }
        Kind::Boolean => {
            say("type", json!("boolean"));
        }
        Kind::List { of, least, most } => {
            let mut items = Map::new();
            describe(of, &mut items);
            say("type", json!("array"));
            say("items", Json::Object(items));
            say("minItems", json!(least));
            say("maxItems", json!(most));
        }
        Kind::Free { .. } => {
            say("type", json!("object"));
        }
        Kind::Table(table) => describe_table(table, schema),
        Kind::Tables { of, most } => {
            let mut items = Map::new();
            describe_table(of, &mut items);
            say("type", json!("array"));
            say("items", Json::Object(items));
            say("maxItems", json!(most));
        }
        Kind::Named { of, most } => {
            let mut each = Map::new();
            describe_table(of, &mut each);
            say("type", json!("object"));
            say("additionalProperties", Json::Object(each));
            say("minProperties", json!(1));
            say("maxProperties", json!(most));
        }
    }
}

fn default(toml: &str) -> Option<Json> {
    let document = toml_edit::de::from_str::<Json>(&format!("value = {toml}")).ok()?;
    document.get("value").cloned()
}
