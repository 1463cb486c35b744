//! A load slot: one connection, one request at a time, everything about it recorded.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER, USER_AGENT,
};
use hyper::http::response::Parts;
use hyper::{Request, Response, StatusCode};
use tokio::sync::Semaphore;

use super::answer::{Answer, End};
use super::connection::{ConnectError, Connection};
use super::endpoint::Endpoint;
use super::failure::{self, Failure, Headers};
use crate::engine::Stamp;
use crate::protocol::FailureReason;

/// Bytes of an error page that are kept to find its reason.
const ERROR_BODY_LIMIT: usize = 64 * 1024;
/// Bytes of an answer that came as one JSON document.
const WHOLE_BODY_LIMIT: usize = 64 * 1024 * 1024;
/// After `[DONE]` nothing more counts; a server that still holds the stream open loses the connection after this.
const AFTER_DONE: Duration = Duration::from_millis(500);
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
    /// True when a kept connection turned out to be closed and the request was sent once more on a new one.
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
    opening: Arc<Semaphore>,
}

impl Dialer {
    /// A dialer for an endpoint.
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint: Arc::new(endpoint), opening: Arc::new(Semaphore::new(OPENING_AT_ONCE)) }
    }

    async fn open(&self) -> Result<Connection, ConnectError> {
        // The semaphore is never closed; were it, opening without a permit would still be right.
        let _permit = self.opening.acquire().await.ok();
        Connection::open(&self.endpoint).await
    }
}

/// One place in the load: holds a connection between requests.
pub struct Slot {
    dialer: Dialer,
    connection: Option<Connection>,
}

enum Sent {
    Head(Response<Incoming>),
    /// The kept connection was closed before any byte of a response came.
    Stale(String),
    Broken(FailureReason, String),
}

impl Slot {
    /// A slot without a connection yet.
    pub fn new(dialer: Dialer) -> Self {
        Self { dialer, connection: None }
    }

    /// Opens the connection now, so that no request of a measurement has to wait for it.
    pub async fn connect(&mut self) -> Result<(), ConnectError> {
        if self.usable().await.is_none() {
            self.connection = Some(self.dialer.open().await?);
        }
        Ok(())
    }

    /// Sends one request and reads its answer to the end. `exchange` and `answer` are filled as things happen, so
    /// that a caller who drops this future (a stop) still has what came before.
    pub async fn ask(
        &mut self,
        request_id: &str,
        body: Bytes,
        limits: Limits,
        exchange: &mut Exchange,
        answer: &mut Answer,
    ) {
        let mut kept = self.usable().await;
        loop {
            let reused = kept.is_some();
            let mut connection = if let Some(connection) = kept.take() {
                connection
            } else {
                match self.open(limits, exchange).await {
                    Some(connection) => connection,
                    None => return,
                }
            };
            let sent = Stamp::now();
            exchange.sent = Some(sent);
            match send(&mut connection, self.request(request_id, &body), limits, reused).await {
                Sent::Head(response) => {
                    exchange.status = Some(response.status().as_u16());
                    let deadline = Deadline { sent, limits };
                    if receive(&mut connection, response, deadline, exchange, answer).await {
                        connection.settle().await;
                        self.connection = Some(connection);
                    }
                    return;
                }
                Sent::Stale(why) if !exchange.resent => {
                    tracing::debug!(%why, "a kept connection was closed; sending once more on a new one");
                    exchange.resent = true;
                }
                Sent::Stale(why) => return exchange.fail(FailureReason::Connection, &why),
                Sent::Broken(reason, why) => return exchange.fail(reason, &why),
            }
        }
    }

    async fn usable(&mut self) -> Option<Connection> {
        let mut connection = self.connection.take()?;
        connection.is_usable().await.then_some(connection)
    }

    async fn open(&mut self, limits: Limits, exchange: &mut Exchange) -> Option<Connection> {
        match tokio::time::timeout(limits.whole, self.dialer.open()).await {
            Ok(Ok(connection)) => {
                exchange.connected_in = Some(connection.opened_in);
                Some(connection)
            }
            Ok(Err(error)) => {
                exchange.fail(FailureReason::Connection, &error.to_string());
                None
            }
            Err(_) => {
                let text = format!("no connection to {} within {:?}", self.dialer.endpoint.address(), limits.whole);
                exchange.fail(FailureReason::Timeout, &text);
                None
            }
        }
    }

    fn request(&self, request_id: &str, body: &Bytes) -> Request<Full<Bytes>> {
        let endpoint = &self.dialer.endpoint;
        let mut request = Request::new(Full::new(body.clone()));
        *request.method_mut() = hyper::Method::POST;
        *request.uri_mut() = endpoint.path.clone();
        let headers = request.headers_mut();
        headers.insert(HOST, endpoint.authority.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static(super::AGENT));
        if let Ok(id) = request_id.parse() {
            headers.insert("x-request-id", id);
        }
        if let Some(key) = &endpoint.key {
            headers.insert(AUTHORIZATION, key.header());
        }
        request
    }
}

async fn send(connection: &mut Connection, request: Request<Full<Bytes>>, limits: Limits, reused: bool) -> Sent {
    // Before the head of the response nothing else can arrive: silence and whole limit are one wait here.
    let limit = limits.whole.min(limits.silence);
    match tokio::time::timeout(limit, connection.send(request)).await {
        Ok(Ok(response)) => Sent::Head(response),
        Ok(Err(error)) if reused && !error.is_parse() => Sent::Stale(describe(&error)),
        Ok(Err(error)) => Sent::Broken(reason_of(&error), describe(&error)),
        Err(_) => Sent::Broken(FailureReason::Timeout, format!("no answer within {limit:?}")),
    }
}

