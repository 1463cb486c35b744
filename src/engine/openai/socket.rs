//! An open byte stream to a server, plain or through TLS, that notes when bytes were read from it.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

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
            Self::Dns { .. } | Self::Refused { .. } | Self::Tls { .. } => FailureReason::Connection,
        }
    }
}

/// A byte stream in both directions.
pub(super) trait Io: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Io for T {}

/// Opens a byte stream: name, TCP, and TLS where the URL asks for it. Never through a proxy.
pub(super) async fn open(endpoint: &Endpoint, tls: &Tls) -> Result<(Box<dyn Io>, Rc<Reads>), ConnectError> {
    let tcp = connect(endpoint).await?;
    let reads = Rc::<Reads>::default();
    let stamped = Stamped { tcp, reads: Rc::clone(&reads) };
    let io: Box<dyn Io> =
        if endpoint.tls { Box::new(secure(endpoint, tls, stamped).await?) } else { Box::new(stamped) };
    Ok((io, reads))
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

async fn secure(endpoint: &Endpoint, tls: &Tls, tcp: Stamped) -> Result<impl Io + use<>, ConnectError> {
    let fail = |why: String| ConnectError::Tls { address: endpoint.address(), why };
    let connector = tls.connector().map_err(|error| fail(error.to_string()))?;
    let name = ServerName::try_from(endpoint.host.clone()).map_err(|error| fail(error.to_string()))?;
    connector.connect(name, tcp).await.map_err(|error| fail(error.to_string()))
}

/// When bytes were last read from the socket, and when the other side closed it.
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

    /// The read that found the end.
    pub(super) fn closed(&self) -> Option<Stamp> {
        self.closed.get()
    }
}

/// A socket that notes when bytes were read from it, before anything looks at them: before TLS, too.
struct Stamped {
    tcp: TcpStream,
    reads: Rc<Reads>,
}

impl AsyncRead for Stamped {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.tcp).poll_read(cx, buf))?;
        let now = Some(Stamp::now());
        if buf.filled().len() > before {
            self.reads.last.set(now);
        } else if buf.remaining() > 0 {
            self.reads.closed.set(now);
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
}
