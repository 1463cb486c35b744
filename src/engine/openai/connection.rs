//! One keep-alive HTTP/1.1 connection, driven by the very task that reads from it.
//!
//! A pool with tasks of its own would put a task switch between the socket and the time stamp, and would decide by
//! itself how many connections there are. Here a load slot owns its connection: what is in flight is what was asked,
//! and each stamp is taken inside the read system call's wrapper.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

use super::endpoint::Endpoint;
use super::http::{Body, Head, HeadReader, NotHttp};
use super::socket::{self, ConnectError, Io, Reads, Tls};
use crate::engine::Stamp;
use crate::protocol::FailureReason;

/// Bytes taken by one read at most.
const READ: usize = 16 * 1024;

/// Why a response did not come to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error("the server closed the connection before the answer was complete")]
    Closed,
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    NotHttp(NotHttp),
}

impl From<NotHttp> for Broken {
    fn from(error: NotHttp) -> Self {
        Self::NotHttp(error)
    }
}

impl Broken {
    /// An answer that is not HTTP is the engine's fault; everything else that breaks is the connection's.
    pub(super) fn reason(&self) -> FailureReason {
        match self {
            Self::NotHttp(_) => FailureReason::Engine,
            Self::Closed | Self::Io(_) => FailureReason::Connection,
        }
    }
}

/// An open connection.
pub(super) struct Connection {
    io: Box<dyn Io>,
    reads: Rc<Reads>,
    buffer: Box<[u8]>,
    /// Whether any byte of the current response has come.
    heard: bool,
    /// Bytes of the body that came with the head.
    ahead: Vec<u8>,
    body: Body,
    keeps: bool,
    /// Time that opening took.
    pub(super) opened_in: Duration,
}

impl Connection {
    /// Opens a connection.
    pub(super) async fn open(endpoint: &Endpoint, tls: &Tls) -> Result<Self, ConnectError> {
        let begun = Stamp::now();
        let (io, reads) = socket::open(endpoint, tls).await?;
        Ok(Self {
            io,
            reads,
            buffer: vec![0; READ].into(),
            heard: false,
            ahead: Vec::new(),
            body: Body::Length(0),
            keeps: true,
            opened_in: Stamp::now().since(begun),
        })
    }

    /// Whether another request can be sent: false when the last response was not read to its end, when the server
    /// has closed the connection since, or when it sent what nobody asked for.
    pub(super) async fn is_usable(&mut self) -> bool {
        if !self.keeps || !self.body.is_complete() {
            return false;
        }
        poll_fn(|cx| Poll::Ready(self.poll_read(cx).is_pending())).await
    }

    /// Writes a request and waits for the head of the response. A server may answer before it has read everything;
    /// then the connection is not kept.
    pub(super) async fn send(&mut self, request: &[u8]) -> Result<Head, Broken> {
        let (mut left, mut reader) = (request, HeadReader::default());
        self.heard = false;
        let (head, ahead) = poll_fn(|cx| self.poll_exchange(cx, &mut left, &mut reader)).await?;
        self.keeps = head.keeps && left.is_empty();
        self.body = head.body.clone();
        self.ahead = ahead;
        Ok(head)
    }

    fn poll_exchange(
        &mut self,
        cx: &mut Context<'_>,
        left: &mut &[u8],
        reader: &mut HeadReader,
    ) -> Poll<Result<(Head, Vec<u8>), Broken>> {
        let written = self.poll_write(cx, left);
        loop {
            match self.poll_read(cx) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(Broken::Closed)),
                Poll::Ready(Ok(read)) => {
                    self.heard = true;
                    match reader.push(&self.buffer[..read]) {
                        Ok(None) => {}
                        Ok(Some(head)) => return Poll::Ready(Ok(head)),
                        Err(error) => return Poll::Ready(Err(error.into())),
                    }
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                // What the server had still to say was read before a failed write counts.
                Poll::Pending => break,
            }
        }
        match written {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, left: &mut &[u8]) -> Poll<io::Result<()>> {
        while !left.is_empty() {
            let written = ready!(Pin::new(&mut self.io).poll_write(cx, left))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            *left = &left[written..];
        }
        Pin::new(&mut self.io).poll_flush(cx)
    }

    /// Reads once and hands out the parts of the body that came, with the time of the read; false at the body's end.
    pub(super) async fn next(&mut self, mut part: impl FnMut(&[u8], Stamp)) -> Result<bool, Broken> {
        let at = self.read_at();
        if !self.ahead.is_empty() {
            let ahead = std::mem::take(&mut self.ahead);
            let taken = self.body.push(&ahead, |bytes| part(bytes, at))?;
            self.keeps &= taken == ahead.len();
            return Ok(true);
        }
        if self.body.is_complete() {
            return Ok(false);
        }
        let read = poll_fn(|cx| self.poll_read(cx)).await?;
        if read == 0 {
            return if self.body.ends_with_close() { Ok(false) } else { Err(Broken::Closed) };
        }
        let at = self.read_at();
        let taken = self.body.push(&self.buffer[..read], |bytes| part(bytes, at))?;
        // Bytes after the response belong to no request.
        self.keeps &= taken == read;
        Ok(true)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(&mut self.buffer);
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    /// Whether the connection can take another request, as far as the response says.
    pub(super) fn keeps(&self) -> bool {
        self.keeps && self.body.is_complete()
    }

    /// Whether any byte of a response to the last request has come.
    pub(super) fn heard(&self) -> bool {
        self.heard
    }

    /// The time of the last read from the socket that brought bytes; now when there was none.
    pub(super) fn read_at(&self) -> Stamp {
        self.reads.last().unwrap_or_else(Stamp::now)
    }

    /// The time at which the last body ended: of its last read, or of the server's closing where that is its end.
    pub(super) fn ended_at(&self) -> Stamp {
        self.reads.closed().unwrap_or_else(|| self.read_at())
    }

    /// The reads from the socket.
    pub(super) fn reads(&self) -> Rc<Reads> {
        Rc::clone(&self.reads)
    }
}
