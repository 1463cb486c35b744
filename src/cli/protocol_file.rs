//! Reading a protocol for a command, with every mistake as editors recognise them.

use std::path::Path;

use super::exit::CliError;
use super::print::say;
use crate::protocol::{Frozen, Override, Problem, ReadError, read};

/// Reads and checks a protocol. Every mistake is said with its file, line and column.
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
