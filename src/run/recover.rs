//! What a runner that ended in the middle left behind, made fit to be continued.
//!
//! A text is on the disk before its line, and both are written in the same order. So what a crash leaves is the end
//! of a text without a line, and perhaps the end of a line: neither happened. Only a disk that lost what it had
//! acknowledged, or another program, leaves a line without a text.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::PathBuf;

use serde::Deserialize;

use super::event::PassId;
use super::folder::{FolderError, RunFolder, cut};
use super::journal::{self, Extent, JournalError};
use super::state::State;
use crate::measure::RequestRecord;

/// Documents that a fault names.
const NAMED: usize = 5;

/// What is in a run folder.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recovered {
    /// The fold of its journal; the default when the runner ended before its first line.
    pub state: State,
    /// Bytes of the journal, all of them complete lines.
    pub bytes: u64,
    /// What is recorded and not there any more: one sentence per pass, without those that the journal has as cautions.
    pub faults: Vec<String>,
}

/// A run folder cannot be continued. It is as it was.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Another file of the run folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// More was recorded than its journal tells: cutting off what it does not tell would destroy a run.
    #[error("{}: it does not say what the run is, but more was recorded; nothing was changed: put the run's own journal back", .0.display())]
    NoBeginning(PathBuf),
}

/// Brings a run folder to where its journal ends: what never happened is cut off, so that lines can be appended.
///
/// Only for whoever holds the folder's [lock](super::lock::RunLock). A second time changes nothing.
pub fn recover(folder: &RunFolder) -> Result<Recovered, RecoverError> {
    let path = folder.journal();
    let mut state = State::default();
    let extent = match journal::each(&path, |line| state.take(line)) {
        Err(JournalError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Extent::default()
        }
        read => read?,
    };
    let mut texts = Vec::new();
    for (id, requests) in passes(folder, &state)? {
        texts.push(Texts::compare(folder, id, requests)?);
    }
    // Everything was looked at before anything is changed.
    if state.started.is_none() && (extent.lines > 0 || texts.iter().any(|texts| texts.length > 0)) {
        return Err(RecoverError::NoBeginning(path));
    }
    if extent.torn {
        cut(&path, extent.bytes)?;
    }
    for texts in texts.iter().filter(|texts| texts.length > texts.happened) {
        cut(&texts.path, texts.happened)?;
    }
    let faults = texts.iter().filter_map(Texts::fault);
    let faults = faults.filter(|fault| !state.cautions.contains(fault)).collect();
    Ok(Recovered { bytes: extent.bytes, faults, state })
}

/// Passes of the journal with their measured requests, then those of which there are only texts.
fn passes<'s>(
    folder: &RunFolder,
    state: &'s State,
) -> Result<Vec<(PassId, &'s [RequestRecord])>, FolderError> {
    let mut passes = Vec::new();
    for (step, taken) in state.steps.iter().enumerate() {
        let of_step = taken.passes.iter();
        passes.extend(of_step.map(|pass| (PassId { step, pass: pass.number }, pass.requests.as_slice())));
    }
    let strangers = folder.passes_with_outputs()?.into_iter().filter(|id| state.pass(*id).is_none());
    passes.extend(strangers.map(|id| (id, &[][..])));
    Ok(passes)
}

/// The texts of a pass, beside its lines.
struct Texts {
    id: PassId,
    path: PathBuf,
    /// Length of the file; 0 when there is none.
    length: u64,
    /// Bytes up to the end of the last text that has a line.
    happened: u64,
    /// Documents of lines without a text, in the order of the journal.
    missing: Vec<String>,
}

/// All that has to be known of a text.
#[derive(Deserialize)]
struct Name {
    document: String,
}

impl Texts {
    /// A document that was asked again has several lines: they are told apart by their order, which is the same in both
    /// files.
    fn compare(folder: &RunFolder, id: PassId, requests: &[RequestRecord]) -> Result<Self, FolderError> {
        let path = folder.outputs(id);
        let fail = |source| FolderError { path: path.clone(), source };
        let mut without: VecDeque<_> = requests.iter().map(|request| request.document.as_str()).collect();
        let (mut length, mut happened, mut missing) = (0, 0, Vec::new());
        let mut file = match File::open(&path) {
            Ok(file) => Some(BufReader::new(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(fail(error)),
        };
        let mut line = Vec::new();
        while let Some(file) = &mut file
            && file.read_until(b'\n', &mut line).map_err(fail)? > 0
        {
            length += line.len() as u64;
            if let Some(place) = line.ends_with(b"\n").then(|| place_in(&without, &line)).flatten() {
                happened = length;
                missing.extend(without.drain(..place).map(str::to_owned));
                without.pop_front();
            }
            line.clear();
        }
        missing.extend(without.into_iter().map(str::to_owned));
        Ok(Self { id, path, length, happened, missing })
    }

    fn fault(&self) -> Option<String> {
        let names = self.missing.get(..NAMED.min(self.missing.len())).filter(|names| !names.is_empty())?;
        let more = match self.missing.len() - names.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!(
            "step {} pass {}: {} recorded requests have no text in {}: {}{more}",
            self.id.step + 1,
            self.id.pass,
            self.missing.len(),
            self.path.file_name().unwrap_or_default().to_string_lossy(),
            names.join(", ")
        ))
    }
}

/// Place of the line that a text belongs to, among those that have none yet.
fn place_in(without: &VecDeque<&str>, text: &[u8]) -> Option<usize> {
    let Name { document } = serde_json::from_slice(text).ok()?;
    without.iter().position(|without| *without == document)
}
