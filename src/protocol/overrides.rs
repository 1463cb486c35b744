//! `--set key=value`: one value of a protocol changed before it is checked.

use super::keys::{Kind, ROOT, Table};
use super::problem::{Finding, shown};
use std::str::FromStr;
use toml_edit::{DocumentMut, Item, Key, Value};

/// One value to change, read from `key=value`: a dotted key, and a TOML value or else plain text.
#[derive(Debug, Clone)]
pub struct Override {
    path: Vec<String>,
    value: Value,
}

/// Why a text is not an [`Override`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    /// There is no `=` in it.
    #[error("{0} has no `=`; allowed: key=value, for example baseline.concurrency=2")]
    NoValue(String),
    /// What is before the `=` is not a dotted key.
    #[error("{0} is not a dotted key; allowed: key=value, for example baseline.concurrency=2")]
    NoKey(String),
}

impl FromStr for Override {
    type Err = OverrideError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (key, written) = text.split_once('=').ok_or_else(|| OverrideError::NoValue(shown(text)))?;
        let keys = Key::parse(key.trim()).map_err(|_| OverrideError::NoKey(shown(key)))?;
        let path: Vec<String> = keys.iter().map(|key| key.get().to_owned()).collect();
        let value = if takes_text(&path) && !is_quoted(written) {
            Value::from(written)
        } else {
            written.trim().parse().unwrap_or_else(|_| Value::from(written))
        };
        Ok(Self { path, value })
    }
}

impl Override {
    /// The dotted path of the key.
    pub(super) fn key(&self) -> String {
        self.path.iter().fold(String::new(), |path, name| super::place::join(&path, name))
    }

    /// Changes the value in the text's tree, keeping its comments.
    pub(super) fn apply(&self, document: &mut DocumentMut) -> Result<(), Finding> {
        // The value may be a secret in the wrong place; it is not repeated.
        put(document, &self.path, self.value.clone()).map_err(|fault| {
            Finding::value(self.key(), format!("cannot be set: {fault}"), "a key of the protocol file")
        })
    }
}

/// Whether the key takes text, so that `engine.revision=2024` needs no quotes.
fn takes_text(path: &[String]) -> bool {
    fn kind_at<'k>(table: &'k Table, path: &[String]) -> Option<&'k Kind> {
        let (name, rest) = path.split_first()?;
        let kind = &table.key(name)?.kind;
        match (kind, rest) {
            (kind, []) => Some(kind),
            (Kind::Table(inner), rest) => kind_at(inner, rest),
            (Kind::Tables { of, .. } | Kind::Named { of, .. }, [_, rest @ ..]) => kind_at(of, rest),
            _ => None,
        }
    }
    matches!(kind_at(&ROOT, path), Some(Kind::Text { .. } | Kind::Word { .. } | Kind::Duration { .. }))
}

fn is_quoted(written: &str) -> bool {
    written.trim().parse::<Value>().is_ok_and(|value| value.is_str())
}

/// Puts a value at a path, adding the tables on the way that are not there.
pub(super) fn put(document: &mut DocumentMut, path: &[String], value: Value) -> Result<(), String> {
    let Some((last, parents)) = path.split_last() else {
        return Err("it has no name".to_owned());
    };
    let mut item = document.as_item_mut();
    for name in parents {
        item = below(item, name)?;
    }
    if let Some(array) = item.as_array_mut() {
        let index = last.parse::<usize>().ok().filter(|index| *index < array.len());
        let index = index.ok_or_else(|| format!("there is no element {}", shown(last)))?;
        array.replace(index, value);
        return Ok(());
    }
    let table = item.as_table_like_mut().ok_or_else(|| "it is below a value".to_owned())?;
    match table.get_mut(last).and_then(Item::as_value_mut) {
        Some(old) => {
            let decor = old.decor().clone();
            *old = value;
            *old.decor_mut() = decor;
        }
        None => {
            table.insert(last, Item::Value(value));
        }
    }
    Ok(())
}

fn below<'i>(item: &'i mut Item, name: &str) -> Result<&'i mut Item, String> {
    if item.is_array_of_tables() || item.is_array() {
        let index: usize =
            name.parse().map_err(|_| format!("{} is not a position in a list", shown(name)))?;
        return item.get_mut(index).ok_or_else(|| format!("there is no element {index}"));
    }
    let inline = item.is_inline_table();
    let table = item.as_table_like_mut().ok_or_else(|| format!("there is a value above {}", shown(name)))?;
    let empty = || if inline { toml_edit::value(toml_edit::InlineTable::new()) } else { toml_edit::table() };
    Ok(table.entry(name).or_insert_with(empty))
}
