//! Whether a run that is left to itself has begun: a person who goes away should know.

use std::path::Path;
use std::time::Duration;

use tokio::time::timeout;

use super::exit::CliError;
use super::foreground;
use crate::run::cause::{CutCause, GateCause};
use crate::run::control::{ConnectError, Message, Viewer};
use crate::run::event::Event;
use crate::run::standing::{FoundRun, Standing};

/// Longest time that somebody waits to hear it. An engine that answers at all answers the probe within it, mostly.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// What a run does that was just launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begun {
    /// The engine answers, and a pass goes on or went well.
    Measuring,
    /// It waits for a decision.
    Waiting,
    /// It is not known yet whether there is an engine.
    NotYet,
}

/// Waits until it is clear whether the run can go on; an error when it has failed. `from` is the first line of its
/// journal that its runner writes, and `is_decided` says that what becomes of a half-measured pass was.
pub(super) fn wait(run_folder: &Path, from: u64, is_decided: bool) -> Result<Begun, CliError> {
    let heard = foreground::runtime()?.block_on(async {
        let hearing = timeout(LONGEST_WAIT, hear(run_folder, from, is_decided));
        hearing.await.unwrap_or(Ok(Some(Begun::NotYet)))
    });
    match heard {
        Ok(Some(begun)) => Ok(begun),
        // Over already.
        Ok(None) | Err(ConnectError::NotRunning) => {
            match FoundRun::look(run_folder).map_err(CliError::failed)?.standing {
                Standing::Failed(why) => Err(CliError::Failed(color_eyre::eyre::eyre!(why))),
                _ => Ok(Begun::Measuring),
            }
        }
        Err(error) => Err(CliError::failed(error)),
    }
}

/// The first news of the runner; `None` when it ends before.
async fn hear(run_folder: &Path, from: u64, mut is_decided: bool) -> Result<Option<Begun>, ConnectError> {
    let (mut events, _) = Viewer::connect(run_folder).await?.follow(from).await?;
    while let Some(message) = events.next().await {
        let Message::Line(line) = message? else { continue };
        match line.event {
            Event::PassStarted { .. } | Event::PassContinued { .. } => return Ok(Some(Begun::Measuring)),
            // A rule closes it.
            Event::GateOpened { cause: GateCause::Cut(CutCause::Disk { .. }), .. } => {}
            Event::GateOpened { .. } if is_decided => is_decided = false,
            Event::GateOpened { .. } => return Ok(Some(Begun::Waiting)),
            _ => {}
        }
    }
    Ok(None)
}
