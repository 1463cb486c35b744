//! Which run a command means: by its path, its name, the beginning of its name, or because there is just one.

use std::fmt::Write as _;
use std::path::Path;

use super::advice;
use super::exit::CliError;
use crate::run::standing::{FoundRun, run_folders};

/// What a command can be used on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A run that a runner has.
    Running,
    /// A run that can be taken up again.
    Resumable,
}

impl Wanted {
    fn takes(self, run: &FoundRun) -> bool {
        match self {
            Self::Running => run.standing.is_live(),
            Self::Resumable => run.standing.is_resumable(),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Running => "goes on",
            Self::Resumable => "can be resumed",
        }
    }
}

/// Finds the run that is meant.
pub(super) fn which(named: Option<&str>, runs: &Path, wanted: Wanted) -> Result<FoundRun, CliError> {
    match named {
        Some(name) => one(named_run(name, runs)?, wanted),
        None => only(runs, wanted),
    }
}

/// A run by its name, if it is in the right state.
fn one(run: FoundRun, wanted: Wanted) -> Result<FoundRun, CliError> {
    if wanted.takes(&run) {
        return Ok(run);
    }
    let (name, state) = (run.folder.name(), run.standing.word());
    let typed = |verb| advice::command(verb, run.folder.path());
    let advice = match wanted {
        Wanted::Running if run.standing.is_resumable() => {
            format!("\n  {}   takes it up again", typed("resume"))
        }
        Wanted::Running => " there is nothing to follow or stop; its results are in its folder".to_owned(),
        Wanted::Resumable if run.standing.is_live() => format!("\n  {}   shows it", typed("attach")),
        Wanted::Resumable => " every step was taken: start a new run".to_owned(),
    };
    Err(CliError::WrongUse(format!("{name} is {state}:{advice}")))
}

fn named_run(name: &str, runs: &Path) -> Result<FoundRun, CliError> {
    let as_path = Path::new(name);
    for path in [as_path.to_owned(), runs.join(name)] {
        if path.join("protocol.toml").is_file() {
            return FoundRun::look(&path).map_err(CliError::failed);
        }
    }
    let folders = folders(runs)?;
    let begin_so = |path: &&std::path::PathBuf| {
        path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name))
    };
    let matching: Vec<_> = folders.iter().filter(begin_so).collect();
    match matching[..] {
        [path] => FoundRun::look(path).map_err(CliError::failed),
        [] => Err(CliError::WrongUse(format!(
            "there is no run {name} here or in {}\n  {}   shows those that there are",
            runs.display(),
            advice::list(runs)
        ))),
        _ => Err(CliError::WrongUse(listed(&format!("{name} begins the names of several runs"), &matching))),
    }
}

fn only(runs: &Path, wanted: Wanted) -> Result<FoundRun, CliError> {
    // A journal that cannot be read is not the run that is meant; `list` shows its fault.
    let mut found: Vec<_> = folders(runs)?
        .iter()
        .filter_map(|path| FoundRun::look(path).ok())
        .filter(|run| wanted.takes(run))
        .collect();
    if found.len() > 1 {
        let paths: Vec<_> = found.iter().map(|run| run.folder.path().to_owned()).collect();
        let paths: Vec<_> = paths.iter().collect();
        return Err(CliError::WrongUse(listed(&format!("more than one run {}", wanted.words()), &paths)));
    }
    found.pop().ok_or_else(|| {
        CliError::WrongUse(format!(
            "no run in {} {}; --runs names another folder\n  {}   shows those that there are",
            runs.display(),
            wanted.words(),
            advice::list(runs)
        ))
    })
}

fn folders(runs: &Path) -> Result<Vec<std::path::PathBuf>, CliError> {
    match run_folders(runs) {
        // No run was ever taken here.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(CliError::WrongUse(format!(
            "{}: {error}; --runs names the folder in which runs are kept",
            runs.display()
        ))),
        Ok(folders) => Ok(folders),
    }
}

fn listed(what: &str, paths: &[&std::path::PathBuf]) -> String {
    let mut text = format!("{what}; name one:");
    for path in paths {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {}", advice::typed(path));
    }
    text
}
