//! What goes on with one viewer, in one task: while it does not read, nothing of it is read either.

use std::future::ready;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::sleep;

use super::lines::{LineError, Lines};
use super::pulse::Pulse;
use super::server::{FOLLOWERS, Sources, over};
use super::tail::Tail;
use super::wire::{Answered, Asked, CONTROL, Hello, LONGEST_REQUEST, Request, Said, line_of};
use crate::run::recorder::Committed;

/// Decisions of one viewer that may wait for their answers; until one is there nothing more is read of it.
const WAITING: usize = 4;

/// Longest time that a connection may be open without asking for anything: it takes the place of others.
const LONGEST_SILENCE: Duration = Duration::from_secs(10);

/// One viewer.
pub(super) struct Conversation {
    requests: Lines<OwnedReadHalf>,
    replies: OwnedWriteHalf,
    sources: Arc<Sources>,
    places: Arc<Semaphore>,
    committed: watch::Receiver<Committed>,
    closed: watch::Receiver<bool>,
    followed: Option<Followed>,
    answers: JoinSet<Answered>,
    /// The journal grows no more.
    complete: bool,
}

struct Followed {
    tail: Tail,
    pulse: Pulse,
    _place: OwnedSemaphorePermit,
}

/// What happens next.
enum Turn {
    /// The viewer said something, or nothing more.
    Heard(Result<Option<Bytes>, LineError>),
    /// A decision has its answer.
    Answered(Result<Answered, JoinError>),
    /// There is something of the journal to be sent.
    Behind,
    /// More of the journal is there, or (false) there will be no more.
    Grown(bool),
    /// A live line may be sent.
    Tick,
    /// The viewer has asked for nothing for a while.
    Idle,
    /// The run is over.
    Close,
}

/// Whether the conversation goes on.
#[derive(PartialEq, Eq)]
enum Next {
    Listen,
    Leave,
}

impl Conversation {
    pub(super) fn new(
        stream: UnixStream,
        sources: Arc<Sources>,
        places: Arc<Semaphore>,
        closed: watch::Receiver<bool>,
    ) -> Self {
        let (requests, replies) = stream.into_split();
        Self {
            requests: Lines::new(requests, LONGEST_REQUEST),
            replies,
            committed: sources.committed.clone(),
            sources,
            places,
            closed,
            followed: None,
            answers: JoinSet::new(),
            complete: false,
        }
    }

    /// Talks until one of both leaves.
    pub(super) async fn run(mut self) {
        // Viewers leave at any moment: that is no fault.
        if let Err(error) = self.talk().await {
            tracing::debug!(%error, "a viewer is gone");
        }
    }

    async fn talk(&mut self) -> io::Result<()> {
        let hello = Hello {
            control: CONTROL,
            aforo: env!("CARGO_PKG_VERSION").to_owned(),
            run: self.sources.run.clone(),
            pid: std::process::id(),
            next_seq: self.committed().next_seq,
            trouble: self.sources.trouble.borrow().clone(),
        };
        self.say(&Said::Hello(hello)).await?;
        loop {
            let turn = self.turn().await;
            if self.take(turn).await? == Next::Leave {
                return Ok(());
            }
        }
    }

    async fn turn(&mut self) -> Turn {
        let behind = self.is_behind();
        let idle = self.followed.is_none() && self.answers.is_empty();
        let waits = self.followed.is_some() && !behind && !self.complete;
        tokio::select! {
            heard = self.requests.next(), if self.answers.len() < WAITING => Turn::Heard(heard),
            Some(answered) = self.answers.join_next() => Turn::Answered(answered),
            grown = self.committed.changed(), if waits => Turn::Grown(grown.is_ok()),
            Some(()) = tick(self.followed.as_mut()) => Turn::Tick,
            () = ready(()), if behind => Turn::Behind,
            () = sleep(LONGEST_SILENCE), if idle => Turn::Idle,
            () = over(&mut self.closed) => Turn::Close,
        }
    }

