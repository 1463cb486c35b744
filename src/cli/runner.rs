//! `aforo runner FOLDER`: the runner's own process. It is started by `run` and `resume`, not by people.

use std::io::Write as _;
use std::process::Command;

use tracing_appender::non_blocking::WorkerGuard;

use super::RunnerArgs;
use super::exit::{CliError, Exit};
use super::foreground::{self, Followed, Input};
use super::keep;
use super::launch::Handshake;
use super::protocol_file::read_protocol;
use crate::results::{row, step, step::StepSummary};
use crate::run::event::RunEnd;
use crate::run::folder::{RunFolder, append_to};
use crate::run::prepare::Prepare;
use crate::run::runner::Runner;

pub(super) fn execute(args: &RunnerArgs) -> Result<Exit, CliError> {
    // Without a controlling terminal no hang-up reaches it.
    if rustix::process::setsid().is_err() {
        return again();
    }
    let runtime = foreground::runtime()?;
    let _in_runtime = runtime.enter();
    let (runner, _log) = match open(args) {
        Ok(opened) => opened,
        Err(error) => {
            let wrong_use = matches!(error, CliError::WrongUse(_));
            shake_hands(&Handshake::Failed { text: error.said(), wrong_use });
            return Err(error);
        }
    };
    let folder = runner.folder().clone();
    shake_hands(&Handshake::Ready);
    let log = append_to(&folder.log()).map_err(CliError::failed)?;
    // Whoever started it has heard enough, and may go.
    rustix::stdio::dup2_stdout(&log).map_err(|error| CliError::failed(std::io::Error::from(error)))?;
    let Followed { state, ended } = runtime.block_on(foreground::follow(runner, Input::None))?;
    ended?;
    keep::results(&folder, &state)?;
    let rows = row::rows(&state);
    let met = step::summaries(&state, &rows).iter().any(StepSummary::quality_met);
    Ok(match state.end {
        Some(RunEnd::Stopped) => Exit::Stopped,
        _ if met => Exit::Done,
        _ => Exit::QualityNotMet,
    })
}

/// The leader of a process group cannot begin a session; a process that it starts can.
fn again() -> Result<Exit, CliError> {
    let program = std::env::current_exe().map_err(CliError::failed)?;
    Command::new(program).args(std::env::args_os().skip(1)).spawn().map_err(CliError::failed)?;
    Ok(Exit::Done)
}

fn open(args: &RunnerArgs) -> Result<(Runner, WorkerGuard), CliError> {
    let folder = RunFolder::open(&args.folder);
    let prepared = Prepare::new(read_protocol(&folder.protocol(), &[])?)?;
    foreground::open(prepared, folder, args.manner.manner(args.auto, false))
}

fn shake_hands(handshake: &Handshake) {
    let Ok(mut line) = serde_json::to_vec(handshake) else { return };
    line.push(b'\n');
    let mut stdout = std::io::stdout().lock();
    // Whoever started it may have gone already; the run goes on.
    let _ = stdout.write_all(&line).and_then(|()| stdout.flush());
}
