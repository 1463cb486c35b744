//! The simulated engine: a real HTTP/1.1 server on loopback that behaves like a vLLM server.
//!
//! It is what runs when there is no GPU: for a demonstration, for tests, and to measure what the client itself
//! costs. Nothing it reports says anything about a real engine.
//!
//! # Tokens
//! A prompt of *b* bytes of UTF-8 has ⌈*b* / 4⌉ tokens. A chat's prompt is, for each message, `<role>`, a line end,
//! the content, a line end. An answer is cut in pieces of at most 4 bytes that end at a character boundary; each is
//! one token. There is no token for the end of the text, except that an empty answer counts 1.
//!
//! # Answers
//! The document is the longest known text that the prompt contains; the answer is its reference as compact JSON,
//! nulls included. One number *u* in [0, 1), made of the seed and the document's text by the hash of `hash`
//! (FNV-1a finished by `SplitMix64`), decides what becomes of it: *u* below `error_rate`, an error inside the stream
//! after half of the tokens; then, for a share `broken_rate`, the first half of the JSON; then, for a share
//! `wrong_rate`, one field with another value; else the reference. So the same seed gives the same answers on any
//! machine, in any order, and a repeated document has the same fate. A prompt without a known document gets
//! meaningless words, chosen by seed and prompt, as JSON when `response_format` asks for it. `ignore_eos` continues
//! any answer to `max_tokens`.
//!
//! # Scheduler
//! One thread computes in iterations, as continuous batching does. In each:
//!
//! 1. *Growth.* A sequence that decodes needs ⌈(prompt + output so far) / 16⌉ blocks of the KV cache, which has
//!    ⌊`kv_tokens` / 16⌋. When no block is free, the sequence admitted last is preempted: its blocks are freed, it goes
//!    to the front of the queue and is later computed again, prompt and output (tokens already sent are not sent
//!    again). A sequence that is alone and finds no block ends in an out-of-memory error inside its stream. A prompt
//!    that never fits is refused with status 500 and the same text.
//! 2. *Prefill.* Prompts are processed in chunks, at most 2048 prompt tokens an iteration, over all sequences,
//!    oldest first.
//! 3. *Admission*, first come, first served, unless something was preempted in this iteration: while fewer than
//!    `slots` sequences run, prefill budget is left, and all blocks of the next prompt are free.
//! 4. *Duration* in seconds: `iteration` + `iteration_per_sequence` × (sequences that decode) + (prompt tokens
//!    processed) / `prefill_tokens_per_second`.
//! 5. At its end each sequence that decodes, or whose prompt is complete, has made one token.
//!
//! So, with an empty engine, the first token of a prompt of *p* ≤ 2048 tokens comes after
//! `iteration` + *p* / `prefill_tokens_per_second`, and *n* sequences that decode together make a token each every
//! `iteration` + *n* × `iteration_per_sequence`. Iterations follow an absolute clock: what the machine adds to one
//! (about 0.1 ms) is taken from the next. Requests that arrive during an iteration are seen at its end. With nothing
//! to do the thread waits and takes no CPU.
//!
//! # Prefix cache
//! With `prefix_cache`, each full block of a computed prompt stays known by a hash of all its bytes up to there and
//! of the request's `cache_salt`, also after its sequence has ended, until its room is needed (least recently
//! released first, a prompt's end before its start). A new prompt takes what is known of it, except its last token,
//! which is always computed. `/reset_prefix_cache` forgets everything, unless a sequence is running.
//!
//! # HTTP
//! `POST /v1/chat/completions`, `/v1/completions`, `/tokenize`, `/reset_prefix_cache`; `GET /v1/models`, `/version`,
//! `/health`, `/load`, `/metrics` (vLLM's names), and `/record` ([`StreamRecord`]s, see
//! [`SimulatedEngine::start_recording`]). The only model is `simulated`. A request can ask for a fault in its body
//! field `simulate`; `fault` has the list.

mod answer;
mod batch;
mod event;
mod fault;
mod hash;
mod histogram;
mod kv_cache;
mod metrics;
mod record;
mod refusal;
mod request;
mod scheduler;
mod server;
mod stream;
mod token;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread;

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{mpsc, oneshot};

pub use answer::Answers;
pub use record::StreamRecord;

use crate::protocol::Simulated;
use batch::{Batch, Stopping};
use metrics::{Metrics, SharedMetrics};
use record::Recorder;
use scheduler::Scheduler;
use server::Server;

/// Connections that may wait to be accepted: more than any load opens at once.
const BACKLOG: u32 = 4096;

