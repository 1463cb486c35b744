//! The results of a run on standard output, and the status that they give.

use super::advice;
use super::exit::{CliError, Exit};
use super::print::{print, say, width};
use crate::results::step::StepSummary;
use crate::results::{export, row, step, table};
use crate::run::event::RunEnd;
use crate::run::folder::RunFolder;
use crate::run::state::State;
use crate::terminal::safe::{json_safe, safe};

/// Says where the run is kept, and how one that did not come to its end goes on.
pub(super) fn kept(folder: &RunFolder, state: &State) {
    say(&format!("kept in {}", folder.path().display()));
    if state.end != Some(RunEnd::Done) {
        say(&format!("  {}   goes on", advice::command("resume", folder.path())));
    }
}

/// Prints the results, if there are any, and says how the run ended.
pub(super) fn show(state: &State, json: bool) -> Result<Exit, CliError> {
    let rows = row::rows(state);
    let steps = step::summaries(state, &rows);
    if json {
        print(&json_safe(&format!("{:#}\n", export::json(state, &rows, &steps))))?;
    } else if !rows.is_empty() {
        print(&safe(&table::text(state, &rows, &steps, width())))?;
    }
    Ok(match state.end {
        Some(RunEnd::Stopped) => Exit::Stopped,
        _ if steps.iter().any(StepSummary::quality_met) => Exit::Done,
        _ => Exit::QualityNotMet,
    })
}
