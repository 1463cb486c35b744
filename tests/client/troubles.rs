//! What makes it pointless to go on: the phase is cut, and what is spent on the fault is bounded.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use aforo::engine::openai::Limits;
use aforo::measure::{Halt, Phase, PhaseEnd, Trouble, Work};
use aforo::protocol::FailureReason;
use tokio::sync::watch;

use crate::asking::{PATIENT, assert_answered};
use crate::concurrency::{Order, Taken, documents, start, take, work};
use crate::server::{Gate, Server};
use crate::wire::{DONE, LAST_CHUNK, ROLE, STREAM_HEAD, answer, chunk, error, page, token};

/// Takes a phase of a hundred documents from a server that nobody halts.
fn hundred(server: &Server, concurrency: u32, change: impl Fn(Work) -> Work) -> Taken {
    let (_halt, halted) = watch::channel(Halt::No);
    let load = start(&server.base_url(), halted);
    let order = Order { documents: documents(100), concurrency };
    take(&load, change(work(order, PATIENT)), |_| true)
}

/// Answers each request by its number, counted over all connections.
fn numbered(reply: impl Fn(usize) -> String + Send + Sync + 'static) -> Server {
    let number = AtomicUsize::new(0);
    Server::start(move |peer| {
        while peer.request().is_some() {
            peer.send(reply(number.fetch_add(1, SeqCst)));
        }
    })
}

fn broken() -> String {
    error("500 Internal Server Error", "worker died")
}

fn gone(taken: &Taken) -> &str {
    let PhaseEnd::Cut(Trouble::EngineGone { text }) = &taken.end else { panic!("{:?}", taken.end) };
    text
}

#[test]
fn an_engine_that_goes_away_in_the_middle_costs_less_than_two_rounds() {
    for concurrency in [1, 2, 8] {
        let (taken, places) = (AtomicUsize::new(0), usize::try_from(concurrency).unwrap());
        let all = Barrier::new(places);
        // Nobody listens behind these connections, and after 40 answers all of them break at the same time.
        let server = Server::limited(places, move |peer| {
            while peer.request().is_some() {
                if taken.fetch_add(1, SeqCst) >= 40 {
                    all.wait();
                    return peer.reset();
                }
                peer.send(answer("4"));
            }
        });
        let taken = hundred(&server, concurrency, |work| work);
        let text = gone(&taken);
        assert!(text.contains("in a row got no answer") && text.contains("cannot connect"), "{text}");
        let (answered, failed): (Vec<_>, Vec<_>) =
            taken.captures.iter().partition(|capture| capture.failure().is_none());
        assert_eq!(answered.len(), 40);
        assert!((3..=3.max(places) + places - 1).contains(&failed.len()), "{} of {places}", failed.len());
        assert!(failed.iter().all(|c| c.failure().unwrap().0 == FailureReason::Connection && !c.cancelled));
        assert_eq!((taken.counts.sent, taken.counts.in_flight), (taken.captures.len() as u64, 0));
    }
}

#[test]
fn an_engine_that_falls_silent_is_gone_too() {
    let server = Server::start(|peer| {
        peer.request();
        peer.hold();
    });
    let limits = Limits { silence: Duration::from_millis(50), ..PATIENT };
    let taken = hundred(&server, 4, |work| Work { limits, ..work });
    assert!(gone(&taken).contains("no answer within 50ms"), "{:?}", taken.end);
    assert!((4..=7).contains(&taken.captures.len()), "{}", taken.captures.len());
}

#[test]
fn an_engine_that_is_slow_is_there() {
    // Each answer begins and takes too long.
    let server = Server::start(|peer| {
        peer.request();
        peer.send(format!("{STREAM_HEAD}{}", chunk(&token("4"))));
        peer.hold();
    });
    let limits = Limits { silence: Duration::from_millis(100), ..PATIENT };
    let taken = hundred(&server, 16, |work| Work { limits, max_error_rate: 1.0, ..work });
    assert_eq!((taken.end, taken.captures.len()), (PhaseEnd::Complete, 100));
}

#[test]
fn an_engine_that_is_gone_at_the_very_end_leaves_the_phase_unfinished() {
    let taken = AtomicUsize::new(0);
    let all = Barrier::new(8);
    let server = Server::limited(8, move |peer| {
        while peer.request().is_some() {
            if taken.fetch_add(1, SeqCst) >= 92 {
                // The last eight are all in flight when the first of them breaks.
                all.wait();
                return peer.reset();
            }
            peer.send(answer("4"));
        }
    });
    let taken = hundred(&server, 8, |work| work);
    assert!(gone(&taken).starts_with("8 requests in a row"), "{:?}", taken.end);
    assert_eq!((taken.counts.sent, taken.captures.len()), (100, 100));
}

#[test]
fn an_engine_that_answers_only_errors_is_cut_after_fifty() {
    for concurrency in [1, 16] {
        let taken = hundred(&numbered(|_| broken()), concurrency, |work| work);
        let trouble = Trouble::ErrorRate { failed: 50, of: 50, limit: 0.5 };
        assert_eq!(taken.end, PhaseEnd::Cut(trouble));
        let most = 50 + usize::try_from(concurrency).unwrap() - 1;
        assert!((50..=most).contains(&taken.captures.len()), "{}", taken.captures.len());
        assert!(taken.captures.iter().all(|capture| !capture.cancelled));
    }
}

#[test]
fn a_warm_up_is_watched_as_well_and_a_probe_is_not() {
    let cut = hundred(&numbered(|_| broken()), 1, |work| Work { phase: Phase::WarmUp, ..work });
    assert!(matches!(cut.end, PhaseEnd::Cut(Trouble::ErrorRate { .. })), "{:?}", cut.end);
    let whole = hundred(&numbered(|_| broken()), 1, |work| Work { phase: Phase::Probe, ..work });
    assert_eq!((whole.end, whole.captures.len()), (PhaseEnd::Complete, 100));
}

