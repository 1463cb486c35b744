//! Connections that end before the answer does.

use aforo::measure::Capture;
use aforo::protocol::FailureReason::Connection;

use crate::asking::{PATIENT, answered_with, ask, assert_answered, assert_failed};
use crate::wire::{DONE, LAST_CHUNK, ROLE, STREAM_HEAD, chunk, events, finish, token, usage};

/// A request whose connection is reset after these bytes were read.
fn reset_after(bytes: impl Into<Vec<u8>>) -> Capture {
    let bytes = bytes.into();
    ask(PATIENT, move |peer| {
        peer.request();
        peer.send(&bytes);
        peer.wait_until_read();
        peer.reset();
    })
}

#[test]
fn a_reset_before_the_head() {
    let failed = reset_after("");
    assert_failed(&failed, Connection, &["reset"]);
    assert_eq!((failed.exchange.status, failed.exchange.resent), (None, false));
}

#[test]
fn a_close_before_the_head() {
    let failed = answered_with("");
    assert_failed(&failed, Connection, &["closed the connection"]);
    assert!(failed.exchange.sent.is_some() && !failed.exchange.resent);
}

#[test]
fn a_reset_and_a_close_within_the_head() {
    let half = &STREAM_HEAD[..30];
    assert_failed(&reset_after(half), Connection, &["reset"]);
    assert_failed(&answered_with(half), Connection, &["closed the connection"]);
}

#[test]
fn a_reset_within_the_body_keeps_what_came() {
    let failed = reset_after(format!("{STREAM_HEAD}{}", chunk(&[ROLE, &token("4"), &token("2")].concat())));
    assert_failed(&failed, Connection, &["reset"]);
    assert_eq!(failed.answer.text(), "42");
    assert_eq!(failed.exchange.status, Some(200));
}

#[test]
fn a_reset_between_the_finish_reason_and_the_end_is_a_failure() {
    let stream = [ROLE, &token("4"), &finish("stop")].concat();
    assert_failed(&reset_after(format!("{STREAM_HEAD}{}", chunk(&stream))), Connection, &["reset"]);
}

#[test]
fn a_reset_after_done_changes_nothing() {
    assert_answered(&reset_after(format!("{STREAM_HEAD}{}", chunk(&events("4")))), "4");
}

#[test]
fn a_stream_without_done_that_ends_cleanly_is_complete() {
    let stream = [ROLE, &token("4"), &finish("stop"), &usage(7, 1)].concat();
    assert_answered(&answered_with(format!("{STREAM_HEAD}{}{LAST_CHUNK}", chunk(&stream))), "4");
}

#[test]
fn a_body_cut_short_of_its_length() {
    let stream = [ROLE, &token("4"), &finish("stop"), DONE].concat();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: ";
    let sent = ROLE.len() + 20;
    let failed = answered_with(format!("{head}{}\r\n\r\n{}", stream.len(), &stream[..sent]));
    assert_failed(&failed, Connection, &["the server closed the connection"]);
    let json =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{\"choices\":[";
    assert_failed(&answered_with(json), Connection, &["the server closed the connection"]);
}

#[test]
fn a_body_cut_within_a_chunk_or_its_header() {
    let first = chunk(&[ROLE, &token("4")].concat());
    for end in ["", "3", "3f", "3f\r", "3f\r\ndata: {", "0\r\n"] {
        let failed = answered_with(format!("{STREAM_HEAD}{first}{end}"));
        assert_failed(&failed, Connection, &["the server closed the connection"]);
        assert_eq!(failed.answer.text(), "4", "cut after {end:?}");
    }
}

#[test]
fn a_server_that_only_stops_sending_is_seen_as_closed() {
    let failed = ask(PATIENT, |peer| {
        peer.request();
        peer.send(format!("{STREAM_HEAD}{}", chunk(ROLE)));
        peer.half_close();
        peer.hold();
    });
    assert_failed(&failed, Connection, &["the server closed the connection"]);
}
