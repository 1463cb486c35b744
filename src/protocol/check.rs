//! The checks that need one key at a time: unknown and missing keys, kinds, bounds, forms.

use super::duration;
use super::keys::{Key, Kind, Need, ROOT, Table, When};
use super::place::join;
use super::problem::{Finding, listed, nearest, shown};
use super::tree::{Tree, Value};
use indexmap::IndexMap;
use serde_json::{Map, Number, Value as Json};
use std::fmt::Display;
use toml::de::{DeArray, DeInteger, DeTable, DeValue};

const LATER: &str = "not supported by this version";

/// Checks every key of a file. The tree holds what passed, with the defaults filled in.
pub(super) fn check(root: &DeTable<'_>) -> (Tree, Vec<Finding>) {
    let mut checker = Checker { findings: Vec::new() };
    let tree = checker.table(&ROOT, "", root);
    (tree, checker.findings)
}

struct Checker {
    findings: Vec<Finding>,
}

impl Checker {
    fn table(&mut self, table: &Table, path: &str, found: &DeTable<'_>) -> Tree {
        let mut tree = Tree::default();
        let misspelt: Vec<String> = found
            .keys()
            .filter(|name| table.key(name.get_ref()).is_none())
            .filter_map(|name| self.unknown(table, path, name.get_ref()))
            .collect();
        for key in table.keys {
            let at = join(path, key.name);
            let given = found.get(key.name);
            if given.is_some() {
                tree.note(key.name);
            }
            let value = match (given, applies(key, &tree)) {
                (Some(_), Applies::Later) => {
                    self.findings.push(Finding::key(at, LATER, listed(table.names())));
                    None
                }
                (Some(_), Applies::No(when, actual)) => {
                    let message = format!("does not belong to {} = \"{actual}\"", when.key);
                    self.findings.push(Finding::key(at, message, condition(when)));
                    None
                }
                (Some(value), Applies::Yes | Applies::Unknown) => self.value(&key.kind, &at, value.get_ref()),
                // The misspelt key was reported; it is one mistake, not two.
                (None, Applies::Yes) if !misspelt.iter().any(|near| near == key.name) => {
                    self.absent(key, &at)
                }
                (None, _) => None,
            };
            if let Some(value) = value {
                tree.insert(key.name, value);
            }
        }
        self.exactly_one(table, path, found, &misspelt);
        tree
    }

    /// What takes the place of a key that the file does not have.
    fn absent(&mut self, key: &Key, at: &str) -> Option<Value> {
        match (key.need, &key.kind) {
            (Need::Required, _) => {
                self.findings.push(Finding::key(
                    at,
                    "missing",
                    format!("{}: {}", allowed(&key.kind), key.doc),
                ));
                None
            }
            (Need::Default(toml), kind) => {
                let value = DeValue::parse(toml).ok()?;
                self.value(kind, at, value.get_ref())
            }
            (_, Kind::Table(table)) => Some(Value::Table(self.table(table, at, &DeTable::new()))),
            _ => None,
        }
    }

    fn exactly_one(&mut self, table: &Table, path: &str, found: &DeTable<'_>, misspelt: &[String]) {
        let given = table.one_of.iter().filter(|name| found.contains_key(**name)).count();
        let allowed = || format!("exactly one of {}", listed(table.one_of.iter().copied()));
        match table.one_of.first() {
            Some(first)
                if given == 0 && !misspelt.iter().any(|near| table.one_of.contains(&near.as_str())) =>
            {
                self.findings.push(Finding::key(join(path, first), "missing", allowed()));
            }
            Some(_) if given > 1 => {
                self.findings.push(Finding::key(path, "has keys that exclude each other", allowed()));
            }
            _ => {}
        }
    }

    /// Refuses an unknown key; the nearest known one.
    fn unknown(&mut self, table: &Table, path: &str, name: &str) -> Option<String> {
        let near = nearest(name, table.names()).map(str::to_owned).or_else(|| elsewhere(&ROOT, "", name));
        let finding = Finding::key(join(path, name), "unknown key", listed(table.names()));
        self.findings.push(finding.nearest(near.clone()));
        near
    }

    fn refuse(&mut self, at: &str, message: impl Into<String>, kind: &Kind) -> Option<Value> {
        self.findings.push(Finding::value(at, message, allowed(kind)));
        None
    }

