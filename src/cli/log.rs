//! The log of a run: what does not belong on the screen.

use std::path::Path;

use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::EnvFilter;

use super::exit::CliError;
use crate::run::folder::append_to;

/// Writes the log to a file, until what is returned is dropped; `AFORO_LOG` says how much (default `info`).
///
/// A disk that takes nothing takes no log either. That must hold up nobody, and nobody can be told of it here: lines
/// are written by a thread of their own, and are left out when it cannot keep up.
pub(super) fn to_file(path: &Path) -> Result<WorkerGuard, CliError> {
    let file = append_to(path).map_err(CliError::failed)?;
    let filter = EnvFilter::try_from_env("AFORO_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let (lines, guard) = tracing_appender::non_blocking(file);
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(lines)
        .log_internal_errors(false)
        .try_init()
        .map_err(|error| CliError::WrongUse(error.to_string()))?;
    Ok(guard)
}
