//! `aforo stop`: ends a run in order, keeping all that it has.

use super::attach::unconnected;
use super::exit::{CliError, Exit};
use super::print::say;
use super::which::{Wanted, which};
use super::{StopArgs, advice, foreground};
use crate::run::control::Viewer;
use crate::run::decision::{Choice, Decision};
use crate::run::desk::Answer;
use crate::run::folder::RunFolder;
use crate::run::lock;
use crate::run::standing::{FoundRun, Standing};

pub(super) fn execute(args: &StopArgs) -> Result<Exit, CliError> {
    let folder = which(args.run.as_deref(), &args.runs, Wanted::Running)?.folder;
    let choice = if args.after_pass { Choice::StopAfterPass } else { Choice::Stop };
    let answer = foreground::runtime()?.block_on(async {
        let viewer = Viewer::connect(folder.path()).await.map_err(|error| unconnected(&folder, error))?;
        Ok::<_, CliError>(viewer.remote().decide(Decision::new(choice, args.reason.clone())).await)
    })?;
    match answer {
        Answer::Accepted if choice == Choice::Stop => say(&stopped(&folder)?),
        Answer::Accepted => say("it ends when this pass is over"),
        Answer::Refused { why } => return Err(CliError::WrongUse(format!("not stopped: {why}"))),
    }
    Ok(Exit::Done)
}

/// Waits for the runner's end, and says what it left.
fn stopped(folder: &RunFolder) -> Result<String, CliError> {
    lock::wait_until_free(folder).map_err(CliError::failed)?;
    let run = FoundRun::look(folder.path()).map_err(CliError::failed)?;
    let resume = advice::command("resume", folder.path());
    Ok(match run.standing {
        Standing::Stopped => format!("stopped\n  {resume}   goes on"),
        Standing::Done => "it was done meanwhile".to_owned(),
        Standing::Failed(why) => format!("it failed meanwhile: {why}\n  {resume}   goes on"),
        // Taken up by somebody else since.
        Standing::Running | Standing::AtGate(_) => "stopped, and resumed by somebody else".to_owned(),
        Standing::Interrupted => format!(
            "stopped; the run folder took no more lines, so that its journal does not say so; what was recorded is \
             safe\n  {resume}   goes on"
        ),
    })
}
