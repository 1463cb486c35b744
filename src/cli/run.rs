//! `aforo run`: takes a protocol's steps, in a runner of its own or in the foreground.

use std::fs;
use std::io::IsTerminal as _;

use super::attach::How;
use super::begun::{self, Begun};
use super::exit::{CliError, Exit};
use super::foreground::{self, Input};
use super::launch::Launch;
use super::print::say;
use super::protocol_file::read_protocol;
use super::{OutputArgs, ProtocolArgs, RunArgs, advice, attach};
use crate::run::folder::RunFolder;
use crate::run::lock::is_held;
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
    let launch = Launch { folder, auto, half_measured: None };
    say(&format!("run folder: {}", launch.folder.path().display()));
    if place == Place::Detached {
        let what = if auto { "it goes on by itself" } else { "it waits for a decision after each step" };
        leave(&launch, 0, what)
    } else {
        let how = How { from: attach::From::Start, lines: output.lines, json: output.json };
        attach::follow(&launch.folder, Some(&launch), how)
    }
    .inspect_err(|_| discard_unbegun(&launch.folder))
}

/// Launches a run that is left to itself, and says what it will do. `from` is the first line of its journal that is to
/// come.
pub(super) fn leave(launch: &Launch, from: u64, what: &str) -> Result<Exit, CliError> {
    launch.start()?.ready()?;
    let path = launch.folder.path();
    let what = match begun::wait(path, from, launch.half_measured.is_some())? {
        Begun::Measuring => what,
        Begun::Waiting => "it waits at a gate",
        Begun::NotYet => "it looks for its engine still",
    };
    say(&format!("{what}\n  {}   follows it and decides", advice::command("attach", path)));
    Ok(Exit::Done)
}

/// Removes the folder of a run that could not begin: nothing is recorded in it.
fn discard_unbegun(folder: &RunFolder) {
    let is_empty = match fs::metadata(folder.journal()) {
        Ok(journal) => journal.len() == 0,
        // Whatever else keeps it from being looked at, there may be something in it.
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    if is_empty
        && !is_held(folder)
        && let Err(error) = fs::remove_dir_all(folder.path())
    {
        tracing::warn!(%error, "the folder of a run that did not begin is left");
    }
}
