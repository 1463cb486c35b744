//! One keep-alive HTTP/1.1 connection, driven by the very task that reads from it.
//!
//! A pool with tasks of its own would put a task switch between the socket and the time stamp, and would decide by
//! itself how many connections there are. Here a load slot owns its connection: what is in flight is what was asked,
//! and each stamp is taken inside the read system call's wrapper.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls_platform_verifier::ConfigVerifierExt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::{ClientConfig, pki_types::ServerName};

use super::endpoint::Endpoint;
use crate::engine::Stamp;
use crate::protocol::FailureReason;

/// Why a connection could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The name has no address.
    #[error("cannot find the host {host}: {source}")]
    Dns {
        /// The name.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// No address took the connection.
    #[error("cannot connect to {address}: {source}")]
    Refused {
        /// `host:port`.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The TLS handshake failed.
    #[error("TLS with {address} failed: {why}")]
    Tls {
        /// `host:port`.
        address: String,
        /// What went wrong.
        why: String,
    },
    /// The HTTP client could not be set up on the open socket.
    #[error("HTTP with {address} failed: {source}")]
    Http {
        /// `host:port`.
        address: String,
        /// What the HTTP client said.
        source: hyper::Error,
    },
    /// Nothing of the above came to an end in time.
    #[error("no connection to {address} within {limit:?}")]
    TimedOut {
        /// `host:port`.
        address: String,
        /// The time that was waited.
        limit: Duration,
    },
}

impl ConnectError {
    /// The failure reason of a request that needed the connection.
    pub fn reason(&self) -> FailureReason {
        match self {
            Self::TimedOut { .. } => FailureReason::Timeout,
            Self::Dns { .. } | Self::Refused { .. } | Self::Tls { .. } | Self::Http { .. } => {
                FailureReason::Connection
            }
        }
    }
}

trait Io: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Io for T {}

type Driver = http1::Connection<TokioIo<Box<dyn Io>>, Full<Bytes>>;

/// An open connection.
pub(super) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    /// `None` once the connection has ended; bytes already read can still be taken from a body.
    driver: Option<Driver>,
    /// Reads from the socket.
    socket: Rc<Reads>,
    /// Reads of what HTTP sees: the socket's, or those behind TLS, whose own messages are no part of a response.
    http: Rc<Reads>,
    /// Time that opening took.
    pub(super) opened_in: Duration,
}

impl Connection {
    /// Opens a connection: name, TCP, and TLS where the URL asks for it. Never through a proxy.
    pub(super) async fn open(endpoint: &Endpoint, tls: &Tls) -> Result<Self, ConnectError> {
        let begun = Stamp::now();
        let (socket, stamped) = Stamped::new(connect(endpoint).await?);
        let (http, io): (_, Box<dyn Io>) = if endpoint.tls {
            let (http, secured) = Stamped::new(secure(endpoint, tls, stamped).await?);
            (http, Box::new(secured))
        } else {
            (Rc::clone(&socket), Box::new(stamped))
        };
        let (sender, driver) = http1::handshake(TokioIo::new(io))
            .await
            .map_err(|source| ConnectError::Http { address: endpoint.address(), source })?;
        Ok(Self { sender, driver: Some(driver), socket, http, opened_in: Stamp::now().since(begun) })
    }

    /// Whether another request can be sent: false when the server has closed it since.
    pub(super) async fn is_usable(&mut self) -> bool {
        // One poll of the driver sees an end of file that waits in the socket.
        poll_fn(|cx| {
            self.poll_driver(cx);
            Poll::Ready(())
        })
        .await;
        self.driver.is_some() && self.sender.is_ready()
    }

    /// Hands a request to the connection and waits for the head of the response.
    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, hyper::Error> {
        let mut response = pin!(self.sender.send_request(request));
        let driver = &mut self.driver;
        poll_fn(|cx| {
            drive(driver, cx);
            response.as_mut().poll(cx)
        })
        .await
    }

