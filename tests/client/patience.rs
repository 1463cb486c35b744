//! Time limits: on the whole request, on silence, and where there is nothing to wait for.

use std::thread;
use std::time::Duration;

use aforo::engine::openai::Limits;
use aforo::protocol::FailureReason::Timeout;

use crate::asking::{Client, PATIENT, ask, assert_answered, assert_failed};
use crate::server::Server;
use crate::wire::{LAST_CHUNK, ROLE, STREAM_HEAD, answer, chunk, events, finish, token};

const SILENCE: Duration = Duration::from_millis(150);
/// Only silence can end the request in time.
const QUIET: Limits = Limits { whole: PATIENT.whole, silence: SILENCE };
/// Only the whole limit can.
const SHORT: Limits = Limits { whole: SILENCE, silence: PATIENT.silence };

#[test]
fn a_server_that_never_answers() {
    for limits in [QUIET, SHORT] {
        let failed = ask(limits, |peer| {
            peer.request();
            peer.hold();
        });
        assert_failed(&failed, Timeout, &["no answer within 150ms"]);
        assert!(failed.exchange.sent.is_some() && failed.exchange.status.is_none());
    }
}

#[test]
fn a_server_that_stops_within_the_head() {
    let failed = ask(QUIET, |peer| {
        peer.request();
        peer.send(&STREAM_HEAD[..30]);
        peer.hold();
    });
    assert_failed(&failed, Timeout, &["no answer within 150ms"]);
}

#[test]
fn a_server_that_stops_after_the_head() {
    let silent = |peer: &mut crate::server::Peer| {
        peer.request();
        peer.send(STREAM_HEAD);
        peer.hold();
    };
    assert_failed(&ask(QUIET, silent), Timeout, &["silent for 150ms"]);
    assert_failed(&ask(SHORT, silent), Timeout, &["not finished within 150ms"]);
}

#[test]
fn f80_silence_in_the_middle_of_a_stream_is_a_timeout_and_keeps_what_came() {
    let server = Server::start(|peer| {
        peer.request();
        peer.send(format!("{STREAM_HEAD}{}", chunk(&[ROLE, &token("4"), &token("2")].concat())));
        peer.hold();
    });
    let mut client = Client::new(&server.base_url());
    let failed = client.ask(QUIET);
    assert_failed(&failed, Timeout, &["silent for 150ms", "middle of the answer"]);
    assert_eq!((failed.answer.text(), failed.exchange.status), ("42", Some(200)));
    assert!(failed.answer.times().last_token.is_some());
    // The connection is given up: the engine sees that nobody reads any more, and the next request has its own.
    assert_failed(&client.ask(QUIET), Timeout, &[]);
    assert_eq!(server.accepted(), 2);
}

#[test]
fn f80_silence_after_the_finish_reason_is_a_timeout_too() {
    let failed = ask(QUIET, |peer| {
        peer.request();
        peer.send(format!("{STREAM_HEAD}{}", chunk(&[ROLE, &token("4"), &finish("stop")].concat())));
        peer.hold();
    });
    assert_failed(&failed, Timeout, &["silent"]);
}

#[test]
fn a_stream_that_is_never_silent_for_long_ends_at_the_whole_limit() {
    let limits = Limits { whole: Duration::from_millis(700), silence: Duration::from_millis(500) };
    let failed = ask(limits, |peer| {
        peer.request();
        peer.send(STREAM_HEAD);
        for _ in 0..100 {
            peer.send(chunk(&token("x")));
            thread::sleep(Duration::from_millis(20));
        }
    });
    assert_failed(&failed, Timeout, &["not finished within 700ms"]);
    assert!(failed.answer.output_events() > 1);
}

#[test]
fn a_stream_of_comments_only_is_not_silent_but_ends_at_the_whole_limit() {
    let limits = Limits { whole: Duration::from_millis(700), silence: Duration::from_millis(500) };
    let failed = ask(limits, |peer| {
        peer.request();
        peer.send(STREAM_HEAD);
        for _ in 0..100 {
            peer.send(chunk(": waiting in the queue\n\n"));
            thread::sleep(Duration::from_millis(20));
        }
    });
    assert_failed(&failed, Timeout, &["not finished within 700ms"]);
    assert_eq!(failed.answer.times().first_event, None);
}

#[test]
fn a_stream_held_open_after_done_is_not_waited_for() {
    let held = |peer: &mut crate::server::Peer| {
        peer.request();
        peer.send(format!("{STREAM_HEAD}{}", chunk(&events("4"))));
        peer.hold();
    };
    let server = Server::start(held);
    let mut client = Client::new(&server.base_url());
    for _ in 0..2 {
        let answered = client.ask(PATIENT);
        assert_answered(&answered, "4");
        assert!(answered.ended.since(answered.scheduled) < PATIENT.whole);
    }
    assert_eq!(server.accepted(), 2);
}

#[test]
fn pings_after_done_do_not_keep_a_slot_busy() {
    let answered = ask(PATIENT, |peer| {
        peer.request();
        peer.send(format!("{STREAM_HEAD}{}", chunk(&events("4"))));
        for _ in 0..2000 {
            peer.send(chunk(": ping\n\n"));
            thread::sleep(Duration::from_millis(10));
        }
        peer.send(LAST_CHUNK);
    });
    assert_answered(&answered, "4");
    assert!(answered.ended.since(answered.scheduled) < PATIENT.whole);
}

#[test]
fn a_stream_that_goes_on_after_an_error_is_not_waited_for() {
    let failed = ask(PATIENT, |peer| {
        peer.request();
        peer.send(format!("{STREAM_HEAD}{}", chunk("data: {\"error\":\"dead\"}\n\n")));
        peer.hold();
    });
    assert_failed(&failed, aforo::protocol::FailureReason::Engine, &["dead"]);
    assert!(failed.ended.since(failed.scheduled) < PATIENT.whole);
}

#[test]
fn a_late_end_of_the_response_is_the_end_and_the_connection_is_kept() {
    let server = Server::start(|peer| {
        while peer.request().is_some() {
            let whole = answer("4");
            let (most, end) = whole.split_at(whole.len() - LAST_CHUNK.len());
            peer.send(most);
            peer.wait_until_read();
            peer.send(end);
        }
    });
    let mut client = Client::new(&server.base_url());
    for _ in 0..2 {
        let answered = client.ask(PATIENT);
        assert_answered(&answered, "4");
        let times = answered.answer.times();
        assert!(times.end > times.last_token);
    }
    assert_eq!(server.accepted(), 1);
}
