//! The runner's side: a task for each viewer.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::MissedTickBehavior;

use super::place::{Listener, Place};
use super::wire::{Answered, Ask, Hello, LONGEST, Live, Request, Said, VERSION};
use crate::run::desk::{Answer, Desk};
use crate::run::recorder::Committed;
use crate::run::runner::LiveSource;

/// Viewers at the same time.
const MOST_VIEWERS: usize = 32;
/// Bytes of the journal that are read at once for one viewer.
const CHUNK: usize = 64 << 10;
/// Shortest time between two live lines.
const LIVE_PERIOD: Duration = Duration::from_millis(200);
/// Time that viewers have to read the last lines of a run.
const FAREWELL: Duration = Duration::from_secs(2);
/// Requests of one viewer that are answered at the same time. It is not read from while there are more.
const ANSWERS: usize = 8;

/// What a server tells of.
#[derive(Clone)]
pub struct Sources {
    /// The run's journal.
    pub journal: PathBuf,
    /// How much of it is on the disk.
    pub committed: watch::Receiver<Committed>,
    /// Why nothing can be written right now.
    pub trouble: watch::Receiver<Option<String>>,
    /// Counts of the running phase.
    pub live: LiveSource,
    /// Where decisions go.
    pub desk: Desk,
    /// Name of the run folder.
    pub run: String,
}

/// Serves viewers until it is finished or dropped.
pub struct Server {
    over: watch::Sender<bool>,
    accepting: JoinHandle<()>,
    _place: Place,
}

impl Server {
    /// Begins to serve. Asks for a runtime around it.
    pub fn start(listener: Listener, sources: Sources) -> std::io::Result<Self> {
        let Listener { socket, place } = listener;
        let socket = UnixListener::from_std(socket)?;
        let (over, is_over) = watch::channel(false);
        let accepting = tokio::spawn(accept(socket, sources, is_over));
        Ok(Self { over, accepting, _place: place })
    }

    /// The run is over: viewers that read get what is left of the journal, then all connections are closed.
    pub async fn finish(mut self) {
        self.over.send_replace(true);
        if tokio::time::timeout(FAREWELL, &mut self.accepting).await.is_err() {
            tracing::info!("a viewer did not read the last lines; they are in the journal");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Lets viewers in until the run is over, and waits for them to have all of it. Ends them with itself.
async fn accept(socket: UnixListener, sources: Sources, mut over: watch::Receiver<bool>) {
    let mut viewers = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            _ = over.wait_for(|over| *over) => break,
            Some(_) = viewers.join_next() => continue,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a viewer could not be let in");
                // Too many open files, most likely: asking again at once would only burn time.
                tokio::time::sleep(LIVE_PERIOD).await;
                continue;
            }
        };
        if !may_enter(&stream) {
            continue;
        }
        if viewers.len() < MOST_VIEWERS {
            let (sources, over) = (sources.clone(), over.clone());
            viewers.spawn(async move {
                if let Err(error) = serve(stream, sources, over).await {
                    tracing::debug!(%error, "a viewer has gone");
                }
            });
        } else {
            let why = format!("{MOST_VIEWERS} viewers are attached already: end one of them");
            // It fits an empty socket's buffer; whoever does not read it is turned away all the same.
            let _ = stream.try_write(&line(&refused(None, why)));
        }
    }
    while viewers.join_next().await.is_some() {}
}

/// The socket's mode keeps others out; this holds where a file system does not keep modes.
fn may_enter(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0)
}

