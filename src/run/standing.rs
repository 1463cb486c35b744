//! How a run stands, seen from outside: what its journal says, and whether a runner has it now.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::cause::GateCause;
use super::event::{Event, RunEnd};
use super::folder::RunFolder;
use super::journal::{self, JournalError};
use super::lock::is_held;
use super::state::State;

/// How a run stands.
#[derive(Debug, Clone, PartialEq)]
pub enum Standing {
    /// A runner measures.
    Running,
    /// A runner waits for a decision.
    AtGate(GateCause),
    /// No runner has it, and it has no end: its runner was killed, or the machine went down.
    Interrupted,
    /// Every step was taken or decided away.
    Done,
    /// A person or a signal stopped it.
    Stopped,
    /// It could not go on.
    Failed(String),
}

impl Standing {
    /// The word used in files and on screen.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::AtGate(_) => "at a gate",
            Self::Interrupted => "interrupted",
            Self::Done => "done",
            Self::Stopped => "stopped",
            Self::Failed(_) => "failed",
        }
    }

    /// Whether a runner has it.
    pub fn is_live(&self) -> bool {
        matches!(self, Self::Running | Self::AtGate(_))
    }

    /// Whether a runner can take it up again.
    pub fn is_resumable(&self) -> bool {
        matches!(self, Self::Interrupted | Self::Stopped | Self::Failed(_))
    }
}

/// A run that was found.
#[derive(Debug)]
pub struct FoundRun {
    /// Its folder.
    pub folder: RunFolder,
    /// When its first line was written; `None` when there is none yet.
    pub began: Option<Timestamp>,
    /// The fold of its journal.
    pub state: State,
    /// How it stands.
    pub standing: Standing,
}

impl FoundRun {
    /// Looks at a run folder. A journal that is not there yet is an empty one.
    pub fn look(path: &Path) -> Result<Self, JournalError> {
        let folder = RunFolder::open(path);
        // Asked first: a run that ends meanwhile is then seen with its end.
        let live = is_held(&folder);
        let lines = match journal::read(&folder.journal()) {
            Ok(journal) => journal.lines,
            Err(JournalError::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                Vec::new()
            }
            Err(error) => return Err(error),
        };
        let began = lines.iter().find(|line| matches!(line.event, Event::RunStarted(_))).map(|line| line.at);
        let mut state = State::default();
        for line in lines {
            state.take(line);
        }
        let standing = match (&state.end, &state.gate) {
            (Some(RunEnd::Done), _) => Standing::Done,
            (Some(RunEnd::Stopped), _) => Standing::Stopped,
            (Some(RunEnd::Failed { why }), _) => Standing::Failed(why.clone()),
            (None, Some(gate)) if live => Standing::AtGate(gate.cause.clone()),
            (None, _) if live => Standing::Running,
            (None, _) => Standing::Interrupted,
        };
        Ok(Self { folder, began, state, standing })
    }
}

/// The run folders under a folder, the oldest first. Whatever else lies there is passed over.
pub fn run_folders(runs: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(runs)? {
        let path = entry?.path();
        if path.join("protocol.toml").is_file() {
            folders.push(path);
        }
    }
    // Names begin with the time.
    folders.sort();
    Ok(folders)
}