    fn value(&mut self, kind: &Kind, at: &str, found: &DeValue<'_>) -> Option<Value> {
        match (kind, found) {
            (Kind::Text { form, most }, DeValue::String(text)) => {
                if text.chars().count() > *most {
                    return self.refuse(at, "is too long", kind);
                }
                match form.fault(text) {
                    Some(fault) => self.refuse(at, fault, kind),
                    None => Some(Value::Text(text.clone().into_owned())),
                }
            }
            (Kind::Word { words, later }, DeValue::String(text)) => self.word(kind, words, later, at, text),
            (Kind::Duration { least, most }, DeValue::String(text)) => match duration::parse(text) {
                None => self.refuse(at, format!("{} is not a duration", shown(text)), kind),
                Some(value) if (*least..=*most).contains(&value) => Some(Value::Duration(value)),
                Some(_) => self.refuse(at, format!("{} is out of bounds", shown(text)), kind),
            },
            (Kind::Integer { least, most }, DeValue::Integer(number)) => match integer(number) {
                Some(value) if (*least..=*most).contains(&value) => Some(Value::Integer(value)),
                _ => self.refuse(at, out_of_bounds(number), kind),
            },
            (Kind::Number { least, most }, DeValue::Integer(_) | DeValue::Float(_)) => match number(found) {
                Some(value) if (*least..=*most).contains(&value) => Some(Value::Number(value)),
                _ => self.refuse(at, out_of_bounds(&written(found)), kind),
            },
            (Kind::Boolean, DeValue::Boolean(value)) => Some(Value::Boolean(*value)),
            (Kind::List { of, least, most }, DeValue::Array(array)) => {
                if !(*least..=*most).contains(&array.len()) {
                    return self.refuse(at, format!("has {} values", array.len()), kind);
                }
                let values = array
                    .iter()
                    .enumerate()
                    .filter_map(|(index, value)| {
                        self.value(of, &join(at, &index.to_string()), value.get_ref())
                    })
                    .collect();
                Some(Value::List(values))
            }
            (Kind::Free { most }, DeValue::Table(table)) => {
                let map = self.free_table(at, table);
                let size = serde_json::to_string(&map).map_or(usize::MAX, |text| text.len());
                if size > *most {
                    self.refuse(at, format!("has {size} bytes as JSON"), kind)
                } else {
                    Some(Value::Free(map))
                }
            }
            (Kind::Table(of), DeValue::Table(table)) => Some(Value::Table(self.table(of, at, table))),
            (Kind::Tables { of, most }, DeValue::Array(array)) => self.tables(kind, of, *most, at, array),
            (Kind::Named { of, most }, DeValue::Table(table)) => self.named(kind, of, *most, at, table),
            _ => self.refuse(at, format!("is {}", kind_of(found)), kind),
        }
    }

    fn word(&mut self, kind: &Kind, words: &[&str], later: &[&str], at: &str, text: &str) -> Option<Value> {
        if words.contains(&text) {
            return Some(Value::Text(text.to_owned()));
        }
        let finding = if later.contains(&text) {
            Finding::value(at, format!("{} is {LATER}", shown(text)), allowed(kind))
        } else {
            let near = nearest(text, words.iter().copied()).map(str::to_owned);
            Finding::value(at, format!("{} is unknown", shown(text)), allowed(kind)).nearest(near)
        };
        self.findings.push(finding);
        None
    }

    fn tables(
        &mut self,
        kind: &Kind,
        of: &Table,
        most: usize,
        at: &str,
        array: &DeArray<'_>,
    ) -> Option<Value> {
        if array.len() > most {
            return self.refuse(at, format!("has {} tables", array.len()), kind);
        }
        let mut trees = Vec::with_capacity(array.len());
        for (index, value) in array.iter().enumerate() {
            let at = join(at, &index.to_string());
            match value.get_ref() {
                DeValue::Table(table) => trees.push(self.table(of, &at, table)),
                other => {
                    self.refuse(&at, format!("is {}", kind_of(other)), kind);
                }
            }
        }
        Some(Value::Tables(trees))
    }

    fn named(
        &mut self,
        kind: &Kind,
        of: &Table,
        most: usize,
        at: &str,
        found: &DeTable<'_>,
    ) -> Option<Value> {
        if found.is_empty() || found.len() > most {
            return self.refuse(at, format!("has {} tables", found.len()), kind);
        }
        let mut trees = IndexMap::with_capacity(found.len());
        for (name, value) in found {
            let name = name.get_ref();
            let at = join(at, name);
            if name.trim().is_empty() || name.chars().count() > 128 || name.chars().any(char::is_control) {
                self.findings.push(Finding::key(
                    at,
                    "is not a usable name",
                    "1 to 128 characters, none of them a control character",
                ));
                continue;
            }
            match value.get_ref() {
                DeValue::Table(table) => {
                    trees.insert(name.clone().into_owned(), self.table(of, &at, table));
                }
                other => {
                    self.findings.push(Finding::value(
                        at,
                        format!("is {}", kind_of(other)),
                        format!("a table with {}", listed(of.names())),
                    ));
                }
            }
        }
        Some(Value::Named(trees))
    }

