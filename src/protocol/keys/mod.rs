//! Every key of the protocol file, once: its kind, its bounds, its default, and one sentence about it.
//!
//! The checks of [`read`](super::read()), the JSON Schema ([`schema`](super::schema())) and completion in an editor
//! read this table. It is data; nothing in here acts.

mod file;

pub use file::ROOT;

use super::form::Form;
use std::time::Duration;

/// The largest protocol file, and the largest prompt file, in bytes.
pub const MAX_FILE: usize = 4 << 20;

/// One key of a table.
#[derive(Debug)]
pub struct Key {
    /// Its name, as written.
    pub name: &'static str,
    /// What its value is.
    pub kind: Kind,
    /// Whether it must be there.
    pub need: Need,
    /// The value of a neighbour that it belongs to, if it does not always apply.
    pub only: Option<When>,
    /// One sentence for the schema and the editor.
    pub doc: &'static str,
}

/// Whether a key must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Refused without it.
    Required,
    /// Nothing takes its place.
    Optional,
    /// This value, as TOML, takes its place.
    Default(&'static str),
    /// A known name that this version does not support.
    Later,
}

/// A condition on a neighbouring key.
#[derive(Debug, Clone, Copy)]
pub struct When {
    /// The neighbour's name.
    pub key: &'static str,
    /// The values under which the key applies.
    pub is: &'static [&'static str],
}

/// What a value is, with its bounds (all inclusive).
#[derive(Debug)]
pub enum Kind {
    /// Text of at most `most` characters.
    Text {
        /// Its form.
        form: Form,
        /// Most characters.
        most: usize,
    },
    /// One of a few words.
    Word {
        /// Those that are accepted.
        words: &'static [&'static str],
        /// Known words that this version does not support.
        later: &'static [&'static str],
    },
    /// A whole number.
    Integer {
        /// Smallest.
        least: i64,
        /// Largest.
        most: i64,
    },
    /// A number.
    Number {
        /// Smallest.
        least: f64,
        /// Largest.
        most: f64,
    },
    /// Text such as `"250us"`, `"5ms"`, `"2s"`, `"10m"`, `"6h"`.
    Duration {
        /// Shortest.
        least: Duration,
        /// Longest.
        most: Duration,
    },
    /// `true` or `false`.
    Boolean,
    /// A list of values of one kind.
    List {
        /// The kind of each.
        of: &'static Kind,
        /// Fewest.
        least: usize,
        /// Most.
        most: usize,
    },
    /// Keys and values of any kind that JSON knows, at most `most` bytes as JSON.
    Free {
        /// Most bytes.
        most: usize,
    },
    /// A table of known keys.
    Table(Table),
    /// `[[name]]`: a list of tables of known keys.
    Tables {
        /// The keys of each.
        of: Table,
        /// Most tables.
        most: usize,
    },
    /// A table whose keys are chosen by the person; each value is a table of known keys.
    Named {
        /// The keys of each.
        of: Table,
        /// Most tables.
        most: usize,
    },
}

/// The keys of a table.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// All of them, in the order in which they are listed to a person.
    pub keys: &'static [Key],
    /// Keys of which exactly one must be there; empty when there is no such choice.
    pub one_of: &'static [&'static str],
}

impl Table {
    const fn of(keys: &'static [Key]) -> Self {
        Self { keys, one_of: &[] }
    }

    /// The key of that name.
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// Names that a file may use.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.keys.iter().filter(|key| key.need != Need::Later).map(|key| key.name)
    }
}
