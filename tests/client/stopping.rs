//! A phase that is ended before its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use aforo::measure::{Halt, PhaseEnd, Trouble};
use aforo::protocol::FailureReason::Cancelled;
use tokio::sync::watch;

use crate::asking::{PATIENT, assert_answered, assert_failed};
use crate::concurrency::{Order, documents, start, take, work};
use crate::server::{Server, wait_until};
use crate::wire::{STREAM_HEAD, answer, chunk, token};

/// Answers some requests and begins to answer all others; counts those that it holds.
fn holding_after(answers: usize) -> (Server, Arc<AtomicUsize>) {
    let (taken, held) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let holds = Arc::clone(&held);
    let server = Server::start(move |peer| {
        while peer.request().is_some() {
            if taken.fetch_add(1, SeqCst) < answers {
                peer.send(answer("4"));
            } else {
                peer.send(format!("{STREAM_HEAD}{}", chunk(&token("4"))));
                peer.wait_until_read();
                holds.fetch_add(1, SeqCst);
                return peer.hold();
            }
        }
    });
    (server, held)
}

#[test]
fn what_is_in_flight_at_a_stop_is_cancelled_and_nothing_more_is_sent() {
    let (server, held) = holding_after(20);
    let (stop, stopped) = watch::channel(Halt::No);
    let load = start(&server.base_url(), stopped);
    let stopping = thread::spawn(move || {
        wait_until("all places are held", || held.load(SeqCst) == 8);
        stop.send_replace(Halt::Now);
        stop
    });
    let order = Order { documents: documents(100), concurrency: 8 };
    let taken = take(&load, work(order, PATIENT), |_| true);
    assert_eq!(taken.end, PhaseEnd::Stopped);
    let (cancelled, answered): (Vec<_>, Vec<_>) =
        taken.captures.iter().partition(|capture| capture.cancelled);
    assert_eq!((answered.len(), cancelled.len()), (20, 8));
    for capture in answered {
        assert_answered(capture, "4");
    }
    for capture in cancelled {
        assert_failed(capture, Cancelled, &["stopped while it was in flight"]);
        assert_eq!(capture.answer.text(), "4");
    }
    assert_eq!((taken.counts.sent, taken.counts.ended, taken.counts.in_flight), (28, 28, 0));
    drop(stopping.join().unwrap());
}

#[test]
fn a_load_whose_stop_has_no_owner_ends_as_if_stopped() {
    let (server, held) = holding_after(0);
    let (stop, stopped) = watch::channel(Halt::No);
    let load = start(&server.base_url(), stopped);
    let dropping = thread::spawn(move || {
        wait_until("both places are held", || held.load(SeqCst) == 2);
        drop(stop);
    });
    let order = Order { documents: documents(100), concurrency: 2 };
    let taken = take(&load, work(order, PATIENT), |_| true);
    assert_eq!(taken.captures.len(), 2);
    assert!(taken.captures.iter().all(|capture| capture.cancelled));
    dropping.join().unwrap();
}

#[test]
fn a_writer_that_is_gone_ends_the_phase() {
    let (server, _) = holding_after(usize::MAX);
    let (_stop, stopped) = watch::channel(Halt::No);
    let load = start(&server.base_url(), stopped);
    let order = Order { documents: documents(100), concurrency: 2 };
    let taken = take(&load, work(order, PATIENT), |_| false);
    assert_eq!(taken.captures.len(), 2);
}

#[test]
fn a_stop_is_heard_while_connections_are_being_opened() {
    // Takes connections and never answers the TLS handshake.
    let server = Server::start(crate::server::Peer::hold);
    let (stop, stopped) = watch::channel(Halt::No);
    let load = start(&server.base_url().replace("http:", "https:"), stopped);
    let accepted = server.accepted_count();
    let stopping = thread::spawn(move || {
        wait_until("all connections are begun", || accepted.load(SeqCst) == 4);
        stop.send_replace(Halt::Now);
        stop
    });
    let order = Order { documents: documents(100), concurrency: 4 };
    let limits = aforo::engine::openai::Limits { whole: std::time::Duration::from_secs(3600), ..PATIENT };
    let taken = take(&load, work(order, limits), |_| true);
    assert_eq!((taken.end, taken.captures.len()), (PhaseEnd::Stopped, 0));
    drop(stopping.join().unwrap());
}

#[test]
fn an_answer_that_ended_before_the_stop_is_not_cancelled() {
    let server = Server::start(|peer| {
        peer.request();
        peer.send(answer("4"));
        peer.hold();
    });
    let (stop, stopped) = watch::channel(Halt::No);
    let load = start(&server.base_url(), stopped);
    let order = Order { documents: documents(100), concurrency: 1 };
    let taken = take(&load, work(order, PATIENT), move |_| {
        stop.send_replace(Halt::Now);
        true
    });
    assert_eq!((taken.end, taken.captures.len()), (PhaseEnd::Stopped, 1));
    assert_answered(&taken.captures[0], "4");
}

#[test]
fn a_drain_lets_what_is_in_flight_end_and_sends_nothing_more() {
    let release = Arc::new(AtomicUsize::new(0));
    let (held, released) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&release));
    let holds = Arc::clone(&held);
    let server = Server::start(move |peer| {
        while peer.request().is_some() {
            holds.fetch_add(1, SeqCst);
            wait_until("it may answer", || released.load(SeqCst) > 0);
            peer.send(answer("4"));
        }
    });
    let (halt, halted) = watch::channel(Halt::No);
    let load = start(&server.base_url(), halted);
    let draining = thread::spawn(move || {
        wait_until("all places are held", || held.load(SeqCst) == 4);
        halt.send_replace(Halt::Drain);
        release.store(1, SeqCst);
        halt
    });
    let order = Order { documents: documents(100), concurrency: 4 };
    let taken = take(&load, work(order, PATIENT), |_| true);
    assert_eq!((taken.end, taken.captures.len()), (PhaseEnd::Drained, 4));
    for capture in &taken.captures {
        assert_answered(capture, "4");
    }
    drop(draining.join().unwrap());
}

#[test]
fn only_what_is_picked_is_sent_in_its_order() {
    let server = Server::start(|peer| {
        while peer.request().is_some() {
            peer.send(answer("4"));
        }
    });
    let (_halt, halted) = watch::channel(Halt::No);
    let load = start(&server.base_url(), halted);
    let mut work = work(Order { documents: documents(100), concurrency: 1 }, PATIENT);
    work.picks = Arc::from([7, 3, 99]);
    let taken = take(&load, work, |_| true);
    let indices: Vec<_> = taken.captures.iter().map(|capture| capture.index).collect();
    assert_eq!((taken.end, indices), (PhaseEnd::Complete, vec![7, 3, 99]));
}

#[test]
fn a_server_that_only_fails_is_not_given_every_document() {
    let server = Server::start(|peer| {
        while peer.request().is_some() {
            peer.send("HTTP/1.1 500 X\r\ncontent-length: 0\r\n\r\n");
        }
    });
    let (_halt, halted) = watch::channel(Halt::No);
    let load = start(&server.base_url(), halted);
    let mut work = work(Order { documents: documents(300), concurrency: 4 }, PATIENT);
    work.max_error_rate = 0.5;
    let taken = take(&load, work, |_| true);
    let limit = Trouble::ErrorRate { failed: 50, of: 50, limit: 0.5 };
    assert_eq!(taken.end, PhaseEnd::Cut(limit));
    assert!((50..=53).contains(&taken.captures.len()), "{}", taken.captures.len());
}
