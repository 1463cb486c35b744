//! A streamed response: a script that writes events, and the HTTP body that hands them to the connection.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use super::batch::Ticket;
use super::event::{self, Finish, Usage, Writer};
use super::fault::{Cut, Faults, How};
use super::record::Stamps;
use super::refusal::{CUDA_OUT_OF_MEMORY, GENERATION_FAILED};
use super::request::UsageReport;
use super::scheduler::Progress;
use super::token::Pieces;

/// The connection must end here, without an end of the response.
#[derive(Debug)]
pub(super) struct Severed;

impl fmt::Display for Severed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection is cut on purpose")
    }
}

impl Error for Severed {}

/// An event on its way, and the tokens of text in it.
struct Event {
    bytes: Bytes,
    tokens: u32,
}

/// What is answered, and how.
pub(super) struct Answering {
    pub(super) ticket: Ticket,
    pub(super) pieces: Pieces,
    /// Tokens of the answer, cut or not.
    pub(super) total: u32,
    pub(super) finish: Finish,
    /// Comes from the request or from the answer's own outcome; `faults.cut` is not read.
    pub(super) cut: Option<Cut>,
    pub(super) writer: Writer,
    pub(super) prompt_tokens: u32,
    pub(super) prefix_cache: bool,
}

impl Answering {
    /// Tokens that the client gets.
    pub(super) fn length(&self) -> u32 {
        self.cut.map_or(self.total, |cut| cut.after.min(self.total))
    }

    pub(super) fn usage(&self, completion: u32, cached: u32) -> Usage {
        Usage { prompt: self.prompt_tokens, completion, cached: self.prefix_cache.then_some(cached) }
    }
}

/// How the events are laid out.
pub(super) struct Layout {
    pub(super) tokens_per_event: u32,
    pub(super) usage: UsageReport,
    pub(super) faults: Faults,
}

struct Script {
    answering: Answering,
    layout: Layout,
    out: UnboundedSender<Event>,
    cached: u32,
}

impl Script {
    fn send(&self, bytes: Bytes, tokens: u32) {
        // The body that receives it also owns this script, so it is there.
        let _ = self.out.send(Event { bytes, tokens });
    }

    fn running_usage(&self, completion: u32) -> Option<Usage> {
        (self.layout.usage == UsageReport::WithEachEvent)
            .then(|| self.answering.usage(completion, self.cached))
    }

    fn send_role(&self) {
        if let Some(role) = self.answering.writer.role(self.running_usage(0)) {
            self.send(role, 0);
        }
    }

    fn send_content(&self, from: u32, to: u32) {
        if self.layout.faults.comments {
            self.send(event::COMMENT, 0);
        }
        let ends = to == self.answering.total
            && self.answering.finish == Finish::Length
            && self.answering.cut.is_none();
        let text = self.answering.pieces.slice(from, to);
        let finish = ends.then_some(Finish::Length);
        self.send(self.answering.writer.text(text, finish, self.running_usage(to)), to - from);
    }

    fn send_error(&self, message: &str) {
        self.send(event::error(message), 0);
        self.send(event::DONE, 0);
    }

    async fn run(mut self) -> Result<(), Severed> {
        let opened = Instant::now();
        if self.layout.faults.role_first.is_some() {
            self.send_role();
        }
        let length = self.answering.length();
        let per_event = self.layout.faults.bundle.unwrap_or(self.layout.tokens_per_event).max(1);
        let (mut sent, mut made) = (0, 0);
        while let Some(progress) = self.answering.ticket.next().await {
            match progress {
                Progress::Admitted { cached_tokens } => self.cached = cached_tokens,
                Progress::OutOfMemory => {
                    self.send_error(CUDA_OUT_OF_MEMORY);
                    return Ok(());
                }
                Progress::Token => {
                    made += 1;
                    if made == 1 {
                        match self.layout.faults.role_first {
                            Some(delay) => tokio::time::sleep_until(opened + delay).await,
                            None => self.send_role(),
                        }
                    }
                    let ready = length.min(made);
                    if ready > sent && (ready - sent >= per_event || ready == length) {
                        self.send_content(sent, ready);
                        sent = ready;
                    }
                }
            }
        }
        if sent < length {
            return sever().await;
        }
        if let Some(cut) = self.answering.cut {
            return self.cut(cut.how).await;
        }
        self.end().await;
        Ok(())
    }

    async fn cut(&self, how: How) -> Result<(), Severed> {
        match how {
            How::Error => self.send_error(GENERATION_FAILED),
            How::MemoryError => self.send_error(CUDA_OUT_OF_MEMORY),
            How::CloseClean => {}
            How::Reset => return sever().await,
            How::Stall => std::future::pending().await,
        }
        Ok(())
    }

    async fn end(&self) {
        // An empty answer still cost the token that ended it.
        let completion = self.answering.total.max(1);
        if self.answering.finish == Finish::Stop {
            self.send(self.answering.writer.text("", Some(Finish::Stop), self.running_usage(completion)), 0);
        }
        if self.layout.usage != UsageReport::Never && !self.layout.faults.no_usage {
            if !self.layout.faults.late_usage.is_zero() {
                tokio::time::sleep(self.layout.faults.late_usage).await;
            }
            self.send(self.answering.writer.usage(self.answering.usage(completion, self.cached)), 0);
        }
        if !self.layout.faults.no_done {
            self.send(event::DONE, 0);
        }
    }
}

/// Ends with [`Severed`], after the time that the connection needs to write what it already has: hyper drops it on
/// an error.
async fn sever() -> Result<(), Severed> {
    tokio::time::sleep(Duration::from_millis(2)).await;
    Err(Severed)
}

type Running = Pin<Box<dyn Future<Output = Result<(), Severed>> + Send>>;

/// The body of a streamed response.
pub(super) struct EventStream {
    /// `None` once it has ended well.
    script: Option<Running>,
    events: UnboundedReceiver<Event>,
    stamps: Stamps,
}

impl EventStream {
    /// Answers on a stream.
    pub(super) fn new(answering: Answering, layout: Layout, stamps: Stamps) -> Self {
        let (out, events) = unbounded_channel();
        let script = Script { answering, layout, out, cached: 0 };
        Self { script: Some(Box::pin(script.run())), events, stamps }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Severed>>> {
        loop {
            if let Ok(event) = self.events.try_recv() {
                if event.tokens > 0 {
                    self.stamps.content(event.tokens);
                }
                return Poll::Ready(Some(Ok(Frame::data(event.bytes))));
            }
            let Some(script) = &mut self.script else { return Poll::Ready(None) };
            match script.as_mut().poll(context) {
                Poll::Ready(Ok(())) => self.script = None,
                Poll::Ready(Err(severed)) => return Poll::Ready(Some(Err(severed))),
                Poll::Pending if self.events.is_empty() => return Poll::Pending,
                Poll::Pending => {}
            }
        }
    }
}

/// A response body.
pub(super) enum Reply {
    Whole(Full<Bytes>),
    Stream(Box<EventStream>),
    /// Nothing comes, and the connection is reset.
    Severed,
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Severed;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Severed>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(context).map_err(|never| match never {}),
            Self::Stream(stream) => stream.poll(context),
            Self::Severed => Poll::Ready(Some(Err(Severed))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Stream(_) | Self::Severed => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Stream(_) | Self::Severed => SizeHint::default(),
        }
    }
}
