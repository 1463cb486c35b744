//! What had to be set right before an output could be read.

use serde::{Deserialize, Serialize};

/// One kind of departure from what was asked. An output with any of them counts as repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Repair {
    /// A block of reasoning stood before the answer.
    Think,
    /// A code fence around the object.
    Fence,
    /// Tags or special tokens around the object.
    Tags,
    /// Other text around the object.
    Prose,
    /// The same object more than once.
    Repeated,
    /// A comma before a closing brace or bracket.
    TrailingComma,
    /// Strings in single quotes.
    SingleQuotes,
    /// Strings in typographic quotes.
    CurlyQuotes,
    /// `//`, `/* */` or `#` comments.
    Comments,
    /// `{{ … }}`, as in a prompt template.
    DoubledBraces,
    /// The last brace is missing and nothing else is.
    MissingCloser,
    /// A backslash before a character that JSON does not escape.
    BadEscape,
    /// A line break or another control character inside a string.
    RawControl,
    /// `True`, `False` or `None`.
    PythonLiteral,
    /// The fields are one object further down.
    Wrapped,
    /// An array that holds the one object.
    ArrayOfOne,
    /// An object written as the text of a string.
    DoubleEncoded,
}

/// The repairs of one output, each once, in the order in which they were met.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Repairs(Vec<Repair>);

impl Repairs {
    pub(super) fn add(&mut self, repair: Repair) {
        if !self.0.contains(&repair) {
            self.0.push(repair);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn into_vec(self) -> Vec<Repair> {
        self.0
    }

    pub(super) fn extend(&mut self, others: Self) {
        others.0.into_iter().for_each(|repair| self.add(repair));
    }
}

impl From<Vec<Repair>> for Repairs {
    fn from(repairs: Vec<Repair>) -> Self {
        Self(repairs)
    }
}
