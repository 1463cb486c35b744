//! `aforo run`: takes a protocol's steps in the foreground.

use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::{Arc, PoisonError};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::exit::{CliError, Exit};
use super::safe::{json_safe, safe};
use super::{OutputArgs, ProtocolArgs, RunArgs, ask, keep, log, progress};
use crate::protocol::{Frozen, Override, Problem, ReadError, read};
use crate::results::step::StepSummary;
use crate::results::{export, row, step, table};
use crate::run::error::RunError;
use crate::run::event::RunEnd;
use crate::run::folder::FolderError;
use crate::run::gate::Gate;
use crate::run::prepare::Prepare;
use crate::run::runner::Runner;
use crate::run::state::State;

/// Whether a run asks between its steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gates {
    /// It goes from step to step.
    Open,
    /// It waits for a decision after each.
    Ask,
}

pub(super) fn execute(args: &RunArgs) -> Result<Exit, CliError> {
    let gates = if args.auto { Gates::Open } else { Gates::Ask };
    if gates == Gates::Ask && !std::io::stdin().is_terminal() {
        let text =
            "a run waits for a decision after each step, and there is no terminal to ask on: add --auto";
        return Err(CliError::WrongUse(text.to_owned()));
    }
    take(&args.protocol, &args.output, gates)
}

/// Takes a run from its protocol file to its final table.
pub(super) fn take(protocol: &ProtocolArgs, output: &OutputArgs, gates: Gates) -> Result<Exit, CliError> {
    let frozen = read_protocol(&protocol.protocol, &protocol.overrides)?;
    let runtime = runtime()?;
    let _in_runtime = runtime.enter();
    outlive_file_size_limit().map_err(CliError::failed)?;
    let runner = Prepare::new(frozen)?.open(&output.runs)?;
    log::to_file(&runner.folder().log())?;
    let folder = runner.folder().clone();
    say(&format!("run folder: {}", folder.path().display()));
    let Followed { state, ended } = runtime.block_on(follow(runner, gates))?;
    let shown = show(&state, output.json);
    say(&format!("kept in {}", folder.path().display()));
    ended?;
    // Written again although the last pass is in it: a disk that was full by then must not go unsaid.
    keep::results(&folder, &state)?;
    shown
}

/// What is left when a run is over, well or not.
struct Followed {
    state: State,
    ended: Result<(), RunError>,
}

async fn follow(mut runner: Runner, gates: Gates) -> Result<Followed, CliError> {
    stop_on_signals(runner.stopper()).map_err(CliError::failed)?;
    let gate = match gates {
        Gates::Open => Gate::Open,
        Gates::Ask => Gate::Asks(ask::decisions()),
    };
    let followers = runner.view().map(|view| {
        let state = Arc::clone(&view.state);
        let (view, kept) = keep::results_of(runner.folder().clone(), view);
        (state, kept, tokio::spawn(progress::show(view)))
    });
    let ended = runner.run(gate).await;
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

/// A file-size limit (`ulimit -f`) kills whoever writes past it, unless the signal is caught; then the write fails
/// and is reported as a full disk is.
fn outlive_file_size_limit() -> std::io::Result<()> {
    signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())).map(drop)
}

/// The first SIGINT or SIGTERM stops the run in order, the second at once. A hang-up changes nothing: the
/// connection may drop, the measurement must not.
fn stop_on_signals(stop: Arc<watch::Sender<bool>>) -> std::io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hang_up.recv() => {
                    tracing::info!("the terminal is gone; the run goes on");
                    continue;
                }
            }
            if stop.send_replace(true) {
                std::process::exit(4);
            }
            say("stopping; what is in flight is cancelled (once more: at once)");
        }
    });
    Ok(())
}

/// Prints the results, if there are any, and says how the run ended.
fn show(state: &State, json: bool) -> Result<Exit, CliError> {
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

/// The runtime for everything but the load, which has a thread of its own.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, CliError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(CliError::failed)
}

/// Reads and checks a protocol. Every mistake is said with its file, line and column, as editors recognise them.
pub(super) fn read_protocol(path: &Path, overrides: &[Override]) -> Result<Frozen, CliError> {
    read(path, overrides).map_err(|error| match error {
        ReadError::Problems(problems) => CliError::WrongUse(listed(path, &problems)),
        ReadError::Unreadable { .. } => CliError::WrongUse(error.to_string()),
    })
}

/// Says what a person should know about a protocol that is accepted.
pub(super) fn show_cautions(path: &Path, frozen: &Frozen) {
    if !frozen.cautions.is_empty() {
        say(&listed(path, &frozen.cautions));
    }
}

fn listed(path: &Path, problems: &[Problem]) -> String {
    problems.iter().map(|problem| problem.at(path).to_string()).collect::<Vec<_>>().join("\n")
}

/// A line for the person. A terminal that is gone is no reason to end a measurement.
pub(super) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", safe(line));
}

/// Text for whoever reads standard output. A reader that is gone (`| head`) is no error; a result that could not be
/// written (a full disk) is one.
pub(super) fn print(text: &str) -> Result<(), CliError> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(source) if source.kind() != ErrorKind::BrokenPipe => {
            Err(CliError::failed(FolderError { path: "standard output".into(), source }))
        }
        _ => Ok(()),
    }
}

/// Columns of the terminal on standard output; `None` when it is none.
fn width() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col)
}
