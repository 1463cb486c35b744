//! A viewer's side.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot};

use super::place::Pointer;
use super::wire::{Answered, Ask, Hello, Live, Request, Said, VERSION};
use crate::run::decision::Decision;
use crate::run::desk::Answer;
use crate::run::event::Line;

/// Messages that wait for a viewer that is busy. When there are more, the connection is not read, and the runner keeps
/// them where they are: in the journal.
const WAITING: usize = 256;

/// A run cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No runner has it now.
    #[error("no runner has this run now")]
    NotRunning,
    /// The runner is of a later version.
    #[error("the runner speaks version {found} of the control lines, this aforo up to {}: use its aforo", VERSION.major)]
    Newer {
        /// Its major version.
        found: u32,
    },
    /// The connection.
    #[error("the connection to the runner at {}: {source}", socket.display())]
    System {
        /// Path of its socket.
        socket: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The runner lets nobody in.
    #[error("the runner refuses: {0}")]
    Refused(String),
    /// What came is no line of a runner.
    #[error("the runner sent something else than its lines: {0}")]
    Garbled(String),
}

/// A connection to a runner, before anything was asked.
#[derive(Debug)]
pub struct Viewer {
    hello: Hello,
    socket: PathBuf,
    reading: BufReader<OwnedReadHalf>,
    writing: OwnedWriteHalf,
}

/// What a runner tells.
#[derive(Debug)]
pub enum Message {
    /// A line of the journal.
    Line(Box<Line>),
    /// What is not in the journal.
    Live(Live),
}

/// Everything that a runner tells, in order.
#[derive(Debug)]
pub struct Events {
    messages: mpsc::Receiver<Result<Message, ConnectError>>,
}

/// Hands decisions to a runner. An answer comes over the same connection as the events, so it comes only while these are
/// taken.
#[derive(Debug, Clone)]
pub struct Remote {
    writing: Arc<AsyncMutex<OwnedWriteHalf>>,
    waiting: Waiting,
    next_id: Arc<AtomicU64>,
}

/// Who waits for which answer; `None` once the connection is closed.
type Waiting = Arc<Mutex<Option<HashMap<u64, oneshot::Sender<Answer>>>>>;

impl Viewer {
    /// Connects to the runner that has a run.
    pub async fn connect(run: &Path) -> Result<Self, ConnectError> {
        let Pointer { socket, .. } = Pointer::read(run).ok_or(ConnectError::NotRunning)?;
        let stream = match UnixStream::connect(&socket).await {
            Ok(stream) => stream,
            // A runner that was killed leaves its socket behind.
            Err(error) if is_nobody(&error) => return Err(ConnectError::NotRunning),
            Err(source) => return Err(ConnectError::System { socket, source }),
        };
        let (reading, writing) = stream.into_split();
        let mut reading = BufReader::new(reading);
        let mut bytes = Vec::new();
        reading
            .read_until(b'\n', &mut bytes)
            .await
            .map_err(|source| ConnectError::System { socket: socket.clone(), source })?;
        match serde_json::from_slice(&bytes) {
            Ok(Said::Hello(hello)) if hello.control.major > VERSION.major => {
                Err(ConnectError::Newer { found: hello.control.major })
            }
            Ok(Said::Hello(hello)) => Ok(Self { hello, socket, reading, writing }),
            Ok(Said::Answer(Answered { result: Answer::Refused { why }, .. })) => {
                Err(ConnectError::Refused(why))
            }
            // It ended between the connection and its first line.
            Err(_) if bytes.is_empty() => Err(ConnectError::NotRunning),
            Ok(_) => Err(ConnectError::Garbled("no greeting".to_owned())),
            Err(error) => Err(ConnectError::Garbled(error.to_string())),
        }
    }

    /// What the runner says of itself.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Asks for the journal's lines from this one on. Asks for a runtime around it.
    pub async fn follow(self, from: u64) -> Result<(Events, Remote), ConnectError> {
        let Self { socket, reading, mut writing, .. } = self;
        send(&mut writing, &Request { id: 0, ask: Ask::Follow { from } })
            .await
            .map_err(|source| ConnectError::System { socket: socket.clone(), source })?;
        let waiting: Waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        let (told, messages) = mpsc::channel(WAITING);
        tokio::spawn(hear(reading, socket, told, Arc::clone(&waiting)));
        let remote = Remote {
            writing: Arc::new(AsyncMutex::new(writing)),
            waiting,
            next_id: Arc::new(AtomicU64::new(1)),
        };
        Ok((Events { messages }, remote))
    }
}

impl Events {
    /// What comes next; `None` when the runner has closed the connection. Nothing is lost when this is dropped before.
    pub async fn next(&mut self) -> Option<Result<Message, ConnectError>> {
        self.messages.recv().await
    }
}

impl Remote {
    /// Hands a decision over and waits for its answer.
    pub async fn decide(&self, decision: Decision) -> Answer {
        let gone = || Answer::Refused { why: "the runner has gone".to_owned() };
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        match self.waiting.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(waiting) => waiting.insert(id, answer),
            None => return gone(),
        };
        let request = Request { id, ask: Ask::Decide(decision) };
        if send(&mut *self.writing.lock().await, &request).await.is_err() {
            return gone();
        }
        answered.await.unwrap_or_else(|_| gone())
    }
}

async fn send(writing: &mut OwnedWriteHalf, request: &Request) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(request)?;
    bytes.push(b'\n');
    writing.write_all(&bytes).await
}

/// Reads the connection to its end and gives each line to whom it is for.
async fn hear(
    mut reading: BufReader<OwnedReadHalf>,
    socket: PathBuf,
    told: mpsc::Sender<Result<Message, ConnectError>>,
    waiting: Waiting,
) {
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        let message = match reading.read_until(b'\n', &mut bytes).await {
            // Half a line at the end is none: whoever wrote it died.
            Ok(_) if !bytes.ends_with(b"\n") => break,
            // Every line of a journal begins with its place.
            Ok(_) if bytes.starts_with(b"{\"seq\"") => serde_json::from_slice(&bytes)
                .map(|line| Message::Line(Box::new(line)))
                .map_err(|error| ConnectError::Garbled(error.to_string())),
            Ok(_) => match serde_json::from_slice(&bytes) {
                Ok(Said::Live(live)) => Ok(Message::Live(live)),
                Ok(Said::Answer(Answered { id, result })) => {
                    answer(&waiting, id, result);
                    continue;
                }
                Ok(Said::Hello(_)) => continue,
                Err(error) => Err(ConnectError::Garbled(error.to_string())),
            },
            Err(source) => Err(ConnectError::System { socket: socket.clone(), source }),
        };
        let is_last = message.is_err();
        if told.send(message).await.is_err() || is_last {
            break;
        }
    }
    // Whoever still waits learns that no answer comes.
    *waiting.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

fn answer(waiting: &Waiting, id: Option<u64>, result: Answer) {
    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(asked) = id.and_then(|id| waiting.as_mut()?.remove(&id)) {
        // Whoever asked may have stopped waiting.
        let _ = asked.send(result);
    }
}

/// Whether a runner has the run now.
pub fn is_running(run: &Path) -> bool {
    Pointer::read(run).is_some_and(|pointer| std::os::unix::net::UnixStream::connect(pointer.socket).is_ok())
}

fn is_nobody(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}
