//! A viewer's end of the control socket.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use super::lines::{LineError, Lines};
use super::place::Runner;
use super::wire::{Answered, Asked, CONTROL, Heard, Hello, Live, Outcome, Request, line_of};
use crate::run::decision::Decision;
use crate::run::desk::Answer;
use crate::run::event::{Line, Schema};

/// Longest line that is taken from a runner, in bytes: far more than any event has.
const LONGEST_LINE: usize = 16 * 1024 * 1024;

/// Longest time that a runner gets to say who it is.
const HELLO: Duration = Duration::from_secs(5);

/// The only request of a connection has this id.
const ONLY: u64 = 1;

/// A viewer cannot attach, or not go on.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// There is no runner: the run is over, or was cut off.
    #[error("no runner is there: the run is over, or was cut off")]
    NotRunning,
    /// The runner is of a later version of aforo.
    #[error("the runner speaks version {found} of the control protocol; this aforo speaks versions up to {}: use the aforo that started the run", CONTROL.major)]
    Newer {
        /// Its major version.
        found: u32,
    },
    /// The runner said no.
    #[error("the runner refuses: {why}")]
    Refused {
        /// Why, as a sentence for the person.
        why: String,
    },
    /// A runner is there and says nothing: it is stopped, or its machine is too busy.
    #[error("the runner (process {pid}) does not answer: it may be stopped")]
    Silent {
        /// Its process id.
        pid: u32,
    },
    /// The system refused.
    #[error("{}: {source}", path.display())]
    System {
        /// `runner.json`, or the socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The runner said something that makes no sense.
    #[error("the runner said what this aforo does not understand: {0}")]
    Garbled(String),
}

impl From<serde_json::Error> for ConnectError {
    fn from(error: serde_json::Error) -> Self {
        Self::Garbled(error.to_string())
    }
}

/// Connected to a runner.
#[derive(Debug)]
pub struct Viewer {
    wire: Wire,
    hello: Hello,
}

impl Viewer {
    /// Connects to the runner of a run, wherever it was started from.
    pub async fn connect(run_folder: &Path) -> Result<Self, ConnectError> {
        let runner = Runner::read(run_folder).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => ConnectError::NotRunning,
            _ => ConnectError::System { path: Runner::path(run_folder), source },
        })?;
        let (wire, hello) = Wire::open(runner.socket, runner.pid).await?;
        Ok(Self { wire, hello })
    }

    /// What the runner said first.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Hands decisions in without following.
    pub fn remote(&self) -> Remote {
        Remote { socket: self.wire.path.clone(), pid: self.hello.pid }
    }

    /// Follows the journal from this line on; one that is still to come is waited for.
    pub async fn follow(self, from: u64) -> Result<(Events, Remote), ConnectError> {
        let remote = self.remote();
        let Self { mut wire, .. } = self;
        match wire.ask(Asked::Follow { from }).await? {
            Outcome::Refused { why } => Err(ConnectError::Refused { why }),
            Outcome::Accepted => Ok((Events(wire), remote)),
        }
    }
}

/// What a viewer hears.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// The next line of the journal.
    Line(Box<Line>),
    /// What is not stored.
    Live(Live),
}

/// What comes from a runner. While nobody asks for the next message nothing is read: the runner waits with the rest.
#[derive(Debug)]
pub struct Events(Wire);

impl Events {
    /// The next message; `None` when the runner is gone or has said everything. Lines come each once and in order.
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<Message, ConnectError>> {
        loop {
            let line = match self.0.lines.next().await {
                Ok(line) => line?,
                Err(error) => return self.0.failure(error).map(Err),
            };
            // A line that was added in a later minor version is passed over.
            if let Some(message) = understand(&line).transpose() {
                return Some(message);
            }
        }
    }
}

fn understand(line: &[u8]) -> Result<Option<Message>, ConnectError> {
    let heard: Heard<'_> = serde_json::from_slice(line)?;
    if heard.seq.is_some() {
        return Ok(Some(Message::Line(Box::new(serde_json::from_slice(line)?))));
    }
    let look = heard.live.map(|look| serde_json::from_str(look.get())).transpose()?;
    Ok(look.map(Message::Live))
}

/// Hands decisions to a runner. Each goes over a connection of its own, so that it is answered whether or not
/// somebody reads [`Events`].
#[derive(Debug, Clone)]
pub struct Remote {
    socket: PathBuf,
    pid: u32,
}

