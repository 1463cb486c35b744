//! A run in this process: what `--headless` does, and what the runner's own process does.

use std::sync::{Arc, PoisonError};

use tracing_appender::non_blocking::WorkerGuard;

use super::exit::{CliError, Exit};
use super::print::{say, say_aside};
use super::{ask, keep, log, outcome, progress, signals};
use crate::run::error::RunError;
use crate::run::folder::RunFolder;
use crate::run::prepare::{Manner, Prepare};
use crate::run::runner::Runner;
use crate::run::state::State;

/// Whether decisions are read from this process's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    /// From its lines.
    Lines,
    /// From nowhere but the control socket.
    None,
}

/// The runtime for everything but the load, which has a thread of its own.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, CliError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(CliError::failed)
}

/// Makes the runner of a folder; from then on the folder is this process's. The log is written while the guard lives.
pub(super) fn open(
    prepared: Prepare,
    folder: RunFolder,
    manner: Manner,
) -> Result<(Runner, WorkerGuard), CliError> {
    signals::outlive_file_size_limit().map_err(CliError::failed)?;
    let log_file = folder.log();
    let runner = prepared.open(folder, manner)?;
    Ok((runner, log::to_file(&log_file)?))
}

/// Takes a run to its end in this process and shows its results.
pub(super) fn take(
    prepared: Prepare,
    folder: RunFolder,
    manner: Manner,
    input: Input,
    json: bool,
) -> Result<Exit, CliError> {
    let runtime = runtime()?;
    let _in_runtime = runtime.enter();
    let (runner, _log) = open(prepared, folder, manner)?;
    let folder = runner.folder().clone();
    say(&format!("run folder: {}", folder.path().display()));
    let Followed { state, ended } = runtime.block_on(follow(runner, input))?;
    let shown = outcome::show(&state, json);
    outcome::kept(&folder, &state);
    ended?;
    // Written again although the last pass is in it: a disk that was full by then must not go unsaid.
    keep::results(&folder, &state)?;
    shown
}

/// What is left when a run is over, well or not.
pub(super) struct Followed {
    pub(super) state: State,
    pub(super) ended: Result<(), RunError>,
}

pub(super) async fn follow(mut runner: Runner, input: Input) -> Result<Followed, CliError> {
    signals::stop_on_signals(runner.stopper()).map_err(CliError::failed)?;
    if input == Input::Lines {
        let desk = runner.desk();
        let mut asked = ask::decisions("Ctrl-C stops the run in order");
        tokio::spawn(async move {
            while let Some(decision) = asked.recv().await {
                ask::tell(desk.decide(decision).await).await;
            }
            say_aside("no more input here; `aforo attach` decides from elsewhere".to_owned()).await;
        });
    }
    let followers = runner.view().map(|view| {
        let state = Arc::clone(&view.state);
        let (view, kept) = keep::results_of(runner.folder().clone(), view);
        (state, kept, tokio::spawn(progress::show(view)))
    });
    let ended = runner.run().await;
    let mut state = ended.as_ref().map(|ended| ended.state.clone()).unwrap_or_default();
    if let Some((last, kept, shown)) = followers {
        for (what, follower) in [("results.csv", kept), ("the progress lines", shown)] {
            if let Err(error) = follower.await {
                tracing::error!(%error, "{what} ended early");
            }
        }
        if ended.is_err() {
            state.clone_from(&last.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
    Ok(Followed { state, ended: ended.map(drop) })
}
