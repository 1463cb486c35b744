//! Takes viewers in and lets them go.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::geteuid;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use super::conversation::Conversation;
use super::place::{Files, Listener};
use super::wire::{Answered, Said, line_of};
use crate::run::desk::Desk;
use crate::run::recorder::Committed;
use crate::run::runner::LiveSource;

/// Viewers that may follow at the same time.
pub(super) const FOLLOWERS: usize = 32;

/// Connections at the same time: those that follow, and some that hand in a decision.
const CONNECTIONS: usize = 48;

/// Longest time that viewers get to read what is left when the run is over.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Time until another connection is tried after one could not be taken, for want of a file descriptor.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// What a viewer can see and reach.
pub struct Sources {
    /// The journal's path.
    pub journal: PathBuf,
    /// How much of the journal may be read.
    pub committed: watch::Receiver<Committed>,
    /// What keeps the journal from growing, as a sentence.
    pub trouble: watch::Receiver<Option<String>>,
    /// Counts of the running phase.
    pub live: LiveSource,
    /// Where decisions go.
    pub desk: Desk,
    /// Name of the run folder.
    pub run: String,
}

/// Serves viewers until it is [finished](Server::finish) or dropped; then the socket and `runner.json` are gone.
#[derive(Debug)]
pub struct Server {
    closing: watch::Sender<bool>,
    door: JoinHandle<()>,
    _files: Files,
}

impl Server {
    /// Begins to serve, in the runtime that it is called in.
    pub fn start(listener: Listener, sources: Sources) -> io::Result<Self> {
        let Listener { socket, files } = listener;
        let socket = UnixListener::from_std(socket)?;
        let (closing, closed) = watch::channel(false);
        let places = Arc::new(Semaphore::new(FOLLOWERS));
        let door = Door { socket, sources: Arc::new(sources), places, closed };
        Ok(Self { closing, door: tokio::spawn(door.run()), _files: files })
    }

    /// Sends what is left of the journal to those who read, for at most two seconds, and closes.
    pub async fn finish(mut self) {
        self.closing.send_replace(true);
        if let Err(error) = (&mut self.door).await {
            tracing::error!(%error, "viewers were not served to the end");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.door.abort();
    }
}

/// Where viewers come in.
struct Door {
    socket: UnixListener,
    sources: Arc<Sources>,
    /// Room for those who follow.
    places: Arc<Semaphore>,
    closed: watch::Receiver<bool>,
}

impl Door {
    async fn run(mut self) {
        let mut conversations = JoinSet::new();
        loop {
            tokio::select! {
                () = over(&mut self.closed) => break,
                Some(ended) = conversations.join_next() => {
                    if let Err(error) = ended {
                        tracing::error!(%error, "a viewer was not served to the end");
                    }
                }
                taken = self.socket.accept() => match taken {
                    Ok((stream, _)) => self.admit(stream, &mut conversations),
                    Err(error) => {
                        tracing::warn!(%error, "a viewer could not be taken");
                        sleep(AFTER_FAILURE).await;
                    }
                },
            }
        }
        let all = async { while conversations.join_next().await.is_some() {} };
        if timeout(LAST_WORDS, all).await.is_err() {
            tracing::info!("a viewer did not read to the end");
        }
        conversations.shutdown().await;
    }

    fn admit(&self, stream: UnixStream, conversations: &mut JoinSet<()>) {
        while conversations.try_join_next().is_some() {}
        match peer(&stream) {
            Err(why) => turn_away(&stream, &why),
            Ok(()) if conversations.len() >= CONNECTIONS => {
                turn_away(&stream, &format!("{CONNECTIONS} connections are open already: close a viewer"));
            }
            Ok(()) => {
                let sources = Arc::clone(&self.sources);
                let places = Arc::clone(&self.places);
                let conversation = Conversation::new(stream, sources, places, self.closed.clone());
                conversations.spawn(conversation.run());
            }
        }
    }
}

/// Waits until the server closes.
pub(super) async fn over(closed: &mut watch::Receiver<bool>) {
    // Without a sender it is over, too.
    let _ = closed.wait_for(|closed| *closed).await;
}

/// Whether the user at the other end may decide about this run. The folder keeps others out already; this holds
/// even when somebody opened it.
fn peer(stream: &UnixStream) -> Result<(), String> {
    let (peer, me) = match stream.peer_cred() {
        Ok(peer) => (peer.uid(), geteuid().as_raw()),
        Err(error) => return Err(format!("it is unknown who you are: {error}")),
    };
    if peer == me || peer == 0 {
        Ok(())
    } else {
        Err(format!("this run belongs to user {me}, not to you ({peer})"))
    }
}

/// One line, if it can be said at once.
fn turn_away(stream: &UnixStream, why: &str) {
    tracing::info!(why, "a viewer was turned away");
    let said = line_of(&Said::Answer(Answered::refused(None, why)));
    if let Ok(line) = said
        && let Err(error) = stream.try_write(&line)
    {
        tracing::debug!(%error, "it was not told why");
    }
}
