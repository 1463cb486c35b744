//! `results.csv` while a run goes on: a pass that ended is in it, whatever becomes of the run.

use std::sync::PoisonError;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::exit::CliError;
use crate::results::{export, row};
use crate::run::event::Event;
use crate::run::folder::RunFolder;
use crate::run::runner::View;
use crate::run::state::State;

/// Writes `results.csv` after each pass and at the end, and hands each line on to the next viewer.
pub(super) fn results_of(folder: RunFolder, view: View) -> (View, JoinHandle<()>) {
    let View { mut lines, state, live, trouble } = view;
    let (handed_on, next) = mpsc::unbounded_channel();
    let next = View { lines: next, state: state.clone(), live, trouble };
    let kept = tokio::spawn(async move {
        while let Some(line) = lines.recv().await {
            if matches!(line.event, Event::PassEnded { .. } | Event::RunEnded { .. }) {
                let now = state.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let folder = folder.clone();
                // Aside: the disk may take its time.
                match tokio::task::spawn_blocking(move || results(&folder, &now)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::error!(%error, "results.csv is not up to date"),
                    Err(error) => tracing::error!(%error, "results.csv is not up to date"),
                }
            }
            // The next viewer may have gone.
            let _ = handed_on.send(line);
        }
    });
    (next, kept)
}

/// Writes the rows of a state, replacing the file as a whole.
pub(super) fn results(folder: &RunFolder, state: &State) -> Result<(), CliError> {
    let csv = export::csv(&row::rows(state)).map_err(CliError::failed)?;
    folder.write("results.csv", &csv).map_err(CliError::failed)
}
