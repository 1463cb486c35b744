//! What is wrong with a corpus: file, line, what.

use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};

/// One mistake in a corpus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// The file, or the folder.
    pub file: PathBuf,
    /// Line, from 1; `None` when the mistake is not on one line.
    pub line: Option<u64>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}", self.message)
    }
}

/// Every mistake in a corpus, the first [`CorpusErrors::MOST`] of them told apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
pub struct CorpusErrors {
    /// At least one.
    pub refusals: Vec<Refusal>,
    /// How many more there are.
    pub more: usize,
}

impl CorpusErrors {
    /// Most mistakes that are told apart.
    pub const MOST: usize = 50;
}

impl fmt::Display for CorpusErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.refusals.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))?;
        if self.more > 0 {
            write!(f, "\n{} more are not listed", self.more)?;
        }
        Ok(())
    }
}

/// Mistakes found so far.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    refusals: Vec<Refusal>,
    more: usize,
}

impl Refusals {
    pub(super) fn add(&mut self, file: &Path, line: Option<u64>, message: impl Into<String>) {
        if self.refusals.len() == CorpusErrors::MOST {
            self.more += 1;
        } else {
            self.refusals.push(Refusal { file: file.to_owned(), line, message: message.into() });
        }
    }

    /// The value, unless a mistake was found.
    pub(super) fn finish<T>(self, value: T) -> Result<T, CorpusErrors> {
        let Self { refusals, more } = self;
        if refusals.is_empty() { Ok(value) } else { Err(CorpusErrors { refusals, more }) }
    }
}
