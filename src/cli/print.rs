//! What reaches the terminal: lines for the person on standard error, results on standard output.

use std::io::{ErrorKind, Write as _};

use super::exit::CliError;
use crate::run::folder::FolderError;
use crate::terminal::safe::safe;

/// A line for the person. A terminal that is gone is no reason to end a measurement.
pub(super) fn say(line: &str) {
    let width = columns(std::io::stderr()).map(usize::from);
    let _ = writeln!(std::io::stderr(), "{}", fitted(&safe(line), width));
}

/// Breaks lines between words where the terminal would break them anywhere. A line with a command to be pasted stays
/// whole.
fn fitted(text: &str, width: Option<usize>) -> String {
    let Some(width) = width else { return text.to_owned() };
    let lines = text.lines().map(|line| {
        let indent = line.len() - line.trim_start().len();
        if textwrap::core::display_width(line) <= width || line[indent..].starts_with("aforo ") {
            return line.to_owned();
        }
        let further = " ".repeat(indent + 4);
        let options = textwrap::Options::new(width)
            .initial_indent(&line[..indent])
            .subsequent_indent(&further)
            .break_words(false)
            .word_separator(textwrap::WordSeparator::AsciiSpace)
            .word_splitter(textwrap::WordSplitter::NoHyphenation);
        textwrap::fill(line.trim_start(), options)
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The same from a task. A terminal that is held (Ctrl-S), or a log on a disk that hangs, takes its time; the tasks
/// that read sockets and timers must not wait for it.
pub(super) async fn say_aside(line: String) {
    // It cannot panic, and a runtime that ends has nobody left to tell.
    let _ = tokio::task::spawn_blocking(move || say(&line)).await;
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
    columns(std::io::stdout())
}

fn columns(stream: impl std::os::fd::AsFd) -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    (size.ws_col > 0).then_some(size.ws_col)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_commands_not_at_all() {
        let command = "  aforo attach /a/long/path/of/a/run   comes back";
        let text = format!("one two three four\n{command}\n  five six seven");
        assert_eq!(fitted(&text, None), text);
        let broken = format!("one two three\n    four\n{command}\n  five six\n      seven");
        assert_eq!(fitted(&text, Some(14)), broken);
        assert_eq!(fitted("/a/path/that/is/longer", Some(10)), "/a/path/that/is/longer");
    }
}