fn line(said: &Said) -> Vec<u8> {
    // A value of numbers and texts is always JSON.
    let mut bytes = serde_json::to_vec(said).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

fn refused(id: Option<u64>, why: String) -> Said {
    Said::Answer(Answered { id, result: Answer::Refused { why } })
}

/// What the reading half of a viewer tells its writing half.
enum News {
    Say(Said),
    Follow(u64),
}

async fn serve(stream: UnixStream, sources: Sources, over: watch::Receiver<bool>) -> std::io::Result<()> {
    let (reading, mut writing) = stream.into_split();
    let hello = Hello {
        control: VERSION,
        aforo: env!("CARGO_PKG_VERSION").to_owned(),
        run: sources.run.clone(),
        pid: std::process::id(),
        next_seq: sources.committed.borrow().next_seq,
    };
    writing.write_all(&line(&Said::Hello(hello))).await?;
    let (news, mut told) = mpsc::channel(ANSWERS);
    let mut writer = Writer {
        writing,
        journal: File::open(&sources.journal)?,
        place: Reached::Nothing,
        committed: sources.committed,
        trouble: sources.trouble,
        live: sources.live,
        shown: None,
        dropped: 0,
        over: over.clone(),
    };
    // The writing ends when the listening has ended and all is answered, or with the run, or when the viewer is gone.
    let (written, ()) = tokio::join!(writer.write(&mut told), listen(reading, sources.desk, news, over));
    written
}

/// Reads requests, one after the other, until the viewer ends its side or the run is over.
async fn listen(
    reading: OwnedReadHalf,
    desk: Desk,
    news: mpsc::Sender<News>,
    mut over: watch::Receiver<bool>,
) {
    let mut reading = BufReader::new(reading);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        let read = tokio::select! {
            read = read_line(&mut reading, &mut bytes) => read,
            () = news.closed() => return,
            _ = over.wait_for(|over| *over) => return,
        };
        // A viewer whose side is broken has ended it.
        if !read.unwrap_or(false) {
            return;
        }
        let (said, is_last) = if bytes.len() > LONGEST {
            (News::Say(refused(None, format!("a line holds at most {LONGEST} bytes"))), true)
        } else {
            match serde_json::from_slice::<Request>(&bytes) {
                Ok(Request { ask: Ask::Follow { from }, .. }) => (News::Follow(from), false),
                Ok(Request { ask: Ask::Decide(decision), id }) => {
                    let result = desk.decide(decision).await;
                    (News::Say(Said::Answer(Answered { id: Some(id), result })), false)
                }
                Err(error) => (News::Say(misunderstood(&bytes, &error)), false),
            }
        };
        if news.send(said).await.is_err() || is_last {
            return;
        }
    }
}

fn misunderstood(bytes: &[u8], error: &serde_json::Error) -> Said {
    let id = serde_json::from_slice::<serde_json::Value>(bytes).ok().and_then(|value| value["id"].as_u64());
    let allowed = "allowed: {\"id\":1,\"decide\":{\"choice\":\"next\",\"reason\":\"\"}} or {\"id\":1,\"follow\":{\"from\":0}}";
    refused(id, format!("not understood ({error}); {allowed}"))
}

/// Reads a line of at most [`LONGEST`] bytes, or that and one more of a longer one; false at the end.
async fn read_line(reading: &mut (impl AsyncBufRead + Unpin), bytes: &mut Vec<u8>) -> std::io::Result<bool> {
    loop {
        let available = reading.fill_buf().await?;
        if available.is_empty() {
            // Half a line at the end is none.
            return Ok(false);
        }
        let room = LONGEST + 1 - bytes.len();
        let end = memchr::memchr(b'\n', available);
        let take = end.map_or(available.len(), |at| at + 1).min(room);
        bytes.extend_from_slice(&available[..take]);
        reading.consume(take);
        if bytes.last() == Some(&b'\n') || bytes.len() > LONGEST {
            return Ok(true);
        }
    }
}

/// How far a viewer has come in the journal.
#[derive(Debug, Clone, Copy)]
enum Reached {
    /// It has not asked.
    Nothing,
    /// It wants lines from `from` on, and `seq` of them, `offset` bytes, lie before what was looked at.
    Seeking { from: u64, seq: u64, offset: u64 },
    /// It has everything before this byte.
    At(u64),
}

/// The writing half of a viewer.
struct Writer {
    writing: OwnedWriteHalf,
    journal: File,
    place: Reached,
    committed: watch::Receiver<Committed>,
    trouble: watch::Receiver<Option<String>>,
    live: LiveSource,
    /// What the last live line said.
    shown: Option<Live>,
    dropped: u64,
    over: watch::Receiver<bool>,
}

/// Why a viewer's writing half goes on.
enum Woke {
    Told(Option<News>),
    /// There is more in the journal, or nobody writes it any more.
    Committed {
        more: bool,
    },
    Tick,
    /// The run is over, or the server is gone.
    Over,
}

