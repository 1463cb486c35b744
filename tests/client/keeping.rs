//! Connections that are kept between requests, and what happens when the server does not keep them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use aforo::protocol::FailureReason::Connection;

use crate::asking::{Client, PATIENT, assert_answered, assert_failed};
use crate::server::{Gate, Peer, Server};
use crate::wire::{STREAM_HEAD, answer, events, page};

/// Counts the requests that a server took, over all connections.
fn counted(serve: impl Fn(&mut Peer, &AtomicUsize) + Send + Sync + 'static) -> (Server, Arc<AtomicUsize>) {
    let taken = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&taken);
    (Server::start(move |peer| serve(peer, &count)), taken)
}

#[test]
fn f75_one_connection_serves_all_requests_and_its_opening_is_in_no_time() {
    let server = Server::start(|peer| {
        while peer.request().is_some() {
            peer.send(answer("4"));
        }
    });
    let mut client = Client::new(&server.base_url());
    let first = client.ask(PATIENT);
    assert_answered(&first, "4");
    let opened = first.exchange.connected_in.unwrap();
    assert!(first.exchange.sent.unwrap().since(first.scheduled) >= opened);
    for _ in 0..20 {
        let next = client.ask(PATIENT);
        assert_answered(&next, "4");
        assert_eq!((next.exchange.connected_in, next.exchange.resent), (None, false));
    }
    assert_eq!(server.accepted(), 1);
}

#[test]
fn a_connection_closed_between_requests_is_opened_again_and_nothing_is_sent_twice() {
    let closed = Gate::default();
    let gate = closed.clone();
    let (server, taken) = counted(move |peer, taken| {
        peer.request();
        taken.fetch_add(1, SeqCst);
        peer.send(answer("4"));
        if peer.number == 0 {
            peer.wait_until_read();
            peer.half_close();
            gate.open();
        }
        peer.hold();
    });
    let mut client = Client::new(&server.base_url());
    assert_answered(&client.ask(PATIENT), "4");
    closed.wait();
    let second = client.ask(PATIENT);
    assert_answered(&second, "4");
    assert!(second.exchange.connected_in.is_some() && !second.exchange.resent);
    assert_eq!((server.accepted(), taken.load(SeqCst)), (2, 2));
}

#[test]
fn a_request_that_crosses_the_closing_is_sent_once_more_and_says_so() {
    let (server, taken) = counted(|peer, taken| {
        peer.request();
        taken.fetch_add(1, SeqCst);
        peer.send(answer("4"));
        while peer.request().is_some() {
            taken.fetch_add(1, SeqCst);
            if peer.number == 0 {
                return;
            }
            peer.send(answer("4"));
        }
    });
    let mut client = Client::new(&server.base_url());
    assert!(!client.ask(PATIENT).exchange.resent);
    let second = client.ask(PATIENT);
    assert_answered(&second, "4");
    assert!(second.exchange.resent && second.exchange.connected_in.is_some());
    assert_eq!(taken.load(SeqCst), 3);
    let third = client.ask(PATIENT);
    assert_answered(&third, "4");
    assert!(!third.exchange.resent);
}

#[test]
fn a_request_is_sent_at_most_twice() {
    let (server, taken) = counted(|peer, taken| {
        peer.request();
        taken.fetch_add(1, SeqCst);
        if peer.number == 0 {
            peer.send(answer("4"));
            peer.request();
            taken.fetch_add(1, SeqCst);
        }
        peer.reset();
    });
    let mut client = Client::new(&server.base_url());
    assert_answered(&client.ask(PATIENT), "4");
    let second = client.ask(PATIENT);
    assert_failed(&second, Connection, &["reset"]);
    assert!(second.exchange.resent);
    assert_eq!((server.accepted(), taken.load(SeqCst)), (2, 3));
}

