//! `aforo run`: takes a protocol's steps, in a runner of its own or in the foreground.

use std::io::IsTerminal as _;

use super::exit::{CliError, Exit};
use super::foreground::{self, Input};
use super::print::say;
use super::protocol_file::read_protocol;
use super::{OutputArgs, ProtocolArgs, RunArgs, attach, launch};
use crate::run::prepare::{Manner, Prepare};

/// Where a run is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In this process.
    Foreground,
    /// In a process of its own, which this one follows.
    Attached,
    /// In a process of its own, and this one ends.
    Detached,
}

impl Place {
    /// What the arguments and the terminal say.
    pub(super) fn of(output: &OutputArgs) -> Self {
        let has_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        match (output.detach, output.headless || !has_terminal) {
            (true, _) => Self::Detached,
            (false, true) => Self::Foreground,
            (false, false) => Self::Attached,
        }
    }

    /// A run that would wait for decisions which nobody can give is refused.
    pub(super) fn can_ask(self, auto: bool) -> Result<(), CliError> {
        if self == Self::Foreground && !auto && !std::io::stdin().is_terminal() {
            let text = "a run waits for a decision after each step, and there is no terminal to ask on: \
                add --auto, or --detach to decide later with `aforo attach`";
            return Err(CliError::WrongUse(text.to_owned()));
        }
        Ok(())
    }
}

pub(super) fn execute(args: &RunArgs) -> Result<Exit, CliError> {
    Place::of(&args.output).can_ask(args.auto)?;
    take(&args.protocol, &args.output, args.auto)
}

/// Takes a run from its protocol file to its final table, or to where it goes on alone.
pub(super) fn take(protocol: &ProtocolArgs, output: &OutputArgs, auto: bool) -> Result<Exit, CliError> {
    let prepared = Prepare::new(read_protocol(&protocol.protocol, &protocol.overrides)?)?;
    let folder = prepared.create(&output.runs)?;
    let place = Place::of(output);
    if place == Place::Foreground {
        let manner = Manner { auto, unattended: auto, ..Manner::default() };
        let input = if auto { Input::None } else { Input::Lines };
        return foreground::take(prepared, folder, manner, input, output.json);
    }
    launch::launch(&folder, auto, None)?;
    say(&format!("run folder: {}", folder.path().display()));
    match place {
        Place::Detached => {
            say(&format!("it goes on by itself; `aforo attach {}` shows it", folder.path().display()));
            Ok(Exit::Done)
        }
        _ => attach::follow(&folder, attach::From::Start, output.json),
    }
}