    /// The next piece of a body with the time of the read that brought it; `None` at the end.
    pub(super) async fn next(&mut self, body: &mut Incoming) -> Option<Result<(Bytes, Stamp), hyper::Error>> {
        loop {
            let frame = poll_fn(|cx| {
                self.poll_driver(cx);
                pin!(body.frame()).poll(cx)
            })
            .await?;
            match frame {
                Ok(frame) => {
                    if let Ok(data) = frame.into_data() {
                        return Some(Ok((data, self.read_at())));
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Waits until the connection can take another request, or has ended.
    pub(super) async fn settle(&mut self) {
        let driver = &mut self.driver;
        let mut ready = pin!(self.sender.ready());
        // Whether it became ready or ended is asked again before the next request.
        let _ = poll_fn(|cx| {
            drive(driver, cx);
            ready.as_mut().poll(cx)
        })
        .await;
    }

    /// The time of the last read from the socket that brought bytes; now when there was none.
    pub(super) fn read_at(&self) -> Stamp {
        self.socket.last.get().unwrap_or_else(Stamp::now)
    }

    /// The time at which the last body ended: of its last read, or of the server's closing where that is its end.
    pub(super) fn ended_at(&self) -> Stamp {
        self.socket.closed.get().unwrap_or_else(|| self.read_at())
    }

    /// Whether any byte of a response has come since.
    pub(super) fn heard_since(&self, moment: Stamp) -> bool {
        self.http.last.get().is_some_and(|last| last >= moment)
    }

    /// The reads from the socket.
    pub(super) fn reads(&self) -> Rc<Reads> {
        Rc::clone(&self.socket)
    }

    fn poll_driver(&mut self, cx: &mut Context<'_>) {
        drive(&mut self.driver, cx);
    }
}

/// Lets the connection read and write. Its own error reaches the response or the body, so it is not looked at here.
fn drive(driver: &mut Option<Driver>, cx: &mut Context<'_>) {
    if let Some(running) = driver
        && Pin::new(running).poll(cx).is_ready()
    {
        *driver = None;
    }
}

async fn connect(endpoint: &Endpoint) -> Result<TcpStream, ConnectError> {
    let addresses = tokio::net::lookup_host((endpoint.host.as_str(), endpoint.port))
        .await
        .map_err(|source| ConnectError::Dns { host: endpoint.host.clone(), source })?;
    let mut refused = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(tcp) => {
                // Requests are small and their time matters; without the option they can wait for an ACK.
                if let Err(error) = tcp.set_nodelay(true) {
                    tracing::debug!(%error, "TCP_NODELAY not set");
                }
                return Ok(tcp);
            }
            Err(error) => refused = error,
        }
    }
    Err(ConnectError::Refused { address: endpoint.address(), source: refused })
}

/// What TLS needs to know, read from the system once: it takes milliseconds, which no stream should wait for.
#[derive(Debug, Default)]
pub(super) struct Tls(OnceLock<Arc<ClientConfig>>);

impl Tls {
    fn connector(&self) -> Result<TlsConnector, tokio_rustls::rustls::Error> {
        if let Some(config) = self.0.get() {
            return Ok(Arc::clone(config).into());
        }
        let config = Arc::new(ClientConfig::with_platform_verifier()?);
        Ok(Arc::clone(self.0.get_or_init(|| config)).into())
    }
}

async fn secure(
    endpoint: &Endpoint,
    tls: &Tls,
    tcp: Stamped<TcpStream>,
) -> Result<impl Io + use<>, ConnectError> {
    let fail = |why: String| ConnectError::Tls { address: endpoint.address(), why };
    let connector = tls.connector().map_err(|error| fail(error.to_string()))?;
    let name = ServerName::try_from(endpoint.host.clone()).map_err(|error| fail(error.to_string()))?;
    connector.connect(name, tcp).await.map_err(|error| fail(error.to_string()))
}

/// When bytes were last read, and when the other side closed.
#[derive(Debug, Default)]
pub(super) struct Reads {
    last: Cell<Option<Stamp>>,
    closed: Cell<Option<Stamp>>,
}

impl Reads {
    /// The last read that brought bytes.
    pub(super) fn last(&self) -> Option<Stamp> {
        self.last.get()
    }
}

/// A byte stream that notes when bytes were read from it, before anything looks at them.
struct Stamped<S> {
    inner: S,
    reads: Rc<Reads>,
}

impl<S> Stamped<S> {
    fn new(inner: S) -> (Rc<Reads>, Self) {
        let reads = Rc::<Reads>::default();
        (Rc::clone(&reads), Self { inner, reads })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stamped<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        let now = Some(Stamp::now());
        if buf.filled().len() > before {
            self.reads.last.set(now);
        } else if buf.remaining() > 0 {
            self.reads.closed.set(now);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stamped<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
