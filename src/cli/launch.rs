//! Starting a runner as a process of its own, which outlives this one and its terminal.

use std::io::{BufRead as _, BufReader, Error, ErrorKind};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, ExitStatus, Stdio};

use serde::{Deserialize, Serialize};

use super::exit::CliError;
use crate::run::folder::{RunFolder, append_to};
use crate::run::prepare::HalfMeasured;

/// The only line that a runner prints for whoever started it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Handshake {
    /// It has the folder and listens.
    Ready,
    /// It cannot begin.
    Failed {
        /// What the person should know.
        text: String,
        /// Whether they have to change what was asked.
        wrong_use: bool,
    },
}

/// What a runner is started with.
#[derive(Debug, Clone)]
pub(super) struct Launch {
    pub(super) folder: RunFolder,
    pub(super) auto: bool,
    pub(super) half_measured: Option<(HalfMeasured, String)>,
}

/// A runner that was started, and may not be ready yet.
#[derive(Debug)]
pub(super) struct Launched {
    said: ChildStdout,
    log: PathBuf,
}

impl Launch {
    /// Starts a runner. From here on it goes its own way: no key of this terminal reaches it.
    pub(super) fn start(&self) -> Result<Launched, CliError> {
        loop {
            let (status, launched) = self.spawn()?;
            if status.success() {
                return Ok(launched);
            }
            // Ctrl-C in the moment before it had a group of its own: whoever leaves wants the run to go on.
            if status.signal() != Some(rustix::process::Signal::INT.as_raw()) {
                let said = last_words(&launched.log);
                return Err(CliError::Failed(color_eyre::eyre::eyre!(
                    "the runner could not be started ({status}): {said}"
                )));
            }
        }
    }

    /// Starts what starts the runner, and waits until it did.
    fn spawn(&self) -> Result<(ExitStatus, Launched), CliError> {
        let log = self.folder.log();
        let log_file = append_to(&log).map_err(CliError::failed)?;
        let mut command = Command::new(std::env::current_exe().map_err(CliError::failed)?);
        command.arg("runner").arg(std::path::absolute(self.folder.path()).map_err(CliError::failed)?);
        if self.auto {
            command.arg("--auto");
        }
        if let Some((what, reason)) = &self.half_measured {
            command.arg(match what {
                HalfMeasured::Complete => "--complete",
                HalfMeasured::Repeat => "--repeat",
            });
            command.arg("--reason").arg(reason);
        }
        // A group of its own, so that Ctrl-C is not for it; its session begins in `runner`.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log_file).process_group(0);
        let mut started = command.spawn().map_err(CliError::failed)?;
        let said = started.stdout.take();
        let status = started.wait().map_err(CliError::failed)?;
        let said = said.ok_or_else(|| CliError::failed(Error::from(ErrorKind::BrokenPipe)))?;
        Ok((status, Launched { said, log }))
    }
}

impl Launched {
    /// Waits until the runner listens.
    pub(super) fn ready(self) -> Result<(), CliError> {
        let mut line = String::new();
        BufReader::new(self.said).read_line(&mut line).map_err(CliError::failed)?;
        match serde_json::from_str(&line) {
            Ok(Handshake::Ready) => Ok(()),
            Ok(Handshake::Failed { text, wrong_use: true }) => Err(CliError::WrongUse(text)),
            Ok(Handshake::Failed { text, wrong_use: false }) => {
                Err(CliError::Failed(color_eyre::eyre::eyre!(text)))
            }
            Err(_) => Err(CliError::Failed(color_eyre::eyre::eyre!(
                "the runner ended before it was ready: {}",
                last_words(&self.log)
            ))),
        }
    }
}

/// The last line of a runner's log. The log itself may go with the folder of a run that did not begin.
fn last_words(log: &Path) -> String {
    let said = std::fs::read_to_string(log).unwrap_or_default();
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    last.map_or_else(|| "it said nothing".to_owned(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_are_the_last_line_that_says_something() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("aforo.log");
        assert_eq!(last_words(&log), "it said nothing");
        std::fs::write(&log, "first\nkilled by x\n\n").unwrap();
        assert_eq!(last_words(&log), "killed by x");
    }
}