#[test]
fn a_kept_connection_that_breaks_within_the_head_is_a_failure_and_not_sent_again() {
    let (server, taken) = counted(|peer, taken| {
        peer.request();
        taken.fetch_add(1, SeqCst);
        peer.send(answer("4"));
        peer.request();
        taken.fetch_add(1, SeqCst);
        peer.send(&STREAM_HEAD[..20]);
        peer.wait_until_read();
        peer.reset();
    });
    let mut client = Client::new(&server.base_url());
    assert_answered(&client.ask(PATIENT), "4");
    let second = client.ask(PATIENT);
    assert_failed(&second, Connection, &["reset"]);
    assert!(!second.exchange.resent);
    assert_eq!((server.accepted(), taken.load(SeqCst)), (1, 2));
}

#[test]
fn a_request_that_the_engine_took_and_dropped_later_is_a_failure_and_not_sent_again() {
    let (server, taken) = counted(|peer, taken| {
        peer.request();
        taken.fetch_add(1, SeqCst);
        peer.send(answer("4"));
        peer.request();
        taken.fetch_add(1, SeqCst);
        // Longer than any round trip.
        thread::sleep(Duration::from_millis(1100));
        peer.reset();
    });
    let mut client = Client::new(&server.base_url());
    assert_answered(&client.ask(PATIENT), "4");
    let second = client.ask(PATIENT);
    assert_failed(&second, Connection, &["reset"]);
    assert!(!second.exchange.resent);
    assert_eq!((server.accepted(), taken.load(SeqCst)), (1, 2));
}

#[test]
fn an_engine_that_is_gone_is_not_said_to_have_been_asked_twice() {
    let server = Server::limited(1, |peer| {
        peer.request();
        peer.send(answer("4"));
        peer.request();
    });
    let mut client = Client::new(&server.base_url());
    assert_answered(&client.ask(PATIENT), "4");
    let second = client.ask(PATIENT);
    assert_failed(&second, Connection, &["cannot connect"]);
    assert!(!second.exchange.resent && second.exchange.sent.is_some());
}

#[test]
fn a_server_that_says_connection_close_gets_a_connection_per_request() {
    let closing = |text: &str| answer(text).replacen("\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1);
    let server = Server::start(move |peer| {
        peer.request();
        peer.send(closing("4"));
    });
    let mut client = Client::new(&server.base_url());
    for _ in 0..5 {
        let answered = client.ask(PATIENT);
        assert_answered(&answered, "4");
        assert!(answered.exchange.connected_in.is_some() && !answered.exchange.resent);
    }
    assert_eq!(server.accepted(), 5);
}

#[test]
fn a_server_that_closes_every_third_request_unsaid_costs_no_request() {
    let (server, _) = counted(|peer, _| {
        for _ in 0..3 {
            if peer.request().is_none() {
                return;
            }
            peer.send(answer("4"));
        }
    });
    let mut client = Client::new(&server.base_url());
    for _ in 0..12 {
        assert_answered(&client.ask(PATIENT), "4");
    }
    assert_eq!(server.accepted(), 4);
}

#[test]
fn an_http_1_0_server_ends_its_answers_by_closing() {
    let server = Server::start(|peer| {
        peer.request();
        peer.send(format!("HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n{}", events("4")));
    });
    let mut client = Client::new(&server.base_url());
    for _ in 0..3 {
        let answered = client.ask(PATIENT);
        assert_answered(&answered, "4");
        assert!(!answered.exchange.resent);
    }
    assert_eq!(server.accepted(), 3);
}

#[test]
fn bytes_that_nobody_asked_for_end_a_kept_connection() {
    let said = Gate::default();
    let gate = said.clone();
    let server = Server::start(move |peer| {
        peer.request();
        peer.send(answer("4"));
        if peer.number == 0 {
            peer.wait_until_read();
            peer.send(page("408 Request Timeout", "", "idle"));
            gate.open();
        }
        peer.hold();
    });
    let mut client = Client::new(&server.base_url());
    assert_answered(&client.ask(PATIENT), "4");
    said.wait();
    let second = client.ask(PATIENT);
    assert_answered(&second, "4");
    assert!(!second.exchange.resent);
}