impl Remote {
    /// Hands a decision in and waits for its answer. What was asked is done even when nobody waits any more.
    pub async fn decide(&self, decision: Decision) -> Answer {
        match self.ask(decision).await {
            Ok(outcome) => outcome.into(),
            Err(ConnectError::NotRunning) => Answer::Refused { why: "the run is over".to_owned() },
            Err(ConnectError::Refused { why }) => Answer::Refused { why },
            Err(error) => Answer::Refused { why: error.to_string() },
        }
    }

    async fn ask(&self, decision: Decision) -> Result<Outcome, ConnectError> {
        let (mut wire, hello) = Wire::open(self.socket.clone(), self.pid).await?;
        if hello.pid != self.pid {
            // Resumed meanwhile: the decision was about what this viewer saw.
            let why = "the run was resumed by another runner: attach again".to_owned();
            return Err(ConnectError::Refused { why });
        }
        wire.ask(Asked::Decide(decision)).await
    }
}

/// A connection.
#[derive(Debug)]
struct Wire {
    path: PathBuf,
    lines: Lines<OwnedReadHalf>,
    requests: OwnedWriteHalf,
}

impl Wire {
    /// Connects and hears who is there.
    async fn open(path: PathBuf, pid: u32) -> Result<(Self, Hello), ConnectError> {
        let stream = timeout(HELLO, UnixStream::connect(&path))
            .await
            .map_err(|_| ConnectError::Silent { pid })?
            .map_err(|source| match source.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => ConnectError::NotRunning,
                _ => ConnectError::System { path: path.clone(), source },
            })?;
        let (lines, requests) = stream.into_split();
        let mut wire = Self { path, lines: Lines::new(lines, LONGEST_LINE), requests };
        let hello = timeout(HELLO, wire.hello()).await.map_err(|_| ConnectError::Silent { pid })??;
        Ok((wire, hello))
    }

    async fn hello(&mut self) -> Result<Hello, ConnectError> {
        let line = self.line().await?;
        let heard: Heard<'_> = serde_json::from_slice(&line)?;
        let Some(hello) = heard.hello else {
            return Err(match answer(&heard)? {
                Some(Answered { outcome: Outcome::Refused { why }, .. }) => ConnectError::Refused { why },
                _ => ConnectError::Garbled("it did not say who it is".to_owned()),
            });
        };
        // The version is looked at before anything else is understood.
        let value: Value = serde_json::from_str(hello.get())?;
        let version = Schema::deserialize(&value["control"])?;
        if version.major > CONTROL.major {
            return Err(ConnectError::Newer { found: version.major });
        }
        Ok(Hello::deserialize(value)?)
    }

    /// Asks and waits for the answer.
    async fn ask(&mut self, asked: Asked) -> Result<Outcome, ConnectError> {
        let request = line_of(&Request { id: ONLY, asked })?;
        if let Err(error) = self.requests.write_all(&request).await {
            // Who was turned away can still read why.
            tracing::debug!(%error, "a request was not sent");
        }
        loop {
            let line = self.line().await?;
            let answer = answer(&serde_json::from_slice(&line)?)?;
            if let Some(answered) = answer.filter(|answered| answered.id.is_none_or(|id| id == ONLY)) {
                return Ok(answered.outcome);
            }
        }
    }

    async fn line(&mut self) -> Result<bytes::Bytes, ConnectError> {
        match self.lines.next().await {
            Ok(Some(line)) => Ok(line),
            Ok(None) => Err(ConnectError::NotRunning),
            Err(error) => Err(self.failure(error).unwrap_or(ConnectError::NotRunning)),
        }
    }

    /// What a read failed by; `None` when the runner is gone, which a viewer hears of like of its end.
    fn failure(&self, error: LineError) -> Option<ConnectError> {
        match error {
            LineError::Read(error)
                if matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) =>
            {
                None
            }
            LineError::Read(source) => Some(ConnectError::System { path: self.path.clone(), source }),
            LineError::TooLong(_) => Some(ConnectError::Garbled(error.to_string())),
        }
    }
}

fn answer(heard: &Heard<'_>) -> Result<Option<Answered>, ConnectError> {
    Ok(heard.answer.map(|answer| serde_json::from_str(answer.get())).transpose()?)
}