    async fn take(&mut self, turn: Turn) -> io::Result<Next> {
        match turn {
            Turn::Heard(Ok(Some(line))) => return self.hear(&line).await,
            Turn::Heard(Ok(None)) => {
                // Whoever says no more may still wait for an answer.
                self.last_answers().await?;
                return Ok(Next::Leave);
            }
            Turn::Heard(Err(LineError::TooLong(limit))) => {
                let why = format!("a request has at most {limit} bytes: this connection is closed");
                self.answer(Answered::refused(None, why)).await?;
                return Ok(Next::Leave);
            }
            Turn::Heard(Err(LineError::Read(error))) => return Err(error),
            Turn::Answered(answered) => self.answer(answered.map_err(io::Error::other)?).await?,
            Turn::Behind => self.relay().await?,
            Turn::Grown(grows) => self.complete = !grows,
            Turn::Tick => self.beat().await?,
            Turn::Idle => {
                let why = format!(
                    "nothing was asked for {} s: this connection is closed",
                    LONGEST_SILENCE.as_secs()
                );
                self.answer(Answered::refused(None, why)).await?;
                return Ok(Next::Leave);
            }
            Turn::Close => {
                while self.is_behind() {
                    self.relay().await?;
                }
                self.last_answers().await?;
                return Ok(Next::Leave);
            }
        }
        Ok(Next::Listen)
    }

    async fn hear(&mut self, line: &[u8]) -> io::Result<Next> {
        match Request::parse(line) {
            Err(refusal) => self.answer(refusal).await?,
            Ok(Request { id, asked: Asked::Decide(decision) }) => {
                let desk = self.sources.desk.clone();
                self.answers.spawn(async move {
                    Answered { id: Some(id), outcome: desk.decide(decision).await.into() }
                });
            }
            Ok(Request { id, asked: Asked::Follow { from } }) => return self.follow(id, from).await,
        }
        Ok(Next::Listen)
    }

    async fn follow(&mut self, id: u64, from: u64) -> io::Result<Next> {
        if self.followed.is_some() {
            let why = "this connection follows already: open another one";
            self.answer(Answered::refused(Some(id), why)).await?;
            return Ok(Next::Listen);
        }
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            let why = format!("{FOLLOWERS} viewers follow this run already: close one");
            self.answer(Answered::refused(Some(id), why)).await?;
            return Ok(Next::Leave);
        };
        let journal = self.sources.journal.clone();
        match Tail::open(journal, from, self.committed()).await {
            Ok(tail) => {
                self.answer(Answered::accepted(id)).await?;
                let pulse = Pulse::new(Arc::clone(&self.sources));
                self.followed = Some(Followed { tail, pulse, _place: place });
            }
            Err(error) => {
                let journal = self.sources.journal.display();
                let why = format!(
                    "{journal} cannot be read: {error}; if the run folder was moved, move it back, or end the run in \
                     order with: kill {}",
                    std::process::id()
                );
                self.answer(Answered::refused(Some(id), why)).await?;
            }
        }
        Ok(Next::Listen)
    }

    fn committed(&self) -> Committed {
        *self.committed.borrow()
    }

    fn is_behind(&self) -> bool {
        self.followed.as_ref().is_some_and(|followed| followed.tail.is_behind(self.committed()))
    }

    /// Sends what comes next of the journal, to the end of a line.
    async fn relay(&mut self) -> io::Result<()> {
        let committed = self.committed();
        while let Some(followed) = &mut self.followed {
            let piece = followed.tail.read(committed).await?;
            self.send(&piece.bytes).await?;
            if piece.ends_line {
                break;
            }
        }
        Ok(())
    }

    async fn beat(&mut self) -> io::Result<()> {
        let behind = self.is_behind();
        let Some(Followed { pulse, .. }) = &mut self.followed else { return Ok(()) };
        if behind {
            pulse.drop_one();
        } else if let Some(live) = pulse.due() {
            self.say(&Said::Live(live)).await?;
        }
        Ok(())
    }

    async fn last_answers(&mut self) -> io::Result<()> {
        while let Some(answered) = self.answers.join_next().await {
            self.answer(answered.map_err(io::Error::other)?).await?;
        }
        Ok(())
    }

    async fn answer(&mut self, answered: Answered) -> io::Result<()> {
        self.say(&Said::Answer(answered)).await
    }

    async fn say(&mut self, said: &Said) -> io::Result<()> {
        let line = line_of(said)?;
        self.send(&line).await
    }

    /// Sends at the viewer's pace. What it could have heard meanwhile is counted.
    async fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            tokio::select! {
                sent = self.replies.write(bytes) => match sent? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    sent => bytes = &bytes[sent..],
                },
                Some(()) = tick(self.followed.as_mut()) => {
                    if let Some(followed) = &mut self.followed {
                        followed.pulse.drop_one();
                    }
                }
            }
        }
        Ok(())
    }
}

/// The next tick of a viewer that follows.
async fn tick(followed: Option<&mut Followed>) -> Option<()> {
    followed?.pulse.tick().await;
    Some(())
}
