//! `aforo resume`: takes a run up again where its journal ends.

use super::attach::How;
use super::exit::{CliError, Exit};
use super::foreground::{self, Input};
use super::launch::Launch;
use super::print::say;
use super::protocol_file::read_protocol;
use super::run::{Place, leave};
use super::which::{Wanted, which};
use super::{ResumeArgs, attach};
use crate::run::folder::RunFolder;
use crate::run::prepare::Prepare;
use crate::run::standing::FoundRun;

pub(super) fn execute(args: &ResumeArgs) -> Result<Exit, CliError> {
    let FoundRun { folder, state, .. } = which(args.run.as_deref(), &args.output.runs, Wanted::Resumable)?;
    let place = Place::of(&args.output);
    place.can_ask(args.auto)?;
    let unattended = args.auto && place == Place::Foreground;
    let nobody_is_asked = args.auto && place != Place::Attached;
    let decided = args.manner.half_measured().filter(|_| state.unfinished().is_some());
    if decided.is_none() && args.manner.half_measured().is_some() {
        say("no pass is half measured: --complete and --repeat change nothing");
    }
    let undecided = state.unfinished().filter(|_| decided.is_none());
    let half_measured = undecided.map(|pass| {
        let (step, pass, count) = (state.current + 1, pass.number, pass.requests.len());
        format!("step {step} pass {pass} is half measured, with {count} requests recorded")
    });
    if nobody_is_asked && let Some(pass) = half_measured {
        return Err(CliError::WrongUse(format!(
            "{pass}, and nobody will be asked: add --complete or --repeat"
        )));
    }
    let manner = args.manner.manner(args.auto, unattended);
    // What is wrong with the protocol's files is better said here than by a process without a terminal.
    let prepared = prepare(&folder)?;
    if place == Place::Foreground {
        let input = if args.auto { Input::None } else { Input::Lines };
        return foreground::take(prepared, folder, manner, input, args.output.json);
    }
    drop(prepared);
    say(&format!("run folder: {}", folder.path().display()));
    let launch = Launch { folder, auto: args.auto, half_measured: decided };
    if place == Place::Detached {
        let goes_on =
            if args.auto { "it goes on by itself" } else { "it waits for a decision after each step" };
        leave(&launch, state.next_seq, goes_on)
    } else {
        let how = How { from: attach::From::Now, lines: args.output.lines, json: args.output.json };
        attach::follow(&launch.folder, Some(&launch), how)
    }
}

/// Reads a run's protocol and corpus.
fn prepare(folder: &RunFolder) -> Result<Prepare, CliError> {
    let prepared = Prepare::new(read_protocol(&folder.protocol(), &[])?);
    prepared.map_err(|error| match CliError::from(error) {
        CliError::WrongUse(text) => {
            let protocol = folder.protocol();
            CliError::WrongUse(format!(
                "{text}\n{} names what this run was begun with: put it back there, as it was",
                protocol.display()
            ))
        }
        failed @ CliError::Failed(_) => failed,
    })
}
