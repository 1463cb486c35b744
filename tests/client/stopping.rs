//! A phase that is ended before its time.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

use aforo::measure::{Halt, PhaseEnd, Work};
use aforo::protocol::FailureReason::Cancelled;
use tokio::sync::watch;

use crate::asking::{PATIENT, assert_answered, assert_failed};
use crate::concurrency::{Order, documents, start, take, work};
use crate::server::{Gate, Server, wait_until};
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
    assert_eq!((taken.end, taken.captures.len()), (PhaseEnd::Stopped, 2));
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
    assert_eq!((taken.end, taken.captures.len()), (PhaseEnd::Stopped, 2));
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

/// Answers each request when its gate is opened; counts those that wait.
fn answering_at(gate: &Gate) -> (Server, Arc<AtomicUsize>) {
    let (gate, waiting) = (gate.clone(), Arc::new(AtomicUsize::new(0)));
    let waits = Arc::clone(&waiting);
    let server = Server::start(move |peer| {
        while peer.request().is_some() {
            waits.fetch_add(1, SeqCst);
            gate.wait();
            peer.send(answer("4"));
        }
    });
    (server, waiting)
}

#[test]
fn a_drain_sends_nothing_more_and_lets_what_is_in_flight_end() {
    let gate = Gate::default();
    let (server, waiting) = answering_at(&gate);
    let (halt, halted) = watch::channel(Halt::No);
    let load = start(&server.base_url(), halted);
    let received = Arc::clone(&waiting);
    let draining = thread::spawn(move || {
        wait_until("all places are taken", || waiting.load(SeqCst) == 8);
        halt.send_replace(Halt::Drain);
        gate.open();
        halt
    });
    let order = Order { documents: documents(100), concurrency: 8 };
    let taken = take(&load, work(order, PATIENT), |_| true);
    assert_eq!((taken.end, taken.captures.len()), (PhaseEnd::Drained, 8));
    for capture in &taken.captures {
        assert_answered(capture, "4");
    }
    assert_eq!((taken.counts.sent, taken.counts.ended), (8, 8));
    // The next phase takes what is left, on the same connections.
    let halt = draining.join().unwrap();
    halt.send_replace(Halt::No);
    let order = Order { documents: documents(100), concurrency: 8 };
    let taken = take(&load, Work { picks: (8..100).collect(), ..work(order, PATIENT) }, |_| true);
    assert_eq!((taken.end, taken.captures.len()), (PhaseEnd::Complete, 92));
    assert_eq!((received.load(SeqCst), server.accepted()), (100, 8));
}

#[test]
fn a_stop_in_a_drain_cancels_what_is_left() {
    let (server, held) = holding_after(20);
    let (halt, halted) = watch::channel(Halt::No);
    let load = start(&server.base_url(), halted);
    let stopping = thread::spawn(move || {
        wait_until("all places are held", || held.load(SeqCst) == 4);
        halt.send_replace(Halt::Drain);
        halt.send_replace(Halt::Now);
        halt
    });
    let order = Order { documents: documents(100), concurrency: 4 };
    let taken = take(&load, work(order, PATIENT), |_| true);
    assert_eq!((taken.end, taken.captures.len()), (PhaseEnd::Stopped, 24));
    assert_eq!(taken.captures.iter().filter(|capture| capture.cancelled).count(), 4);
    drop(stopping.join().unwrap());
}

#[test]
fn a_halt_that_comes_with_the_last_answer_takes_nothing_from_the_phase() {
    for asked in [Halt::Drain, Halt::Now] {
        let (server, _) = holding_after(usize::MAX);
        let (halt, halted) = watch::channel(Halt::No);
        let load = start(&server.base_url(), halted);
        let order = Order { documents: documents(10), concurrency: 1 };
        let taken = take(&load, work(order, PATIENT), move |capture| {
            if capture.index == 9 {
                halt.send_replace(asked);
            }
            true
        });
        assert_eq!((taken.end, taken.captures.len()), (PhaseEnd::Complete, 10), "{asked:?}");
    }
}

#[test]
fn nothing_is_sent_in_a_phase_that_begins_halted() {
    let server = Server::start(|peer| assert!(peer.request().is_none(), "a request was sent"));
    for (asked, end) in [(Halt::Drain, PhaseEnd::Drained), (Halt::Now, PhaseEnd::Stopped)] {
        let (_halt, halted) = watch::channel(asked);
        let load = start(&server.base_url(), halted);
        let order = Order { documents: documents(10), concurrency: 2 };
        let taken = take(&load, work(order, PATIENT), |_| true);
        assert_eq!((taken.end, taken.counts.sent), (end, 0));
    }
}

#[test]
fn exactly_the_picked_documents_are_sent_in_their_order() {
    let (asked, texts) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let (ids, bodies) = (Arc::clone(&asked), Arc::clone(&texts));
    let server = Server::start(move |peer| {
        while let Some(request) = peer.request() {
            ids.lock().unwrap().push(request.header("x-request-id").unwrap().to_owned());
            bodies.lock().unwrap().push(String::from_utf8(request.body).unwrap());
            peer.send(answer("4"));
        }
    });
    let (_halt, halted) = watch::channel(Halt::No);
    let load = start(&server.base_url(), halted);
    let order = Order { documents: documents(10), concurrency: 1 };
    let taken = take(&load, Work { picks: [7, 2, 9].into(), ..work(order, PATIENT) }, |_| true);
    assert_eq!(taken.end, PhaseEnd::Complete);
    assert_eq!(taken.captures.iter().map(|capture| capture.index).collect::<Vec<_>>(), [7, 2, 9]);
    assert_eq!(*asked.lock().unwrap(), ["test-7", "test-2", "test-9"]);
    for (body, text) in texts.lock().unwrap().iter().zip(["text 7", "text 2", "text 9"]) {
        assert!(body.contains(text), "{body}");
    }
}
