//! `aforo runner FOLDER`: the runner's own process. It is started by `run` and `resume`, not by people.

use std::io::Write as _;

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
    // Without a controlling terminal no hang-up reaches it. It fails for the leader of a process group, which is what
    // somebody gets who starts this by hand; nothing depends on it then.
    let _ = rustix::process::setsid();
    let runtime = foreground::runtime()?;
    let _in_runtime = runtime.enter();
    let runner = match open(args) {
        Ok(runner) => runner,
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

fn open(args: &RunnerArgs) -> Result<Runner, CliError> {
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
