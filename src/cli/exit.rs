//! How a command ends.

use std::process::ExitCode;

use color_eyre::eyre::Report;

use super::print::say;
use crate::run::error::RunError;

/// How a command that did its work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done,
    /// Done, but no step met the quality threshold.
    QualityNotMet,
    /// Stopped or interrupted; what was recorded is kept.
    Stopped,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::QualityNotMet => 3,
            Exit::Stopped => 4,
        })
    }
}

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The person has to change what was asked: the arguments, the protocol, the corpus.
    #[error("{0}")]
    WrongUse(String),
    /// Something outside failed.
    #[error("{0}")]
    Failed(Report),
}

impl CliError {
    /// A failure with its cause.
    pub fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Failed(Report::new(error))
    }

    /// Tells the person, each cause on a line of its own.
    pub fn show(&self) {
        match self {
            Self::WrongUse(text) => say(text),
            Self::Failed(report) => {
                say(&format!("aforo: {report}"));
                for cause in causes(report) {
                    say(&format!("  because: {cause}"));
                }
            }
        }
    }

    /// The message as one text.
    pub(super) fn said(&self) -> String {
        match self {
            Self::WrongUse(text) => text.clone(),
            Self::Failed(report) => {
                std::iter::once(report.to_string()).chain(causes(report)).collect::<Vec<_>>().join(": ")
            }
        }
    }

    /// The status that the process ends with.
    pub fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::WrongUse(_) => 2,
            Self::Failed(_) => 1,
        })
    }
}

/// The causes of a failure that its messages do not hold already, as many do.
fn causes(report: &Report) -> Vec<String> {
    let mut said = report.to_string();
    let mut causes = Vec::new();
    for cause in report.chain().skip(1).map(ToString::to_string) {
        if !said.contains(&cause) {
            causes.push(cause.clone());
        }
        said = cause;
    }
    causes
}

impl From<RunError> for CliError {
    fn from(error: RunError) -> Self {
        if error.is_wrong_use() { Self::WrongUse(error.to_string()) } else { Self::failed(error) }
    }
}
