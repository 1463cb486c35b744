//! The log of a run: what does not belong on the screen.

use std::path::Path;
use std::sync::Mutex;

use tracing_subscriber::EnvFilter;

use super::exit::CliError;
use crate::run::folder::append_to;

/// Writes the log to a file; `AFORO_LOG` says how much (default `info`).
pub(super) fn to_file(path: &Path) -> Result<(), CliError> {
    let file = append_to(path).map_err(CliError::failed)?;
    let filter = EnvFilter::try_from_env("AFORO_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(Mutex::new(file))
        .try_init()
        .map_err(|error| CliError::WrongUse(error.to_string()))
}
