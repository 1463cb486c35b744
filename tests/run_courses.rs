//! Runs that go as luck has it: whatever breaks and whatever is decided, a run can be brought to its end, and no
//! document is asked twice that was answered in its pass.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use aforo::protocol::FailureReason;
use aforo::results::row;
use aforo::run::cause::CutCause;
use aforo::run::decision::{Choice, Decision, check};
use aforo::run::event::{PassEnd, PassId, RunEnd, RunStarted};
use aforo::run::position::Next;
use aforo::run::state::State;
use proptest::prelude::*;
use support::records::{resumed, sweep};
use support::tale::{Tale, cut};
use support::viewer::set;

/// More than any run here can take.
const TURNS: usize = 400;

/// What happens, in order. When it is used up, nothing goes wrong any more and every gate is passed by `next`.
struct Luck(std::vec::IntoIter<u8>);

impl Luck {
    fn none() -> Self {
        Self(Vec::new().into_iter())
    }

    /// One of so many possibilities; the first when luck is used up.
    fn one_of(&mut self, many: usize) -> usize {
        self.0.next().map_or(0, |die| usize::from(die) % many)
    }

    fn is_used_up(&self) -> bool {
        self.0.len() == 0
    }
}

const ALL: [Choice; 11] = [
    Choice::Next,
    Choice::Repeat,
    Choice::Skip,
    Choice::Continue,
    Choice::Auto,
    Choice::AutoOff,
    Choice::Pause,
    Choice::StopAfterPass,
    Choice::Note,
    Choice::Stop,
    Choice::Set { parameter: aforo::protocol::Parameter::Concurrency, value: 9 },
];

/// A choice that is possible; `Next` at a gate when luck is used up.
fn decide(tale: &mut Tale, luck: &mut Luck) -> Choice {
    let candidates = ALL.into_iter().chain([set(2), set(4), set(16)]);
    let possible: Vec<_> =
        candidates.filter(|choice| check(&tale.state, &Decision::new(*choice, "x")).is_ok()).collect();
    let choice = possible[luck.one_of(possible.len())];
    tale.choose(choice);
    choice
}

/// A runner that does what comes next until the run has ended for good.
fn run(tale: &mut Tale, luck: &mut Luck) {
    for _ in 0..TURNS {
        match tale.next() {
            Next::Wait => drop(decide(tale, luck)),
            Next::OpenGate { .. } => drop(tale.gate()),
            Next::Take(_) | Next::Complete(_) => pass(tale, luck),
            Next::Done => {
                tale.end(RunEnd::Done);
                return;
            }
            Next::Stopped => {
                tale.end(RunEnd::Stopped);
                if luck.is_used_up() {
                    return;
                }
                tale.resume();
            }
        }
    }
    panic!(
        "it never ends: {:#?}",
        tale.lines.iter().rev().take(8).map(|line| &line.event).collect::<Vec<_>>()
    );
}

fn pass(tale: &mut Tale, luck: &mut Luck) {
    if luck.one_of(12) == 11 {
        tale.no_engine();
        return;
    }
    let id = tale.begin();
    let mut end = PassEnd::Complete;
    for document in tale.left(id) {
        let ended = match luck.one_of(16) {
            0..=7 => ask(tale, id, document, None),
            8 => ask(tale, id, document, Some(FailureReason::Quality)),
            9 => ask(tale, id, document, Some(FailureReason::Timeout)),
            10 => ask(tale, id, document, Some(FailureReason::Connection)),
            11 => Some(PassEnd::Cut(CutCause::Disk { text: "full".to_owned() })),
            12 => {
                ask(tale, id, document, Some(FailureReason::Connection));
                Some(cut())
            }
            13 => {
                tale.resume();
                return;
            }
            _ => match decide(tale, luck) {
                Choice::Pause => Some(PassEnd::Cut(CutCause::Paused)),
                Choice::Stop => {
                    ask(tale, id, document, Some(FailureReason::Cancelled));
                    Some(PassEnd::Stopped)
                }
                _ => ask(tale, id, document, None),
            },
        };
        if let Some(early) = ended {
            end = early;
            break;
        }
    }
    tale.end_pass(id, end);
}

/// Asks a document that has no answer yet; the pass goes on.
fn ask(tale: &mut Tale, id: PassId, document: usize, failed: Option<FailureReason>) -> Option<PassEnd> {
    let name = format!("d{document}");
    let asked = &tale.state.pass(id).unwrap().requests;
    assert!(!asked.iter().any(|request| request.document == name && request.answered()), "{name} in {id:?}");
    tale.request(id, document, failed);
    None
}

/// What holds of every run that has ended.
fn is_sound(tale: &Tale) {
    let state = &tale.state;
    assert_eq!(State::fold(&tale.lines), *state);
    for step in &state.steps {
        let numbers: Vec<_> = step.passes.iter().map(|pass| pass.number).collect();
        assert_eq!(numbers, (1..).take(numbers.len()).collect::<Vec<_>>(), "{}", step.step.label);
        assert!(!step.skipped || step.passes.is_empty(), "{} was skipped", step.step.label);
    }
    for row in row::rows(state) {
        assert_eq!(row.sent(), row.accepted + row.failed_total());
        assert_eq!(row.duplicates(), 0);
        assert_eq!(row.pass.by_attempt().map(<[_]>::len).sum::<usize>(), row.pass.requests.len());
        assert_eq!(row.pass.by_attempt().count(), row.pass.attempts as usize);
        if row.pass.is_complete() {
            for document in 0..row.documents {
                let name = format!("d{document}");
                assert!(
                    row.pass.requests.iter().any(|request| request.document == name),
                    "{name} was left out"
                );
            }
        }
    }
    if state.end == Some(RunEnd::Done) {
        for step in &state.steps {
            assert!(step.is_done() || step.is_decided_away(), "{} was forgotten", step.step.label);
        }
    }
}

fn luck() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..60)
}

fn started(auto: bool, repetitions: u32) -> RunStarted {
    let mut started = RunStarted { auto, ..sweep(4, &[2, 4]) };
    started.steps.iter_mut().for_each(|step| step.repetitions = repetitions);
    started
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_run_comes_to_its_end_whatever_happens(dice in luck(), auto: bool, repetitions in 1_u32..3) {
        let mut tale = Tale::of(started(auto, repetitions));
        run(&mut tale, &mut Luck(dice.into_iter()));
        is_sound(&tale);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_run_cut_off_at_any_line_can_be_taken_up_and_ended(dice in luck(), auto: bool) {
        let mut whole = Tale::of(started(auto, 1));
        run(&mut whole, &mut Luck(dice.into_iter()));
        for kept in 1..=whole.lines.len() {
            let mut tale = Tale::of(started(auto, 1));
            for line in &whole.lines[1..kept] {
                tale.tell(line.event.clone());
            }
            tale.tell(resumed(auto));
            run(&mut tale, &mut Luck::none());
            is_sound(&tale);
            prop_assert_eq!(tale.state.end.as_ref(), Some(&RunEnd::Done), "cut after line {}", kept);
        }
    }
}
