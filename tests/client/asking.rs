//! One slot, asked one request after the other.

use std::time::Duration;

use aforo::engine::Stamp;
use aforo::engine::openai::{Answer, ApiKey, Dialer, Endpoint, Exchange, Finish, Limits, Outcome, Slot};
use aforo::measure::{Capture, Phase};
use aforo::protocol::{Api, FailureReason};
use bytes::Bytes;

use crate::server::{Peer, Server};

/// Limits that no test is meant to reach.
pub(crate) const PATIENT: Limits =
    Limits { whole: Duration::from_secs(20), silence: Duration::from_secs(20) };

pub(crate) struct Client {
    runtime: tokio::runtime::Runtime,
    slot: Slot,
}

impl Client {
    pub(crate) fn new(base_url: &str) -> Self {
        Self::with_key(base_url, None)
    }

    pub(crate) fn with_key(base_url: &str, key: Option<ApiKey>) -> Self {
        let endpoint = Endpoint::with_key(base_url, Api::Chat, key).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { runtime, slot: Slot::new(Dialer::new(endpoint)) }
    }

    pub(crate) fn ask(&mut self, limits: Limits) -> Capture {
        self.send("{}", limits)
    }

    pub(crate) fn send(&mut self, body: &str, limits: Limits) -> Capture {
        let (mut exchange, mut answer) = (Exchange::default(), Answer::default());
        let scheduled = Stamp::now();
        let body = Bytes::copy_from_slice(body.as_bytes());
        self.runtime.block_on(self.slot.ask("id-1", &body, limits, &mut exchange, &mut answer));
        let (phase, ended) = (Phase::Measurement, Stamp::now());
        Capture { index: 0, phase, scheduled, ended, exchange, answer, cancelled: false }
    }
}

/// What comes of one request to a server that does this with its one connection.
pub(crate) fn ask(limits: Limits, serve: impl Fn(&mut Peer) + Send + Sync + 'static) -> Capture {
    let server = Server::limited(1, serve);
    Client::new(&server.base_url()).ask(limits)
}

/// What comes of one request that is answered with these bytes, and then the connection closed.
pub(crate) fn answered_with(bytes: impl Into<Vec<u8>>) -> Capture {
    let bytes = bytes.into();
    ask(PATIENT, move |peer| {
        peer.request();
        peer.send(&bytes);
    })
}

/// That the request failed for this reason, and that the text says each of these things.
#[track_caller]
pub(crate) fn assert_failed(capture: &Capture, reason: FailureReason, says: &[&str]) {
    let Some((found, text)) = capture.failure() else {
        panic!("no failure, but {:?} and {:?}", capture.answer.outcome(), capture.answer.text());
    };
    assert_eq!(found, reason, "{text}");
    for part in says {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
    assert!(!text.is_empty() && text.chars().count() <= 300 && !text.contains('\n'), "{text:?}");
}

/// That the answer came whole.
#[track_caller]
pub(crate) fn assert_answered(capture: &Capture, text: &str) {
    assert_eq!(capture.failure(), None);
    assert_eq!(capture.answer.text(), text);
    assert_eq!(capture.answer.outcome(), Some(&Outcome::Complete { finish: Finish::Stop }));
}
