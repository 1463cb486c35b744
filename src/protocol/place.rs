//! Where things are in the text of a protocol: offsets of keys and values, lines and columns.

use super::problem::{Finding, Problem};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The dotted path of a key below another, quoted where TOML asks for it.
pub(super) fn join(path: &str, name: &str) -> String {
    let bare =
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    let name = if bare { name.to_owned() } else { format!("\"{}\"", name.escape_debug()) };
    if path.is_empty() { name } else { format!("{path}.{name}") }
}

/// Lines and columns of a text.
#[derive(Debug)]
pub(super) struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, starts }
    }

    /// Line and column, both from 1, the column in characters. An offset inside a character is that character's.
    pub(super) fn position(&self, offset: usize) -> (usize, usize) {
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts.get(line.saturating_sub(1)).copied().unwrap_or(0);
        let column = self.text.get(start..).map_or(0, |rest| {
            rest.char_indices().take_while(|(at, c)| start + at + c.len_utf8() <= offset).count()
        });
        (line, column + 1)
    }
}

/// The offsets of every key and value, by dotted path.
#[derive(Debug, Default)]
pub(super) struct Places {
    offsets: HashMap<String, (usize, usize)>,
    tables: HashSet<String>,
}

impl Places {
    pub(super) fn of(root: &DeTable<'_>) -> Self {
        let mut places = Self::default();
        places.table("", root);
        places
    }

    fn table(&mut self, path: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            self.value(join(path, name.get_ref()), &name.span(), value);
        }
    }

    fn value(&mut self, path: String, key: &Range<usize>, value: &Spanned<DeValue<'_>>) {
        match value.get_ref() {
            DeValue::Table(table) => self.table(&path, table),
            DeValue::Array(array) => {
                for (index, element) in array.iter().enumerate() {
                    self.value(join(&path, &index.to_string()), &element.span(), element);
                }
            }
            _ => {}
        }
        // The span of a table that has a header is its header; the key's place is the more useful one.
        let at_value = if value.get_ref().is_table() {
            self.tables.insert(path.clone());
            key.start
        } else {
            value.span().start
        };
        self.offsets.insert(path, (key.start, at_value));
    }

    /// Whether the text has the key with a value that is not a table.
    pub(super) fn holds_value(&self, key: &str) -> bool {
        self.offsets.contains_key(key) && !self.tables.contains(key)
    }

    /// The place of a finding: its key or value, else the nearest table around it that is in the text.
    fn offset(&self, key: &str, at_key: bool) -> usize {
        let mut path = key;
        loop {
            if let Some((key_at, value_at)) = self.offsets.get(path) {
                return if at_key { *key_at } else { *value_at };
            }
            match path.rfind('.') {
                Some(dot) => path = &path[..dot],
                None => return 0,
            }
        }
    }

    /// The finding as a problem of this text. `set` are the paths whose values come from `--set`.
    pub(super) fn problem(&self, finding: Finding, lines: &Lines<'_>, set: &[String]) -> Problem {
        let from_set = set.iter().any(|path| {
            finding
                .key
                .strip_prefix(path.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        });
        let (line, column) =
            if from_set { (0, 0) } else { lines.position(self.offset(&finding.key, finding.at_key)) };
        let Finding { severity, key, at_key: _, message, allowed, nearest } = finding;
        Problem { severity, line, column, key, message, allowed, nearest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_characters() {
        let lines = Lines::of("a = 1\nñandú = \"x\"\n");
        assert_eq!(lines.position(0), (1, 1));
        assert_eq!(lines.position(6), (2, 1));
        assert_eq!(lines.position(8), (2, 2));
        assert_eq!(lines.position(7), (2, 1));
        assert_eq!(lines.position(999), (3, 1));
    }
}
