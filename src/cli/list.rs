//! `aforo list`: the runs of a folder and how they stand.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::exit::{CliError, Exit};
use super::print::print;
use super::{ListArgs, foreground};
use crate::run::control::{ConnectError, Viewer};
use crate::run::event::PassEnd;
use crate::run::folder::RunFolder;
use crate::run::lock::is_held;
use crate::run::standing::{FoundRun, Standing, run_folders};
use crate::run::state::State;
use crate::terminal::safe::{json_safe, safe};

pub(super) fn execute(args: &ListArgs) -> Result<Exit, CliError> {
    let folders = match run_folders(&args.runs) {
        Ok(folders) => folders,
        // No run was ever taken here.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(CliError::WrongUse(format!("{}: {error}", args.runs.display()))),
    };
    let runs: Vec<_> = folders.iter().map(|path| (path, look(path))).collect();
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

/// A run, and what its runner says that its journal cannot say.
struct Listed {
    run: FoundRun,
    trouble: Option<String>,
}

fn look(path: &Path) -> Result<Listed, CliError> {
    let run = FoundRun::look(path).map_err(CliError::failed)?;
    let trouble = if run.standing.is_live() { trouble(path)? } else { None };
    Ok(Listed { run, trouble })
}

/// What keeps a runner that lives from going on.
fn trouble(path: &Path) -> Result<Option<String>, CliError> {
    let viewer = foreground::runtime()?.block_on(Viewer::connect(path));
    Ok(match viewer {
        Ok(viewer) => viewer.hello().trouble.clone(),
        Err(ConnectError::NotRunning) if !is_held(&RunFolder::open(path)) => None,
        Err(ConnectError::NotRunning) => Some("its socket was removed".to_owned()),
        Err(error) => Some(error.to_string()),
    })
}

type Looked<'p> = (&'p PathBuf, Result<Listed, CliError>);

fn text(runs: &[Looked<'_>]) -> String {
    let name = |path: &std::path::Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let wide = runs.iter().map(|(path, _)| name(path).chars().count()).max().unwrap_or_default();
    let lines = runs.iter().map(|(path, run)| {
        let name = name(path);
        match run {
            Ok(Listed { run, trouble }) => {
                let (taken, planned) = passes(&run.state);
                let why = match (&run.standing, trouble) {
                    (_, Some(trouble)) => format!(" · PAUSED: {trouble}"),
                    (Standing::AtGate(cause), None) => format!(" · {cause}"),
                    (Standing::Failed(why), None) => format!(" · {why}"),
                    _ => String::new(),
                };
                format!("{name:wide$}  {:11}  {taken} of {planned} passes{why}\n", run.standing.word())
            }
            Err(error) => format!("{name:wide$}  unreadable   {}\n", error.said()),
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

fn json_of(path: &Path, run: &Result<Listed, CliError>) -> serde_json::Value {
    match run {
        Ok(Listed { run, trouble }) => {
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
                "trouble": trouble,
                "simulated": run.state.simulated(),
            })
        }
        Err(error) => json!({ "path": path, "state": "unreadable", "why": error.said() }),
    }
}
