//! Reading a response: a stream, an answer as one JSON document, or a page that says why there is no answer.

use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue, LOCATION, RETRY_AFTER};
use hyper::http::response::Parts;
use hyper::{Response, StatusCode};

use super::answer::{Answer, End};
use super::connection::Connection;
use super::failure::{self, Failure, Headers};
use super::slot::{Exchange, Limits};
use crate::engine::Stamp;
use crate::protocol::FailureReason;

/// Bytes of an error page that are kept to find its reason.
const ERROR_BODY_LIMIT: usize = 64 * 1024;
/// Bytes of an answer that came as one JSON document.
const WHOLE_BODY_LIMIT: usize = 64 * 1024 * 1024;
/// After `[DONE]` nothing more counts; a server that does not end the response within this loses the connection.
const AFTER_DONE: Duration = Duration::from_millis(500);

/// When a request has taken too long, as a whole or in silence.
#[derive(Clone, Copy)]
pub(super) struct Deadline {
    pub(super) sent: Stamp,
    pub(super) limits: Limits,
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

/// How a body is read, from the head of its response.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Stream,
    /// An answer as one JSON document.
    Whole,
    /// No answer.
    ErrorPage,
}

impl Form {
    fn of(head: &Parts) -> Self {
        let is = |value: &HeaderValue, kind: &str| {
            value
                .as_bytes()
                .get(..kind.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(kind.as_bytes()))
        };
        match head.headers.get(CONTENT_TYPE) {
            _ if head.status != StatusCode::OK => Self::ErrorPage,
            // A body without a type is taken for the stream that was asked for.
            None => Self::Stream,
            Some(value) if is(value, "text/event-stream") => Self::Stream,
            Some(value) if is(value, "application/json") => Self::Whole,
            Some(_) => Self::ErrorPage,
        }
    }
}

/// Why a body was not read to its end.
type Broken = (FailureReason, String);

/// Reads the response; true when it was read to its end.
pub(super) async fn receive(
    connection: &mut Connection,
    response: Response<Incoming>,
    deadline: Deadline,
    exchange: &mut Exchange,
    answer: &mut Answer,
) -> bool {
    let (head, body) = response.into_parts();
    let form = Form::of(&head);
    let mut page = Vec::new();
    let reads = connection.reads();
    let late = deadline.passed(|| reads.last().unwrap_or(deadline.sent));
    let read = async {
        match form {
            Form::Stream => read_stream(connection, body, answer).await,
            Form::Whole => read_page(connection, body, WHOLE_BODY_LIMIT, &mut page).await,
            Form::ErrorPage => read_page(connection, body, ERROR_BODY_LIMIT, &mut page).await,
        }
    };
    // Dropping the reading future leaves what it has read so far.
    let broken = tokio::select! {
        biased;
        broken = read => broken,
        why = late => Some((FailureReason::Timeout, why)),
    };
    match (form, &broken) {
        // A page that breaks off still says why the request failed.
        (Form::ErrorPage, _) => {
            exchange.failure.get_or_insert_with(|| refusal(&head, &page));
        }
        (_, Some((reason, text))) => {
            answer.end(End::Broken { reason: *reason, text }, Stamp::now());
        }
        (Form::Stream, None) => {
            answer.end(End::Complete, connection.ended_at());
        }
        (Form::Whole, None) => {
            answer.read_whole(&page, connection.ended_at());
        }
    }
    broken.is_none()
}

fn refusal(head: &Parts, page: &[u8]) -> Failure {
    let header = |name| head.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let headers = Headers {
        retry_after: header(RETRY_AFTER),
        location: header(LOCATION),
        content_type: header(CONTENT_TYPE),
    };
    failure::of_status(head.status.as_u16(), headers, page)
}

async fn read_stream(connection: &mut Connection, mut body: Incoming, answer: &mut Answer) -> Option<Broken> {
    let mut over = None;
    loop {
        if over.is_none() && answer.is_over() {
            over = Some(Box::pin(tokio::time::sleep(AFTER_DONE)));
        }
        let next = match &mut over {
            None => connection.next(&mut body).await,
            Some(patience) => tokio::select! {
                biased;
                next = connection.next(&mut body) => next,
                () = patience => return Some((FailureReason::Timeout, "still open after its end".to_owned())),
            },
        };
        match next? {
            Ok((bytes, at)) => answer.read(&bytes, at),
            Err(error) => return Some((reason_of(&error), describe(&error))),
        }
    }
}

async fn read_page(
    connection: &mut Connection,
    mut body: Incoming,
    limit: usize,
    page: &mut Vec<u8>,
) -> Option<Broken> {
    loop {
        match connection.next(&mut body).await? {
            Ok((bytes, _)) => {
                let room = limit - page.len();
                page.extend_from_slice(&bytes[..bytes.len().min(room)]);
                if bytes.len() > room {
                    return Some((FailureReason::Engine, format!("answered with more than {limit} bytes")));
                }
            }
            Err(error) => return Some((reason_of(&error), describe(&error))),
        }
    }
}

/// An answer that is not HTTP is the engine's fault; everything else that breaks is the connection's.
pub(super) fn reason_of(error: &hyper::Error) -> FailureReason {
    if error.is_parse() { FailureReason::Engine } else { FailureReason::Connection }
}

pub(super) fn describe(error: &hyper::Error) -> String {
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
