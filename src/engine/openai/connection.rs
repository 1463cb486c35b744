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
use std::sync::Arc;
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
}

trait Io: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Io for T {}

type Driver = http1::Connection<TokioIo<Box<dyn Io>>, Full<Bytes>>;

/// An open connection.
pub(super) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    /// `None` once the connection has ended; bytes already read can still be taken from a body.
    driver: Option<Driver>,
    last_read: Rc<Cell<Option<Stamp>>>,
    /// Time that opening took.
    pub(super) opened_in: Duration,
}

impl Connection {
    /// Opens a connection: name, TCP, and TLS where the URL asks for it. Never through a proxy.
    pub(super) async fn open(endpoint: &Endpoint) -> Result<Self, ConnectError> {
        let begun = Stamp::now();
        let last_read = Rc::new(Cell::new(None));
        let tcp = connect(endpoint).await?;
        let stamped = Stamped { tcp, last_read: Rc::clone(&last_read) };
        let io: Box<dyn Io> =
            if endpoint.tls { Box::new(secure(endpoint, stamped).await?) } else { Box::new(stamped) };
        let (sender, driver) = http1::handshake(TokioIo::new(io))
            .await
            .map_err(|source| ConnectError::Http { address: endpoint.address(), source })?;
        Ok(Self { sender, driver: Some(driver), last_read, opened_in: Stamp::now().since(begun) })
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
    pub(super) async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, hyper::Error> {
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

    /// The time of the last read from the socket; now when there was none.
    pub(super) fn read_at(&self) -> Stamp {
        self.last_read.get().unwrap_or_else(Stamp::now)
    }

    /// The cell that holds the time of the last read.
    pub(super) fn last_read(&self) -> Rc<Cell<Option<Stamp>>> {
        Rc::clone(&self.last_read)
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

async fn secure(endpoint: &Endpoint, tcp: Stamped) -> Result<impl Io + use<>, ConnectError> {
    let fail = |why: String| ConnectError::Tls { address: endpoint.address(), why };
    let config = ClientConfig::with_platform_verifier().map_err(|error| fail(error.to_string()))?;
    let name = ServerName::try_from(endpoint.host.clone()).map_err(|error| fail(error.to_string()))?;
    TlsConnector::from(Arc::new(config)).connect(name, tcp).await.map_err(|error| fail(error.to_string()))
}

/// A socket that notes when bytes were read from it, before anything looks at them.
struct Stamped {
    tcp: TcpStream,
    last_read: Rc<Cell<Option<Stamp>>>,
}

impl AsyncRead for Stamped {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.tcp).poll_read(cx, buf))?;
        if buf.filled().len() > before {
            self.last_read.set(Some(Stamp::now()));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stamped {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }
}