/// When a request has taken too long, as a whole or in silence.
#[derive(Clone, Copy)]
struct Deadline {
    sent: Stamp,
    limits: Limits,
}

impl Deadline {
    /// Ends when a limit has passed, with words. Armed for the earliest possible moment and, when it fires, armed
    /// again if something was read since: a timer for each read would cost more than the read.
    async fn passed(self, last_read: impl Fn() -> Stamp) -> String {
        loop {
            let now = Stamp::now();
            let whole = self.limits.whole.saturating_sub(now.since(self.sent));
            let silence = self.limits.silence.saturating_sub(now.since(last_read().max(self.sent)));
            if whole.is_zero() {
                return format!("not finished within {:?}", self.limits.whole);
            }
            if silence.is_zero() {
                return format!("silent for {:?} in the middle of the answer", self.limits.silence);
            }
            tokio::time::sleep(whole.min(silence)).await;
        }
    }
}

/// Reads the response; true when the connection can be kept.
async fn receive(
    connection: &mut Connection,
    response: Response<Incoming>,
    deadline: Deadline,
    exchange: &mut Exchange,
    answer: &mut Answer,
) -> bool {
    let last_read = connection.last_read();
    let watch = deadline.passed(move || last_read.get().unwrap_or(deadline.sent));
    let read = async {
        let (head, body) = response.into_parts();
        if head.status == StatusCode::OK && is_stream(&head.headers) {
            read_stream(connection, body, answer).await
        } else {
            read_page(connection, &head, body, exchange, answer).await
        }
    };
    let why = tokio::select! {
        biased;
        kept = read => return kept,
        why = watch => why,
    };
    // The select dropped the reading future: what the answer holds up to here stays.
    answer.end(End::Broken { reason: FailureReason::Timeout, text: &why }, Stamp::now());
    false
}

fn is_stream(headers: &HeaderMap) -> bool {
    // A body without a type is taken for the stream that was asked for.
    headers.get(CONTENT_TYPE).is_none_or(|value| value.as_bytes().starts_with(b"text/event-stream"))
}

async fn read_stream(connection: &mut Connection, mut body: Incoming, answer: &mut Answer) -> bool {
    loop {
        let next = if answer.is_over() {
            let Ok(next) = tokio::time::timeout(AFTER_DONE, connection.next(&mut body)).await else {
                answer.end(End::Complete, connection.read_at());
                return false;
            };
            next
        } else {
            connection.next(&mut body).await
        };
        match next {
            Some(Ok((bytes, at))) => answer.read(&bytes, at),
            Some(Err(error)) => {
                answer.end(End::Broken { reason: reason_of(&error), text: &describe(&error) }, Stamp::now());
                return false;
            }
            None => {
                answer.end(End::Complete, connection.read_at());
                return true;
            }
        }
    }
}

/// Reads a response that is no stream: an error page, or an answer as one JSON document.
async fn read_page(
    connection: &mut Connection,
    head: &Parts,
    mut body: Incoming,
    exchange: &mut Exchange,
    answer: &mut Answer,
) -> bool {
    let header = |name| head.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let is_answer =
        head.status == StatusCode::OK && header(CONTENT_TYPE).is_some_and(|t| t.starts_with("application/json"));
    let limit = if is_answer { WHOLE_BODY_LIMIT } else { ERROR_BODY_LIMIT };
    let mut page = Vec::new();
    let mut broken = None;
    while let Some(next) = connection.next(&mut body).await {
        match next {
            Ok((bytes, _)) if page.len() + bytes.len() <= limit => page.extend_from_slice(&bytes),
            Ok(_) => {
                broken = Some((FailureReason::Engine, format!("answered with more than {limit} bytes")));
                break;
            }
            Err(error) => {
                broken = Some((reason_of(&error), describe(&error)));
                break;
            }
        }
    }
    match &broken {
        Some((reason, text)) if is_answer => {
            answer.end(End::Broken { reason: *reason, text }, Stamp::now());
        }
        None if is_answer => {
            answer.read_whole(&page, connection.read_at());
        }
        // An error page that breaks off still says why the request failed.
        _ => {
            let headers = Headers {
                retry_after: header(RETRY_AFTER),
                location: header(LOCATION),
                content_type: header(CONTENT_TYPE),
            };
            exchange.failure.get_or_insert_with(|| failure::of_status(head.status.as_u16(), headers, &page));
        }
    }
    broken.is_none()
}

/// An answer that is not HTTP is the engine's fault; everything else that breaks is the connection's.
fn reason_of(error: &hyper::Error) -> FailureReason {
    if error.is_parse() { FailureReason::Engine } else { FailureReason::Connection }
}

fn describe(error: &hyper::Error) -> String {
    use std::error::Error as _;
    let what = if error.is_parse() {
        "what came back is not HTTP"
    } else if error.is_incomplete_message() {
        "the server closed the connection before the answer was complete"
    } else {
        "the connection broke"
    };
    match error.source() {
        Some(source) => format!("{what}: {source}"),
        None => what.to_owned(),
    }
}