    fn free_table(&mut self, at: &str, table: &DeTable<'_>) -> Map<String, Json> {
        let entries = table.iter().filter_map(|(name, value)| {
            let json = self.json(&join(at, name.get_ref()), value.get_ref())?;
            Some((name.get_ref().clone().into_owned(), json))
        });
        entries.collect()
    }

    fn json(&mut self, at: &str, found: &DeValue<'_>) -> Option<Json> {
        let json = match found {
            DeValue::String(text) => Some(Json::String(text.clone().into_owned())),
            DeValue::Integer(number) => integer(number).map(Json::from),
            DeValue::Float(_) => number(found).and_then(Number::from_f64).map(Json::Number),
            DeValue::Boolean(value) => Some(Json::Bool(*value)),
            DeValue::Array(array) => {
                let elements = array.iter().enumerate();
                Some(Json::Array(
                    elements
                        .filter_map(|(i, value)| self.json(&join(at, &i.to_string()), value.get_ref()))
                        .collect(),
                ))
            }
            DeValue::Table(table) => Some(Json::Object(self.free_table(at, table))),
            DeValue::Datetime(_) => None,
        };
        if json.is_none() {
            let message = format!("is {}, which JSON does not have", kind_of(found));
            self.findings.push(Finding::value(at, message, "text, numbers, true, false, lists and tables"));
        }
        json
    }
}

/// Whether a key applies, given its neighbours.
enum Applies {
    Yes,
    /// The neighbour that decides is missing or refused.
    Unknown,
    No(When, String),
    /// Never in this version.
    Later,
}

fn applies(key: &Key, tree: &Tree) -> Applies {
    match key.only {
        _ if key.need == Need::Later => Applies::Later,
        None => Applies::Yes,
        Some(when) => match tree.text(when.key) {
            None => Applies::Unknown,
            Some(actual) if when.is.contains(&actual) => Applies::Yes,
            Some(actual) => Applies::No(when, actual.to_owned()),
        },
    }
}

fn condition(when: When) -> String {
    let words = when.is.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" or ");
    format!("only with {} = {words}", when.key)
}

/// The path of a key of that name in another table.
fn elsewhere(table: &Table, path: &str, name: &str) -> Option<String> {
    let near = |key: &&Key| key.need != Need::Later && nearest(name, [key.name]).is_some();
    if let Some(key) = table.keys.iter().find(near) {
        return Some(join(path, key.name));
    }
    table.keys.iter().find_map(|key| match &key.kind {
        Kind::Table(inner) => elsewhere(inner, &join(path, key.name), name),
        _ => None,
    })
}

fn integer(number: &DeInteger<'_>) -> Option<i64> {
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// The value of a finite number.
fn number(found: &DeValue<'_>) -> Option<f64> {
    let value = match found {
        // Past 2^53 a whole number loses digits; no bound is that large.
        DeValue::Integer(number) => integer(number)?.to_string().parse::<f64>().ok()?,
        DeValue::Float(number) => number.as_str().parse::<f64>().ok()?,
        _ => return None,
    };
    value.is_finite().then_some(value)
}

fn written(found: &DeValue<'_>) -> String {
    match found {
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        other => kind_of(other).to_owned(),
    }
}

fn out_of_bounds(number: &impl Display) -> String {
    format!("{} is out of bounds", shown(&number.to_string()))
}

fn kind_of(found: &DeValue<'_>) -> &'static str {
    match found {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// What a kind allows, as a noun phrase.
pub(super) fn allowed(kind: &Kind) -> String {
    match kind {
        Kind::Text { form, most } => format!("{} (at most {most} characters)", form.allowed()),
        Kind::Word { words, .. } => listed(words.iter().copied()),
        Kind::Integer { least, most } => format!("a whole number from {least} to {most}"),
        Kind::Number { least, most } => format!("a number from {least} to {most}"),
        Kind::Duration { least, most } => {
            let (least, most) = (duration::written(*least), duration::written(*most));
            format!("a duration from \"{least}\" to \"{most}\", with a unit us, ms, s, m or h")
        }
        Kind::Boolean => "true or false".to_owned(),
        Kind::List { of, least, most } => format!("a list of {least} to {most} values, each {}", allowed(of)),
        Kind::Free { most } => format!("a table of at most {most} bytes as JSON"),
        Kind::Table(table) => format!("a table with {}", listed(table.names())),
        Kind::Tables { of, most } => format!("at most {most} tables with {}", listed(of.names())),
        Kind::Named { of, most } => format!("1 to {most} named tables with {}", listed(of.names())),
    }
}
