//! A load slot: one connection, one request at a time, everything about it recorded.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::answer::Answer;
use super::connection::{Broken, Connection};
use super::endpoint::Endpoint;
use super::failure::Failure;
use super::http::Head;
use super::response::{Deadline, receive};
use super::socket::{ConnectError, Tls};
use crate::engine::Stamp;
use crate::protocol::FailureReason;

/// A server that closes a kept connection just as a request leaves is noticed within a round trip. One that closes it
/// later had taken the request, and dropping it is a failure.
const CROSSED: Duration = Duration::from_secs(1);
/// Connections opened at the same time, so that a large load does not begin with a burst of SYNs.
const OPENING_AT_ONCE: usize = 64;

/// Time limits of one request.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// On the whole request, from `sent`.
    pub whole: Duration,
    /// On the silence between two reads, and before the first.
    pub silence: Duration,
}

/// What happened to one request, besides what the [`Answer`] holds.
#[derive(Debug, Clone, Default)]
pub struct Exchange {
    /// Just before the request was handed to the connection; `None` when there was no connection to hand it to.
    pub sent: Option<Stamp>,
    /// Time that opening a connection took, when one was opened for this request. It lies before `sent`.
    pub connected_in: Option<Duration>,
    /// HTTP status of the response.
    pub status: Option<u16>,
    /// True when the server closed a kept connection just as the request was sent on it, and the request was sent once
    /// more on a new one.
    pub resent: bool,
    /// Why there is no body to read: no connection, no response, or a status that is no answer. What goes wrong
    /// later is in [`Answer::outcome`].
    pub failure: Option<Failure>,
}

impl Exchange {
    fn fail(&mut self, reason: FailureReason, text: &str) {
        self.failure.get_or_insert_with(|| Failure::new(reason, text));
    }
}

/// Opens connections to one endpoint, a bounded number at a time.
#[derive(Debug, Clone)]
pub struct Dialer {
    endpoint: Arc<Endpoint>,
    tls: Arc<Tls>,
    opening: Arc<Semaphore>,
}

impl Dialer {
    /// A dialer for an endpoint.
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint: Arc::new(endpoint),
            tls: Arc::default(),
            opening: Arc::new(Semaphore::new(OPENING_AT_ONCE)),
        }
    }

    async fn open(&self, limit: Duration) -> Result<Connection, ConnectError> {
        let open = async {
            // The semaphore is never closed; were it, opening without a permit would still be right.
            let _permit = self.opening.acquire().await.ok();
            Connection::open(&self.endpoint, &self.tls).await
        };
        let late = |_| ConnectError::TimedOut { address: self.endpoint.address(), limit };
        tokio::time::timeout(limit, open).await.map_err(late)?
    }
}

/// One place in the load: holds a connection between requests.
pub struct Slot {
    dialer: Dialer,
    connection: Option<Connection>,
}

enum Sent {
    Head(Head),
    /// The kept connection was closed while the request was on its way.
    Crossed(String),
    Broken(FailureReason, String),
}

impl Slot {
    /// A slot without a connection yet.
    pub fn new(dialer: Dialer) -> Self {
        Self { dialer, connection: None }
    }

    /// Opens the connection now, if there is none, so that no request of a measurement has to wait for it.
    pub async fn connect(&mut self, limit: Duration) -> Result<(), ConnectError> {
        self.connection = match self.usable().await {
            Some(connection) => Some(connection),
            None => Some(self.dialer.open(limit).await?),
        };
        Ok(())
    }

    /// Sends one request and reads its answer to the end. `exchange` and `answer` are filled as things happen, so
    /// that a caller who drops this future (a stop) still has what came before.
    pub async fn ask(
        &mut self,
        request_id: &str,
        body: &[u8],
        limits: Limits,
        exchange: &mut Exchange,
        answer: &mut Answer,
    ) {
        let kept = self.exchange(request_id, body, limits, exchange, answer).await;
        if let Some(key) = &self.dialer.endpoint.key {
            // Servers repeat what they were sent, and a failure's text is written to files.
            answer.hide(key);
            if let Some(failure) = &mut exchange.failure {
                key.hide_in(&mut failure.text);
                key.hide_in(&mut failure.whole);
            }
        }
        self.connection = kept;
    }

    /// The whole exchange; returns the connection when it can be kept.
    async fn exchange(
        &mut self,
        request_id: &str,
        body: &[u8],
        limits: Limits,
        exchange: &mut Exchange,
        answer: &mut Answer,
    ) -> Option<Connection> {
        let mut kept = self.usable().await;
        let request = self.dialer.endpoint.request(request_id, body);
        let mut crossed = false;
        loop {
            let reused = kept.is_some();
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => self.open(limits.whole, exchange).await?,
            };
            let sent = Stamp::now();
            exchange.sent = Some(sent);
            exchange.resent = crossed;
            match send(&mut connection, &request, limits, sent).await {
                Sent::Head(head) => {
                    exchange.status = Some(head.status);
                    let deadline = Deadline { sent, limits };
                    let whole = receive(&mut connection, &head, deadline, exchange, answer).await;
                    return (whole && connection.keeps()).then_some(connection);
                }
                Sent::Crossed(why) if reused => {
                    tracing::debug!(%why, "a kept connection was closed; sending once more on a new one");
                    crossed = true;
                }
                Sent::Crossed(why) => {
                    exchange.fail(FailureReason::Connection, &why);
                    return None;
                }
                Sent::Broken(reason, why) => {
                    exchange.fail(reason, &why);
                    return None;
                }
            }
        }
    }

    async fn usable(&mut self) -> Option<Connection> {
        let mut connection = self.connection.take()?;
        // The runtime looks at its sockets only between tasks: without a pause, a closing that has already arrived
        // would be found out by sending into it.
        tokio::task::yield_now().await;
        connection.is_usable().await.then_some(connection)
    }

    async fn open(&self, limit: Duration, exchange: &mut Exchange) -> Option<Connection> {
        match self.dialer.open(limit).await {
            Ok(connection) => {
                exchange.connected_in = Some(connection.opened_in);
                Some(connection)
            }
            Err(error) => {
                exchange.fail(error.reason(), &error.to_string());
                None
            }
        }
    }
}

async fn send(connection: &mut Connection, request: &[u8], limits: Limits, sent: Stamp) -> Sent {
    // Before the head of the response nothing else can arrive: silence and whole limit are one wait here.
    let limit = limits.whole.min(limits.silence);
    match tokio::time::timeout(limit, connection.send(request)).await {
        Ok(Ok(head)) => Sent::Head(head),
        Ok(Err(error @ (Broken::Closed | Broken::Io(_))))
            if !connection.heard() && Stamp::now().since(sent) < CROSSED =>
        {
            Sent::Crossed(error.to_string())
        }
        Ok(Err(error)) => Sent::Broken(error.reason(), error.to_string()),
        Err(_) => Sent::Broken(FailureReason::Timeout, format!("no answer within {limit:?}")),
    }
}
