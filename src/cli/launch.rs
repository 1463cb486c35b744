//! Starting a runner as a process of its own, which outlives this one and its terminal.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

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

/// Starts a runner on a folder and waits until it listens.
pub(super) fn launch(
    folder: &RunFolder,
    auto: bool,
    half_measured: Option<&(HalfMeasured, String)>,
) -> Result<(), CliError> {
    let log = append_to(&folder.log()).map_err(CliError::failed)?;
    let mut command = Command::new(std::env::current_exe().map_err(CliError::failed)?);
    command.arg("runner").arg(std::path::absolute(folder.path()).map_err(CliError::failed)?);
    if auto {
        command.arg("--auto");
    }
    if let Some((what, reason)) = half_measured {
        command.arg(match what {
            HalfMeasured::Complete => "--complete",
            HalfMeasured::Repeat => "--repeat",
        });
        command.arg("--reason").arg(reason);
    }
    // Nothing of this terminal goes with it: the runner's own session begins in `runner`.
    let mut runner =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().map_err(CliError::failed)?;
    let mut line = String::new();
    if let Some(said) = runner.stdout.take() {
        BufReader::new(said).read_line(&mut line).map_err(CliError::failed)?;
    }
    match serde_json::from_str(&line) {
        Ok(Handshake::Ready) => Ok(()),
        Ok(Handshake::Failed { text, wrong_use: true }) => Err(CliError::WrongUse(text)),
        Ok(Handshake::Failed { text, wrong_use: false }) => {
            Err(CliError::Failed(color_eyre::eyre::eyre!(text)))
        }
        Err(_) => {
            let status = runner.wait().map_err(CliError::failed)?;
            let log = folder.log();
            Err(CliError::Failed(color_eyre::eyre::eyre!(
                "the runner ended before it was ready ({status}); its last words are in {}",
                log.display()
            )))
        }
    }
}