impl Writer {
    /// Writes until the viewer has ended its side, or has all of a run that is over.
    async fn write(&mut self, told: &mut mpsc::Receiver<News>) -> std::io::Result<()> {
        let mut ticks = tokio::time::interval(LIVE_PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.catch_up(&mut ticks).await?;
            let (follows, has_all) =
                (!matches!(self.place, Reached::Nothing), matches!(self.place, Reached::At(_)));
            let woke = tokio::select! {
                news = told.recv() => Woke::Told(news),
                changed = self.committed.changed(), if follows => Woke::Committed { more: changed.is_ok() },
                _ = ticks.tick(), if has_all => Woke::Tick,
                () = async { drop(self.over.wait_for(|over| *over).await) } => Woke::Over,
            };
            match woke {
                Woke::Told(Some(news)) => self.tell(news).await?,
                Woke::Told(None) => return Ok(()),
                Woke::Committed { more: true } => {}
                Woke::Tick => self.show_live().await?,
                Woke::Committed { more: false } | Woke::Over => break,
            }
        }
        self.catch_up(&mut ticks).await?;
        // What was asked before the end is answered: the listening ends with the run.
        while let Some(news) = told.recv().await {
            self.tell(news).await?;
        }
        self.writing.shutdown().await
    }

    async fn tell(&mut self, news: News) -> std::io::Result<()> {
        match (news, self.place) {
            (News::Say(said), _) => self.writing.write_all(&line(&said)).await,
            (News::Follow(from), Reached::Nothing) => {
                self.place = Reached::Seeking { from, seq: 0, offset: 0 };
                Ok(())
            }
            (News::Follow(_), _) => {
                let why = "this connection follows already: open another".to_owned();
                self.writing.write_all(&line(&refused(None, why))).await
            }
        }
    }

    /// Relays what the journal has got since, as far as it is on the disk.
    async fn catch_up(&mut self, ticks: &mut tokio::time::Interval) -> std::io::Result<()> {
        let mut chunk = Vec::new();
        loop {
            let offset = match self.place {
                Reached::Nothing => return Ok(()),
                Reached::Seeking { offset, .. } | Reached::At(offset) => offset,
            };
            let end = self.committed.borrow_and_update().bytes;
            let wanted = usize::try_from(end.saturating_sub(offset)).unwrap_or(CHUNK).min(CHUNK);
            if let Reached::Seeking { from, seq, offset } = self.place
                && seq == from
            {
                self.place = Reached::At(offset);
                continue;
            }
            if wanted == 0 {
                return Ok(());
            }
            chunk.resize(wanted, 0);
            self.journal.read_exact_at(&mut chunk, offset)?;
            self.place = match self.place {
                Reached::Seeking { from, seq, offset } => {
                    tokio::task::yield_now().await;
                    seek(&chunk, from, seq, offset)
                }
                Reached::Nothing | Reached::At(_) => {
                    self.relay(&chunk, ticks).await?;
                    Reached::At(offset + wanted as u64)
                }
            };
        }
    }

    async fn relay(&mut self, chunk: &[u8], ticks: &mut tokio::time::Interval) -> std::io::Result<()> {
        let writing = self.writing.write_all(chunk);
        tokio::pin!(writing);
        loop {
            tokio::select! {
                biased;
                written = &mut writing => return written,
                // A viewer that does not keep up misses live lines: they are worth nothing later.
                _ = ticks.tick() => self.dropped += 1,
            }
        }
    }

    async fn show_live(&mut self) -> std::io::Result<()> {
        let live = Live {
            at: Timestamp::now(),
            counts: (self.live)(),
            trouble: self.trouble.borrow().clone(),
            dropped: self.dropped,
        };
        // What says the same as the one before says nothing.
        let is_news = self.shown.as_ref().is_none_or(|shown| {
            (shown.counts, &shown.trouble, shown.dropped) != (live.counts, &live.trouble, live.dropped)
        });
        if is_news {
            self.writing.write_all(&line(&Said::Live(live.clone()))).await?;
            self.shown = Some(live);
        }
        Ok(())
    }
}

/// Looks in a chunk for the line that a viewer wants to begin with.
fn seek(chunk: &[u8], from: u64, seq: u64, offset: u64) -> Reached {
    let left = usize::try_from(from - seq).unwrap_or(usize::MAX);
    let (mut seq, mut end) = (seq, chunk.len());
    for at in memchr::memchr_iter(b'\n', chunk).take(left) {
        seq += 1;
        if seq == from {
            end = at + 1;
        }
    }
    Reached::Seeking { from, seq, offset: offset + end as u64 }
}
