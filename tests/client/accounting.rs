//! Every request is accounted for: sent = accepted + each failure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aforo::engine::openai::Limits;
use aforo::measure::{Halt, PhaseEnd, RequestRecord, Trouble, Work};
use aforo::protocol::{
    Accept, Compare, FailureReason, FieldRule, Missing, Parse, QualityRule, Reference, Threshold,
};
use tokio::sync::watch;

use crate::concurrency::{Order, documents, start, take, work};
use crate::server::Server;
use crate::wire::{DONE, LAST_CHUNK, ROLE, STREAM_HEAD, answer, chunk, error, finish, token};

const SILENCE: Duration = Duration::from_millis(300);

fn rule() -> QualityRule {
    let compare = Compare::Text { fold_case: false, fold_accents: false, fold_spaces: true };
    QualityRule {
        parse: Parse::Text,
        accept: Accept::AllFields,
        threshold: Threshold::new(0.9).unwrap(),
        fields: [("answer".to_owned(), FieldRule { compare, missing: Missing::Wrong })].into_iter().collect(),
    }
}

#[test]
fn f63_f74_a_thousand_requests_add_up_whatever_becomes_of_them() {
    let server = Server::start(|peer| {
        while let Some(request) = peer.request() {
            let id = request.header("x-request-id").unwrap();
            let index: usize = id.rsplit('-').next().unwrap().parse().unwrap();
            match index % 10 {
                0..=2 => peer.send(answer("4")),
                3 => peer.send(answer("5")),
                4 => peer.send(error("500 Internal Server Error", "worker died")),
                5 => peer.send(error("429 Too Many Requests", "slow down")),
                6 => peer
                    .send(format!("{STREAM_HEAD}{}{LAST_CHUNK}", chunk(&[ROLE, &token("4"), DONE].concat()))),
                7 => {
                    let cut = [ROLE, &token("4"), &finish("length"), DONE].concat();
                    peer.send(format!("{STREAM_HEAD}{}{LAST_CHUNK}", chunk(&cut)));
                }
                8 => {
                    peer.send(format!("{STREAM_HEAD}{}", chunk(&token("4"))));
                    return peer.reset();
                }
                _ if index == 509 => return peer.hold(),
                _ => {
                    let broken =
                        [ROLE, &token("4"), "data: {\"choices\":[{\n\n", &finish("stop"), DONE].concat();
                    peer.send(format!("{STREAM_HEAD}{}{LAST_CHUNK}", chunk(&broken)));
                }
            }
        }
    });
    let (_stop, stopped) = watch::channel(Halt::No);
    let load = start(&server.base_url(), stopped);
    let order = Order { documents: documents(1000), concurrency: 16 };
    let limits = Limits { whole: Duration::from_secs(20), silence: SILENCE };
    // More than half of them fail.
    let taken = take(&load, Work { max_error_rate: 1.0, ..work(order, limits) }, |_| true);

    let reference: Reference = serde_json::from_value(serde_json::json!({ "answer": "4" })).unwrap();
    let (mut accepted, mut failed) = (0, BTreeMap::<&str, usize>::new());
    for capture in &taken.captures {
        let judgement = capture.judge(&rule(), &reference);
        let record = RequestRecord::new("d", capture, &judgement);
        match record.failure() {
            None => accepted += 1,
            Some(reason) => *failed.entry(reason.word()).or_default() += 1,
        }
        // Times of failed requests are no times of answers.
        let answers = matches!(
            record.failure(),
            None | Some(FailureReason::Quality | FailureReason::Format | FailureReason::Truncated)
        );
        assert_eq!(record.answered(), answers);
        assert!(record.times.sent.is_some());
    }
    let expected = BTreeMap::from([
        ("quality", 100),
        ("engine", 299),
        ("rejected", 100),
        ("truncated", 100),
        ("connection", 100),
        ("timeout", 1),
    ]);
    assert_eq!((accepted, failed), (300, expected));
    assert_eq!((taken.counts.sent, taken.counts.ended, taken.counts.in_flight), (1000, 1000, 0));
    assert_eq!(taken.captures.iter().map(|capture| capture.index).collect::<BTreeSet<_>>().len(), 1000);
    assert_eq!(taken.end, PhaseEnd::Complete);
}

#[test]
fn f27_requests_to_a_server_that_is_not_there_are_failures_too() {
    let gone = Server::limited(0, |_| {});
    let (_halt, halted) = watch::channel(Halt::No);
    let load = start(&gone.base_url(), halted);
    let order = Order { documents: documents(100), concurrency: 10 };
    let taken = take(&load, work(order, crate::asking::PATIENT), |_| true);
    for capture in &taken.captures {
        crate::asking::assert_failed(capture, FailureReason::Connection, &["cannot connect"]);
    }
    assert!(matches!(taken.end, PhaseEnd::Cut(Trouble::EngineGone { .. })), "{:?}", taken.end);
    assert_eq!((taken.counts.sent, taken.counts.ended), (taken.captures.len() as u64, taken.counts.sent));
    assert!((3..=19).contains(&taken.captures.len()), "{} documents are spent", taken.captures.len());
}
