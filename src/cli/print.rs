//! What reaches the terminal: lines for the person on standard error, results on standard output.

use std::io::{ErrorKind, Write as _};

use super::exit::CliError;
use super::safe::safe;
use crate::run::folder::FolderError;

/// A line for the person. A terminal that is gone is no reason to end a measurement.
pub(super) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", safe(line));
}

/// Text for whoever reads standard output. A reader that is gone (`| head`) is no error; a result that could not be
/// written (a full disk) is one.
pub(super) fn print(text: &str) -> Result<(), CliError> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(source) if source.kind() != ErrorKind::BrokenPipe => {
            Err(CliError::failed(FolderError { path: "standard output".into(), source }))
        }
        _ => Ok(()),
    }
}

/// Columns of the terminal on standard output; `None` when it is none.
pub(super) fn width() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col)
}
