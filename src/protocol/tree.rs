//! The values of a file that passed the checks of [`check`](super::check), with the defaults filled in.

use indexmap::IndexMap;
use serde_json::{Map, Value as Json};
use std::collections::HashSet;
use std::time::Duration;

/// A checked value.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Text(String),
    Integer(i64),
    Number(f64),
    Duration(Duration),
    Boolean(bool),
    List(Vec<Value>),
    Free(Map<String, Json>),
    Table(Tree),
    Tables(Vec<Tree>),
    Named(IndexMap<String, Tree>),
}

/// A checked table. A key that was refused is absent, as if the file did not have it.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree {
    values: IndexMap<&'static str, Value>,
    given: HashSet<&'static str>,
}

impl Tree {
    /// Adds a value that the file gives, or a default.
    pub(super) fn insert(&mut self, name: &'static str, value: Value) {
        self.values.insert(name, value);
    }

    /// Notes that the file has the key, whatever its value.
    pub(super) fn note(&mut self, name: &'static str) {
        self.given.insert(name);
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// Whether the file has the key, even if its value was refused.
    pub(super) fn given(&self, name: &str) -> bool {
        self.given.contains(name)
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        if let Value::Text(text) = self.get(name)? { Some(text) } else { None }
    }

    pub(super) fn owned(&self, name: &str) -> Option<String> {
        self.text(name).map(str::to_owned)
    }

    /// A whole number; the bounds of the key keep it within the type that is asked for.
    pub(super) fn integer<T: TryFrom<i64>>(&self, name: &str) -> Option<T> {
        if let Value::Integer(number) = self.get(name)? { T::try_from(*number).ok() } else { None }
    }

    pub(super) fn number(&self, name: &str) -> Option<f64> {
        if let Value::Number(number) = self.get(name)? { Some(*number) } else { None }
    }

    pub(super) fn duration(&self, name: &str) -> Option<Duration> {
        if let Value::Duration(duration) = self.get(name)? { Some(*duration) } else { None }
    }

    pub(super) fn boolean(&self, name: &str) -> Option<bool> {
        if let Value::Boolean(boolean) = self.get(name)? { Some(*boolean) } else { None }
    }

    pub(super) fn list(&self, name: &str) -> Option<&[Value]> {
        if let Value::List(list) = self.get(name)? { Some(list) } else { None }
    }

    pub(super) fn free(&self, name: &str) -> Option<&Map<String, Json>> {
        if let Value::Free(map) = self.get(name)? { Some(map) } else { None }
    }

    pub(super) fn table(&self, name: &str) -> Option<&Self> {
        if let Value::Table(table) = self.get(name)? { Some(table) } else { None }
    }

    pub(super) fn tables(&self, name: &str) -> Option<&[Self]> {
        if let Value::Tables(tables) = self.get(name)? { Some(tables) } else { None }
    }

    pub(super) fn named(&self, name: &str) -> Option<&IndexMap<String, Self>> {
        if let Value::Named(named) = self.get(name)? { Some(named) } else { None }
    }
}