#[test]
fn failures_here_and_there_do_not_cut() {
    for share in [2, 5, 20] {
        let server = numbered(move |number| if number % share == 0 { broken() } else { answer("4") });
        let taken = hundred(&server, 1, |work| work);
        assert_eq!((taken.end, taken.captures.len()), (PhaseEnd::Complete, 100), "one in {share}");
    }
}

#[test]
fn a_third_of_the_documents_rejected_does_not_cut() {
    let server = numbered(|number| match number % 10 {
        0..=2 => error("400 Bad Request", "prompt is too long"),
        _ => answer("4"),
    });
    let taken = hundred(&server, 4, |work| work);
    assert_eq!((taken.end, taken.captures.len()), (PhaseEnd::Complete, 100));
    let strict = hundred(&server, 4, |work| Work { max_error_rate: 0.1, ..work });
    assert!(matches!(strict.end, PhaseEnd::Cut(Trouble::ErrorRate { .. })), "{:?}", strict.end);
}

#[test]
fn a_limit_of_one_never_cuts() {
    let taken = hundred(&numbered(|_| broken()), 8, |work| Work { max_error_rate: 1.0, ..work });
    assert_eq!((taken.end, taken.captures.len()), (PhaseEnd::Complete, 100));
}

#[test]
fn a_high_error_rate_seen_when_all_is_sent_takes_nothing_from_the_phase() {
    // 26 failures in the last fifty: the last document is the one too many.
    let server = numbered(|number| if number >= 74 { broken() } else { answer("4") });
    let taken = hundred(&server, 1, |work| work);
    assert_eq!((taken.end, taken.captures.len()), (PhaseEnd::Complete, 100));
}

#[test]
fn a_cause_that_is_seen_while_the_rest_ends_takes_the_place_of_the_rate() {
    let (number, all, symptoms) = (AtomicUsize::new(0), Barrier::new(8), Gate::default());
    let shown = symptoms.clone();
    let server = Server::start(move |peer| {
        while peer.request().is_some() {
            if number.fetch_add(1, SeqCst) < 49 {
                peer.send(answer("4"));
            } else if all.wait().is_leader() {
                shown.wait();
                peer.send(error("500 Internal Server Error", "GPU is lost"));
            } else {
                peer.send(broken());
            }
        }
    });
    let (_halt, halted) = watch::channel(Halt::No);
    let load = start(&server.base_url(), halted);
    let order = Order { documents: documents(100), concurrency: 8 };
    let failures = AtomicUsize::new(0);
    let work = Work { max_error_rate: 0.0, ..work(order, PATIENT) };
    let taken = take(&load, work, move |capture| {
        if capture.failure().is_some() && failures.fetch_add(1, SeqCst) == 6 {
            symptoms.open();
        }
        true
    });
    assert!(matches!(taken.end, PhaseEnd::Cut(Trouble::GpuLost { .. })), "{:?}", taken.end);
    assert_eq!(taken.captures.len(), 57);
}

#[test]
fn g04_g05_a_lost_gpu_cuts_at_once() {
    let said = "CUDA error: uncorrectable ECC error encountered";
    let event = format!("data: {{\"error\":{{\"message\":\"{said}\",\"code\":500}}}}\n\n");
    let streamed = format!("{STREAM_HEAD}{}{LAST_CHUNK}", chunk(&[ROLE, &token("4"), &event, DONE].concat()));
    let long = format!("{} {said}", "a stack trace ".repeat(100));
    let plain = error("500 Internal Server Error", said);
    for reply in [plain, streamed, page("500 Internal Server Error", "", &long)] {
        let server = numbered(move |number| if number == 20 { reply.clone() } else { answer("4") });
        let taken = hundred(&server, 1, |work| work);
        let PhaseEnd::Cut(Trouble::GpuLost { text }) = &taken.end else { panic!("{:?}", taken.end) };
        assert!(text.contains(said) || text.contains("a stack trace"), "{text}");
        assert_eq!(taken.captures.len(), 21);
    }
}

#[test]
fn a_refusal_that_repeats_a_document_about_a_lost_gpu_does_not_cut() {
    let server =
        numbered(|_| error("400 Bad Request", "cannot read: 'the GPU is lost, it has fallen off the bus'"));
    let taken = hundred(&server, 1, |work| Work { max_error_rate: 1.0, ..work });
    assert_eq!((taken.end, taken.captures.len()), (PhaseEnd::Complete, 100));
}

#[test]
fn what_is_in_flight_at_a_cut_ends_by_itself() {
    let lost = Gate::default();
    let (gate, number) = (lost.clone(), AtomicUsize::new(0));
    let server = Server::start(move |peer| {
        while peer.request().is_some() {
            if number.fetch_add(1, SeqCst) == 3 {
                peer.send(error("500 Internal Server Error", "GPU is lost"));
            } else {
                gate.wait();
                peer.send(answer("4"));
            }
        }
    });
    let (_halt, halted) = watch::channel(Halt::No);
    let load = start(&server.base_url(), halted);
    let order = Order { documents: documents(100), concurrency: 4 };
    let taken = take(&load, work(order, PATIENT), move |capture| {
        if capture.failure().is_some() {
            lost.open();
        }
        true
    });
    assert!(matches!(taken.end, PhaseEnd::Cut(Trouble::GpuLost { .. })), "{:?}", taken.end);
    assert_eq!(taken.captures.len(), 4);
    for capture in &taken.captures[1..] {
        assert_answered(capture, "4");
    }
}
