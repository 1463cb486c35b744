//! Reading a journal. Writing is the [recorder](super::recorder)'s.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::event::{Line, SCHEMA, Schema};

/// JSON Schema of a line, with what each event and field means: what `aforo schema journal` prints.
pub const SCHEMA_JSON: &str = include_str!("journal.schema.json");

/// A journal cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file itself.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A complete line that is no event: the file was changed by something else.
    #[error("{}:{line}: not a line of a journal: {why}", path.display())]
    Line {
        /// Which file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// Written by a later version of aforo.
    #[error("{}: written in version {found} of the format; this aforo reads versions up to {}: use a newer aforo", path.display(), SCHEMA.major)]
    Newer {
        /// Which file.
        path: PathBuf,
        /// Its major version.
        found: u32,
    },
}

/// The complete lines of a journal, and whether a torn last one was left out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Journal {
    /// Complete lines, in order.
    pub lines: Vec<Line>,
    /// True when the file ends in the middle of a line: its writer was interrupted.
    pub torn: bool,
}

/// What a journal's file consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// Complete lines.
    pub lines: usize,
    /// Bytes that they take.
    pub bytes: u64,
    /// True when a line without its end follows.
    pub torn: bool,
}

/// Reads a journal. A last line without its end never happened.
pub fn read(path: &Path) -> Result<Journal, JournalError> {
    let mut lines = Vec::new();
    let extent = each(path, |line| lines.push(line))?;
    Ok(Journal { lines, torn: extent.torn })
}

/// Reads a journal line by line, without keeping any.
pub fn each(path: &Path, mut take: impl FnMut(Line)) -> Result<Extent, JournalError> {
    let fail = |source| JournalError::File { path: path.to_owned(), source };
    let mut file = BufReader::new(File::open(path).map_err(fail)?);
    let (mut extent, mut bytes) = (Extent::default(), Vec::new());
    while file.read_until(b'\n', &mut bytes).map_err(fail)? > 0 {
        if !bytes.ends_with(b"\n") {
            extent.torn = true;
            break;
        }
        if extent.lines == 0 {
            check_version(path, &bytes)?;
        }
        let line = line_of(&bytes, extent.lines).map_err(|why| JournalError::Line {
            path: path.to_owned(),
            line: extent.lines + 1,
            why,
        })?;
        extent.lines += 1;
        extent.bytes += bytes.len() as u64;
        take(line);
        bytes.clear();
    }
    Ok(extent)
}

/// A line at its place: one that was taken out or put in would change every figure without a word.
fn line_of(bytes: &[u8], place: usize) -> Result<Line, String> {
    let line: Line = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if line.seq == place as u64 {
        Ok(line)
    } else {
        Err(format!("\"seq\" is {} where {place} must follow: lines are missing or out of place", line.seq))
    }
}

/// The version stands in the first line and is looked at before anything else is understood.
fn check_version(path: &Path, first: &[u8]) -> Result<(), JournalError> {
    let version = serde_json::from_slice::<Value>(first)
        .ok()
        .and_then(|line| Schema::deserialize(&line["schema"]).ok());
    match version {
        Some(version) if version.major > SCHEMA.major => {
            Err(JournalError::Newer { path: path.to_owned(), found: version.major })
        }
        _ => Ok(()),
    }
}
