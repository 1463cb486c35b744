//! Reading a response: a stream, an answer as one JSON document, or a page that says why there is no answer.

use std::time::Duration;

use super::answer::{Answer, End};
use super::connection::{self, Connection};
use super::failure::{self, Failure, Headers};
use super::http::Head;
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
    fn of(head: &Head) -> Self {
        let is =
            |value: &str, kind: &str| value.get(..kind.len()).is_some_and(|s| s.eq_ignore_ascii_case(kind));
        match head.content_type.as_deref() {
            _ if head.status != 200 => Self::ErrorPage,
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
    head: &Head,
    deadline: Deadline,
    exchange: &mut Exchange,
    answer: &mut Answer,
) -> bool {
    let form = Form::of(head);
    let mut page = Vec::new();
    let reads = connection.reads();
    let late = deadline.passed(|| reads.last().unwrap_or(deadline.sent));
    let read = async {
        match form {
            Form::Stream => read_stream(connection, answer).await,
            Form::Whole => read_page(connection, WHOLE_BODY_LIMIT, &mut page).await,
            Form::ErrorPage => read_page(connection, ERROR_BODY_LIMIT, &mut page).await,
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
            exchange.failure.get_or_insert_with(|| refusal(head, &page));
        }
        (_, Some((reason, text))) => {
            // What was over before ended with its last read: the wait for the server's end is not part of it.
            let at = if answer.is_over() { connection.read_at() } else { Stamp::now() };
            answer.end(End::Broken { reason: *reason, text }, at);
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

fn refusal(head: &Head, page: &[u8]) -> Failure {
    let headers = Headers {
        retry_after: head.retry_after.as_deref(),
        location: head.location.as_deref(),
        content_type: head.content_type.as_deref(),
    };
    failure::of_status(head.status, headers, page)
}

async fn read_stream(connection: &mut Connection, answer: &mut Answer) -> Option<Broken> {
    let mut over = None;
    loop {
        if over.is_none() && answer.is_over() {
            over = Some(Box::pin(tokio::time::sleep(AFTER_DONE)));
        }
        let next = connection.next(|bytes, at| answer.read(bytes, at));
        let more = match &mut over {
            None => next.await,
            Some(patience) => tokio::select! {
                biased;
                more = next => more,
                () = patience => return Some((FailureReason::Timeout, "still open after its end".to_owned())),
            },
        };
        match more {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => return Some(told(&error)),
        }
    }
}

async fn read_page(connection: &mut Connection, limit: usize, page: &mut Vec<u8>) -> Option<Broken> {
    loop {
        let mut is_over = false;
        let more = connection.next(|bytes, _| {
            let room = limit - page.len();
            page.extend_from_slice(&bytes[..bytes.len().min(room)]);
            is_over |= bytes.len() > room;
        });
        match more.await {
            _ if is_over => {
                return Some((FailureReason::Engine, format!("answered with more than {limit} bytes")));
            }
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => return Some(told(&error)),
        }
    }
}

fn told(error: &connection::Broken) -> Broken {
    (error.reason(), error.to_string())
}
