//! `aforo run`: takes a protocol's steps in the foreground.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::exit::{CliError, Exit};
use super::safe::safe;
use super::{OutputArgs, ProtocolArgs, RunArgs, ask, log, progress};
use crate::protocol::{Frozen, read};
use crate::results::{export, row, step, table};
use crate::run::event::RunEnd;
use crate::run::gate::Gate;
use crate::run::runner::{Ended, Prepare, Runner};

/// Whether a run asks between its steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gates {
    /// It goes from step to step.
    Open,
    /// It waits for a decision after each.
    Ask,
}

pub(super) fn execute(args: RunArgs) -> Result<Exit, CliError> {
    let gates = if args.auto { Gates::Open } else { Gates::Ask };
    if gates == Gates::Ask && !std::io::stdin().is_terminal() {
        let text = "a run waits for a decision after each step, and there is no terminal to ask on: add --auto";
        return Err(CliError::WrongUse(text.to_owned()));
    }
    take(args.protocol, &args.output, gates)
}

/// Takes a run from its protocol file to its final table.
pub(super) fn take(protocol: ProtocolArgs, output: &OutputArgs, gates: Gates) -> Result<Exit, CliError> {
    let frozen = read_protocol(&protocol)?;
    show_cautions(&frozen);
    let runner = Prepare::new(frozen)?.open(&output.runs)?;
    log::to_file(&runner.folder().log())?;
    say(&format!("run folder: {}", runner.folder().path().display()));
    let ended = runtime()?.block_on(follow(runner, gates))?;
    finish(&ended, output.json)
}

async fn follow(mut runner: Runner, gates: Gates) -> Result<Ended, CliError> {
    stop_on_signals(runner.stopper()).map_err(CliError::failed)?;
    let gate = match gates {
        Gates::Open => Gate::Open,
        Gates::Ask => Gate::Asks(ask::decisions()),
    };
    let shown = runner.view().map(|view| tokio::spawn(progress::show(view)));
    let ended = runner.run(gate).await;
    if let Some(shown) = shown
        && let Err(error) = shown.await
    {
        tracing::error!(%error, "the progress lines ended early");
    }
    Ok(ended?)
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

/// Writes the results and prints them.
fn finish(ended: &Ended, json: bool) -> Result<Exit, CliError> {
    let rows = row::rows(&ended.state);
    let steps = step::summaries(&ended.state, &rows);
    let folder = crate::run::folder::RunFolder::open(&ended.folder);
    let csv = export::csv(&rows).map_err(CliError::failed)?;
    folder.write("results.csv", &csv).map_err(CliError::failed)?;
    if json {
        print(&format!("{:#}\n", export::json(&ended.state, &rows, &steps)));
    } else {
        print(&safe(&table::text(&ended.state, &rows, &steps, width())));
    }
    say(&format!("kept in {}", ended.folder.display()));
    let met = rows.iter().any(|row| row.quality_met == Some(true));
    Ok(match ended.state.end {
        Some(RunEnd::Stopped) => Exit::Stopped,
        _ if met => Exit::Done,
        _ => Exit::QualityNotMet,
    })
}

/// The runtime for everything but the load, which has a thread of its own.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, CliError> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(CliError::failed)
}

pub(super) fn read_protocol(args: &ProtocolArgs) -> Result<Frozen, CliError> {
    Ok(read(&args.protocol, &args.overrides)?)
}

pub(super) fn show_cautions(frozen: &Frozen) {
    for caution in &frozen.cautions {
        say(&caution.to_string());
    }
}

/// A line for the person. A terminal that is gone is no reason to end a measurement.
pub(super) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", safe(line));
}

/// Text for whoever reads standard output; a reader that is gone (`| head`) is no error.
pub(super) fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Columns of the terminal on standard output; `None` when it is none.
fn width() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col)
}
