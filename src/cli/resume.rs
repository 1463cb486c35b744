//! `aforo resume`: takes a run up again where its journal ends.

use super::exit::{CliError, Exit};
use super::foreground::{self, Input};
use super::print::say;
use super::protocol_file::read_protocol;
use super::run::Place;
use super::which::{Wanted, which};
use super::{ResumeArgs, attach, launch};
use crate::run::prepare::Prepare;
use crate::run::standing::FoundRun;

pub(super) fn execute(args: &ResumeArgs) -> Result<Exit, CliError> {
    let FoundRun { folder, state, .. } = which(args.run.as_deref(), &args.output.runs, Wanted::Resumable)?;
    let place = Place::of(&args.output);
    place.can_ask(args.auto)?;
    let unattended = args.auto && place == Place::Foreground;
    if unattended
        && args.manner.half_measured().is_none()
        && let Some(pass) = state.unfinished()
    {
        return Err(CliError::WrongUse(format!(
            "step {} pass {} is half measured, with {} requests recorded, and nobody will be asked: add --complete or \
             --repeat",
            state.current + 1,
            pass.number,
            pass.requests.len()
        )));
    }
    let manner = args.manner.manner(args.auto, unattended);
    // What is wrong with the protocol's files is better said here than by a process without a terminal.
    let prepared = Prepare::new(read_protocol(&folder.protocol(), &[])?)?;
    if place == Place::Foreground {
        let input = if args.auto { Input::None } else { Input::Lines };
        return foreground::take(prepared, folder, manner, input, args.output.json);
    }
    drop(prepared);
    launch::launch(&folder, args.auto, args.manner.half_measured().as_ref())?;
    say(&format!("run folder: {}", folder.path().display()));
    match place {
        Place::Detached => {
            say(&format!("it goes on by itself; `aforo attach {}` shows it", folder.path().display()));
            Ok(Exit::Done)
        }
        _ => attach::follow(&folder, attach::From::Now, args.output.json),
    }
}
