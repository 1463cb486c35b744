//! The closed loop: exactly as many requests in flight as asked, whatever that number is.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use aforo::engine::openai::{Dialer, Endpoint, Isolation, Limits, Prepared, RequestForm};
use aforo::measure::{Capture, Halt, LiveCounts, Load, Phase, PhaseEnd, Work, raise_open_files};
use aforo::protocol::corpus::Document;
use aforo::protocol::{Api, Generation, Prompt, Reference};
use tokio::sync::watch;

use crate::asking::{PATIENT, assert_answered};
use crate::server::Server;
use crate::wire::answer;

pub(crate) struct Order {
    pub(crate) documents: Arc<[Prepared]>,
    pub(crate) concurrency: u32,
}

pub(crate) struct Taken {
    pub(crate) captures: Vec<Capture>,
    pub(crate) counts: LiveCounts,
    pub(crate) end: PhaseEnd,
}

pub(crate) fn documents(count: usize) -> Arc<[Prepared]> {
    let document = |index| Document {
        id: format!("d{index}"),
        text: format!("text {index}"),
        images: Vec::new(),
        reference: Reference::default(),
    };
    (0..count).map(|index| Prepared::new(index, &document(index)).unwrap()).collect()
}

pub(crate) fn work(order: Order, limits: Limits) -> Work {
    let prompt = Prompt { system: None, user: "{{text}}".to_owned() };
    let generation =
        Generation { max_tokens: 4, temperature: None, seed: None, extra: serde_json::Map::default() };
    Work {
        phase: Phase::Measurement,
        picks: (0..order.documents.len()).collect(),
        documents: order.documents,
        form: RequestForm::new(Api::Chat, "m", &prompt, &generation, &Isolation::None, ""),
        concurrency: order.concurrency,
        limits,
        max_error_rate: 0.5,
        request_prefix: "test".to_owned(),
    }
}

pub(crate) fn start(base_url: &str, halt: watch::Receiver<Halt>) -> Load {
    let endpoint = Endpoint::with_key(base_url, Api::Chat, None).unwrap();
    Load::start(Dialer::new(endpoint), halt).unwrap()
}

/// Takes a phase to its end; `meanwhile` sees each capture as it comes and says whether it was kept.
pub(crate) fn take(load: &Load, work: Work, meanwhile: impl Fn(&Capture) -> bool + Send + 'static) -> Taken {
    let captures = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&captures);
    let sink = Box::new(move |capture: Capture| {
        let keep = meanwhile(&capture);
        kept.lock().unwrap().push(capture);
        keep
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let end = runtime.block_on(load.take(work, sink)).unwrap();
    let captures = std::mem::take(&mut *captures.lock().unwrap());
    Taken { captures, counts: load.live().counts(), end }
}

pub(crate) fn run(server: &Server, order: Order) -> Taken {
    // Dropping the sender is a stop.
    let (_stop, stopped) = watch::channel(Halt::No);
    let load = start(&server.base_url(), stopped);
    take(&load, work(order, PATIENT), |_| true)
}

/// Lets a request go only while all `places` are taken, or when no further one can come: a load that keeps fewer in
/// flight than it should never gets on.
struct Rolling {
    places: usize,
    total: usize,
    inside: Mutex<Inside>,
    full: Condvar,
}

#[derive(Default)]
struct Inside {
    now: usize,
    peak: usize,
    arrived: usize,
}

impl Rolling {
    fn new(places: usize, total: usize) -> Arc<Self> {
        Arc::new(Self { places, total, inside: Mutex::default(), full: Condvar::new() })
    }

    fn pass(&self) {
        let mut inside = self.inside.lock().unwrap();
        inside.now += 1;
        inside.arrived += 1;
        inside.peak = inside.peak.max(inside.now);
        let may_go = |inside: &Inside| inside.now >= self.places || inside.arrived == self.total;
        if may_go(&inside) {
            if inside.arrived == self.total { self.full.notify_all() } else { self.full.notify_one() }
        }
        let (mut inside, waited) =
            self.full.wait_timeout_while(inside, Duration::from_secs(15), |inside| !may_go(inside)).unwrap();
        assert!(!waited.timed_out(), "only {} of {} in flight", inside.now, self.places);
        // Out before the answer is written: the next request cannot come earlier.
        inside.now -= 1;
    }
}

fn exact(concurrency: u32) {
    const DOCUMENTS: usize = 1000;
    let places = usize::try_from(concurrency).unwrap();
    raise_open_files(2 * concurrency).unwrap();
    let rolling = Rolling::new(places, DOCUMENTS);
    let door = Arc::clone(&rolling);
    let server = Server::start(move |peer| {
        while peer.request().is_some() {
            door.pass();
            peer.send(answer("4"));
        }
    });
    let taken = run(&server, Order { documents: documents(DOCUMENTS), concurrency });
    assert_eq!(rolling.inside.lock().unwrap().peak, places, "in flight at most");
    assert_eq!(server.accepted(), places, "one connection for each place");
    let expected = (0, concurrency, 1000, 1000);
    let LiveCounts { in_flight, in_flight_peak, sent, ended } = taken.counts;
    assert_eq!((in_flight, in_flight_peak, sent, ended), expected);
    assert_eq!(taken.end, PhaseEnd::Complete);
    let ids: BTreeSet<usize> = taken.captures.iter().map(|capture| capture.index).collect();
    assert_eq!((ids.len(), taken.captures.len()), (DOCUMENTS, DOCUMENTS));
    for capture in &taken.captures {
        assert_answered(capture, "4");
        assert_eq!(capture.exchange.connected_in, None, "opened before the first request");
    }
}

#[test]
fn exactly_one_in_flight() {
    exact(1);
}

#[test]
fn exactly_seven_in_flight() {
    exact(7);
}

#[test]
fn f23_exactly_64_in_flight() {
    exact(64);
}

#[test]
fn f24_f71_f78_exactly_256_in_flight() {
    exact(256);
}

#[test]
fn fewer_documents_than_places_open_no_more_connections_than_needed() {
    let server = Server::start(|peer| {
        while peer.request().is_some() {
            peer.send(answer("4"));
        }
    });
    let taken = run(&server, Order { documents: documents(3), concurrency: 64 });
    assert_eq!((taken.captures.len(), server.accepted()), (3, 3));
}

#[test]
fn connections_are_kept_from_phase_to_phase() {
    let server = Server::start(|peer| {
        while peer.request().is_some() {
            peer.send(answer("4"));
        }
    });
    let (_stop, stopped) = watch::channel(Halt::No);
    let load = start(&server.base_url(), stopped);
    for concurrency in [4, 8, 2] {
        let order = Order { documents: documents(20), concurrency };
        let taken = take(&load, work(order, PATIENT), |_| true);
        assert_eq!(taken.captures.len(), 20);
        assert!(taken.captures.iter().all(|capture| capture.exchange.connected_in.is_none()));
    }
    assert_eq!(server.accepted(), 8);
}
