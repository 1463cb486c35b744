//! `aforo list`: the runs of a folder and how they stand.

use serde_json::json;

use super::ListArgs;
use super::exit::{CliError, Exit};
use super::print::print;
use super::safe::{json_safe, safe};
use crate::run::event::PassEnd;
use crate::run::journal::JournalError;
use crate::run::standing::{FoundRun, Standing, run_folders};
use crate::run::state::State;

pub(super) fn execute(args: &ListArgs) -> Result<Exit, CliError> {
    let folders = match run_folders(&args.runs) {
        Ok(folders) => folders,
        // No run was ever taken here.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(CliError::WrongUse(format!("{}: {error}", args.runs.display()))),
    };
    let runs: Vec<_> = folders.iter().map(|path| (path, FoundRun::look(path))).collect();
    if args.json {
        let listed: Vec<_> = runs.iter().map(|(path, run)| json_of(path, run)).collect();
        print(&json_safe(&format!("{:#}\n", json!(listed))))?;
    } else if runs.is_empty() {
        print(&safe(&format!("no runs in {}; `aforo demo` takes a first one\n", args.runs.display())))?;
    } else {
        print(&safe(&text(&runs)))?;
    }
    Ok(Exit::Done)
}

type Looked<'p> = (&'p std::path::PathBuf, Result<FoundRun, JournalError>);

fn text(runs: &[Looked<'_>]) -> String {
    let name = |path: &std::path::Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let wide = runs.iter().map(|(path, _)| name(path).chars().count()).max().unwrap_or_default();
    let lines = runs.iter().map(|(path, run)| {
        let name = name(path);
        match run {
            Ok(run) => {
                let (taken, planned) = passes(&run.state);
                let why = match &run.standing {
                    Standing::AtGate(cause) => format!(" · {cause}"),
                    Standing::Failed(why) => format!(" · {why}"),
                    _ => String::new(),
                };
                format!("{name:wide$}  {:11}  {taken} of {planned} passes{why}\n", run.standing.word())
            }
            Err(error) => format!("{name:wide$}  unreadable   {error}\n"),
        }
    });
    lines.collect()
}

/// Complete passes, and those that are wanted so far.
fn passes(state: &State) -> (usize, u64) {
    let steps = || state.steps.iter().filter(|step| !step.skipped);
    let complete = |step: &crate::run::state::StepState| {
        step.passes.iter().filter(|pass| pass.end == Some(PassEnd::Complete)).count()
    };
    (steps().map(complete).sum(), steps().map(|step| u64::from(step.wanted)).sum())
}

fn json_of(path: &std::path::Path, run: &Result<FoundRun, JournalError>) -> serde_json::Value {
    match run {
        Ok(run) => {
            let (taken, planned) = passes(&run.state);
            json!({
                "path": path,
                "run": run.folder.name(),
                "protocol": run.state.started.as_ref().map(|started| &started.protocol),
                "state": run.standing.word(),
                "began": run.began,
                "passes_complete": taken,
                "passes_planned": planned,
                "gate": match &run.standing {
                    Standing::AtGate(cause) => Some(cause.to_string()),
                    _ => None,
                },
                "why": match &run.standing {
                    Standing::Failed(why) => Some(why),
                    _ => None,
                },
                "simulated": run.state.simulated(),
            })
        }
        Err(error) => json!({ "path": path, "state": "unreadable", "why": error.to_string() }),
    }
}