/// Why the engine did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A parameter with which nothing could ever be answered.
    #[error("simulated engine: {0}")]
    Parameter(&'static str),
    /// The address is not free, or not this machine's.
    #[error("simulated engine: cannot listen on {address}: {source}")]
    Listen {
        /// Where it should have listened.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The system gave no thread.
    #[error("simulated engine: cannot start a thread: {0}")]
    Thread(io::Error),
}

/// A running simulated engine. Its server and its scheduler have a thread each, so that they share nothing with the
/// caller's runtime. Dropping it stops both; [`Self::stop`] also waits for that.
#[derive(Debug)]
pub struct SimulatedEngine {
    address: SocketAddr,
    recorder: Recorder,
    /// Dropping it stops the server.
    running: oneshot::Sender<()>,
    /// Ends when both threads have ended.
    alive: mpsc::Receiver<()>,
}

impl SimulatedEngine {
    /// Starts an engine that listens on `address`; port 0 takes any free one. It answers as soon as this returns.
    pub async fn start(
        config: &Simulated,
        answers: Answers,
        address: SocketAddr,
    ) -> Result<Self, StartError> {
        check(config).map_err(StartError::Parameter)?;
        let (ended, alive) = mpsc::channel(1);
        let (running, stopped) = oneshot::channel();
        let (ready, listening) = oneshot::channel();
        let stopping = Stopping::default();
        let recorder = Recorder::default();
        let metrics = SharedMetrics::new(Metrics::new(config.kv_tokens / token::BLOCK, config.prefix_cache));
        let scheduler = Scheduler::new(config, metrics.clone());
        let server = Server {
            config: config.clone(),
            answers,
            batch: Batch::start(scheduler, stopping.clone(), ended.clone()).map_err(StartError::Thread)?,
            metrics,
            recorder: recorder.clone(),
            served: AtomicU64::new(0),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(StartError::Thread)?;
        let serve = move || {
            runtime.block_on(listen(server, address, ready, stopped));
            stopping.stop();
            // Cuts the connections: `ended` must be the last to go.
            drop(runtime);
            drop(ended);
        };
        thread::Builder::new().name("simulated-http".to_owned()).spawn(serve).map_err(StartError::Thread)?;
        let bound = listening.await.unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()));
        let address = bound.map_err(|source| StartError::Listen { address, source })?;
        Ok(Self { address, recorder, running, alive })
    }

    /// Address that the server listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:PORT/v1`
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// `http://127.0.0.1:PORT/metrics`
    #[must_use]
    pub fn metrics_url(&self) -> String {
        format!("http://{}/metrics", self.address)
    }

    /// Keeps a record of the last `limit` streamed responses from now on; also read at `GET /record`.
    pub fn start_recording(&self, limit: usize) {
        self.recorder.start(limit);
    }

    /// The records kept so far, in the order in which the responses ended; empty before
    /// [`Self::start_recording`].
    #[must_use]
    pub fn records(&self) -> Vec<StreamRecord> {
        self.recorder.read().unwrap_or_default()
    }

    /// Cuts all connections and waits until both threads have ended and the port is free.
    pub async fn stop(self) {
        let Self { running, mut alive, .. } = self;
        drop(running);
        // Nothing is ever sent: this waits for the last sender to go.
        let _ = alive.recv().await;
    }
}

fn check(config: &Simulated) -> Result<(), &'static str> {
    if config.slots == 0 {
        return Err("slots must be at least 1");
    }
    if config.kv_tokens < token::BLOCK {
        return Err("kv_tokens must be at least 16, one block");
    }
    if config.prefill_tokens_per_second.is_nan() || config.prefill_tokens_per_second <= 0.0 {
        return Err("prefill_tokens_per_second must be above 0");
    }
    Ok(())
}

/// Serves until asked to stop, or until the engine's handle is gone. Says first where it listens, or why it cannot.
async fn listen(
    server: Server,
    address: SocketAddr,
    ready: oneshot::Sender<io::Result<SocketAddr>>,
    stopped: oneshot::Receiver<()>,
) {
    let bound = bind(address).and_then(|listener| Ok((listener.local_addr()?, listener)));
    let (answer, listener) = match bound {
        Ok((address, listener)) => (Ok(address), Some(listener)),
        Err(error) => (Err(error), None),
    };
    if ready.send(answer).is_ok()
        && let Some(listener) = listener
    {
        tokio::select! {
            () = server::accept(Arc::new(server), listener) => {}
            _ = stopped => {}
        }
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
