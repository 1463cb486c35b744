//! What a continued pass still has to ask.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use std::collections::BTreeSet;

use aforo::measure::{Phase, RequestRecord};
use aforo::protocol::FailureReason;
use aforo::run::cause::CutCause;
use aforo::run::decision::Choice;
use aforo::run::event::{PassEnd, PassId};
use proptest::prelude::*;
use support::records::sweep;
use support::tale::{Tale, cut};

const PASS: PassId = PassId { step: 0, pass: 1 };
const CANCELLED: Option<FailureReason> = Some(FailureReason::Cancelled);
const CONNECTION: Option<FailureReason> = Some(FailureReason::Connection);
const MEMORY: Option<FailureReason> = Some(FailureReason::Memory);
const QUALITY: Option<FailureReason> = Some(FailureReason::Quality);
const TIMEOUT: Option<FailureReason> = Some(FailureReason::Timeout);

type Requests<'r> = &'r [(usize, Option<FailureReason>)];

/// A pass over six documents with these attempts.
fn taken(attempts: &[Requests<'_>]) -> Tale {
    let mut tale = Tale::of(sweep(6, &[]));
    for (number, requests) in attempts.iter().enumerate() {
        if number > 0 {
            tale.end_pass(PASS, cut()).gate().choose(Choice::Continue);
        }
        tale.begin();
        for (document, failed) in *requests {
            tale.request(PASS, *document, *failed);
        }
    }
    tale
}

#[test]
fn only_what_has_no_outcome_is_left() {
    let cases: [(&str, &[Requests<'_>], &[usize]); 11] = [
        ("nothing was asked", &[&[]], &[0, 1, 2, 3, 4, 5]),
        ("in the order of the corpus", &[&[(4, None), (1, None)]], &[0, 2, 3, 5]),
        (
            "a wrong answer is an answer",
            &[&[(0, QUALITY), (1, Some(FailureReason::Format)), (2, Some(FailureReason::Truncated))]],
            &[3, 4, 5],
        ),
        (
            "cancelled ones, wherever they stand",
            &[&[(0, CANCELLED), (1, None), (2, CANCELLED)]],
            &[0, 2, 3, 4, 5],
        ),
        ("a failure before an answer is an outcome", &[&[(0, TIMEOUT), (1, MEMORY), (2, None)]], &[3, 4, 5]),
        ("what a dying engine burnt", &[&[(0, None), (1, CONNECTION), (2, MEMORY)]], &[1, 2, 3, 4, 5]),
        ("an engine that never answered", &[&[(0, CONNECTION), (1, CONNECTION)]], &[0, 1, 2, 3, 4, 5]),
        (
            "burnt once, and not asked again before the next cut",
            &[&[(0, None), (1, CONNECTION)], &[(2, None)]],
            &[1, 3, 4, 5],
        ),
        (
            "burnt once, then failed in earnest",
            &[&[(0, None), (1, CONNECTION)], &[(1, TIMEOUT), (2, None)]],
            &[3, 4, 5],
        ),
        ("an outcome stays one", &[&[(0, TIMEOUT), (1, None)], &[(2, CONNECTION)]], &[2, 3, 4, 5]),
        ("an answer stays one", &[&[(0, None)], &[(1, CONNECTION)], &[(1, CONNECTION)]], &[1, 2, 3, 4, 5]),
    ];
    for (name, attempts, left) in cases {
        assert_eq!(taken(attempts).left(PASS), left, "{name}");
    }
}

#[test]
fn a_warm_up_answers_nothing() {
    let mut tale = Tale::of(sweep(2, &[]));
    tale.begin();
    let warm_up = support::records::request("d0", Phase::WarmUp, 0, None);
    tale.tell(support::records::ended(0, 1, warm_up));
    assert_eq!(tale.left(PASS), [0, 1]);
}

#[test]
fn a_complete_pass_has_nothing_left_but_what_failed_last() {
    let mut tale = Tale::of(sweep(3, &[]));
    assert_eq!(tale.complete().left(PASS), [0; 0]);
    let mut paused = taken(&[&[(0, None), (1, None)]]);
    paused.end_pass(PASS, PassEnd::Cut(CutCause::Paused));
    assert_eq!(paused.left(PASS), [2, 3, 4, 5]);
}

fn outcome() -> impl Strategy<Value = Option<FailureReason>> {
    proptest::option::of(proptest::sample::select(FailureReason::ALL.to_vec()))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_document_is_left_that_was_answered_and_none_that_was_not_recorded_is_forgotten(
        attempts in proptest::collection::vec(proptest::collection::vec((0_usize..6, outcome()), 0..12), 1..4)
    ) {
        let attempts: Vec<_> = attempts.iter().map(Vec::as_slice).collect();
        let tale = taken(&attempts);
        let left = tale.left(PASS);
        prop_assert!(left.is_sorted_by(|one, other| one < other), "each once, in the order of the corpus");
        let requests = &tale.state.pass(PASS).unwrap().requests;
        let documents = |which: fn(&RequestRecord) -> bool| -> BTreeSet<usize> {
            let ids = requests.iter().filter(|request| which(request));
            ids.map(|request| request.document[1..].parse().unwrap()).collect()
        };
        let (answered, asked) = (documents(RequestRecord::answered), documents(|_| true));
        prop_assert!(left.iter().all(|document| !answered.contains(document)));
        prop_assert!((0..6).all(|document| asked.contains(&document) || left.contains(&document)));
        prop_assert_eq!(tale.left(PASS), left, "asking changes nothing");
    }

    #[test]
    fn when_what_is_left_was_answered_nothing_is_left(
        first in proptest::collection::vec((0_usize..6, outcome()), 0..12)
    ) {
        let left = taken(&[&first]).left(PASS);
        let answers: Vec<_> = left.iter().map(|document| (*document, None)).collect();
        prop_assert_eq!(taken(&[&first, &answers]).left(PASS), [0_usize; 0]);
    }
}
