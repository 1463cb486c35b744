//! Where a run is and what can be decided there, told by its fold alone.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use aforo::run::cause::{CutCause, GateCause};
use aforo::run::decision::{Choice, Decision, check};
use aforo::run::event::{Event, PassEnd, PassId, RunEnd, RunStarted};
use aforo::run::position::{Next, next_step};
use support::records::{decided, sweep};
use support::tale::{Tale, cut, engine_gone};
use support::viewer::set;

/// The baseline and concurrency 2 and 4 over three documents.
fn tale() -> Tale {
    Tale::of(sweep(3, &[2, 4]))
}

fn take(step: usize, pass: u32) -> Next {
    Next::Take(PassId { step, pass })
}

fn complete(step: usize, pass: u32) -> Next {
    Next::Complete(PassId { step, pass })
}

fn gate(step: usize, cause: GateCause) -> Next {
    Next::OpenGate { step, cause }
}

type Told = fn(&mut Tale) -> &mut Tale;

/// Tells each case from the beginning and looks at what comes next.
fn each(cases: &[(&str, Told, Next)]) {
    for (name, told, next) in cases {
        let mut tale = tale();
        told(&mut tale);
        assert_eq!(tale.next(), *next, "{name}");
    }
}

#[test]
fn steps_follow_one_another_through_their_gates() {
    each(&[
        ("a fresh run", |t| t, take(0, 1)),
        ("a step is done", |t| t.complete(), gate(0, GateCause::StepDone)),
        ("a gate is open", |t| t.complete().gate(), Next::Wait),
        ("next", |t| t.step(Choice::Next), take(1, 1)),
        (
            "the last step",
            |t| t.step(Choice::Next).step(Choice::Next).complete(),
            gate(2, GateCause::StepDone),
        ),
        ("the end", |t| t.step(Choice::Next).step(Choice::Next).step(Choice::Next), Next::Done),
        ("repeat", |t| t.step(Choice::Repeat), take(0, 2)),
        ("repeated", |t| t.step(Choice::Repeat).complete(), gate(0, GateCause::StepDone)),
        ("repeated twice", |t| t.step(Choice::Repeat).step(Choice::Repeat), take(0, 3)),
        ("skip", |t| t.step(Choice::Skip), take(2, 1)),
        ("skip all", |t| t.step(Choice::Skip).step(Choice::Next), Next::Done),
        ("stop", |t| t.step(Choice::Stop), Next::Stopped),
        ("a note", |t| t.complete().gate().choose(Choice::Note), Next::Wait),
    ]);
}

#[test]
fn without_gates_steps_follow_one_another_until_a_person_wants_gates_again() {
    each(&[
        ("from a gate", |t| t.step(Choice::Auto), take(1, 1)),
        ("on", |t| t.step(Choice::Auto).complete(), take(2, 1)),
        ("to the end", |t| t.step(Choice::Auto).complete().complete(), Next::Done),
        ("off", |t| t.step(Choice::Auto).choose(Choice::AutoOff).complete(), gate(1, GateCause::StepDone)),
        (
            "a cut pass all the same",
            |t| t.step(Choice::Auto).break_off(cut()),
            gate(1, GateCause::Cut(engine_gone())),
        ),
        ("at a cut pass", |t| t.break_off(cut()).gate().choose(Choice::Auto), Next::Wait),
    ]);
    let mut tale = Tale::of(RunStarted { auto: true, ..sweep(3, &[2]) });
    assert_eq!(tale.complete().next(), take(1, 1));
    assert_eq!(tale.complete().next(), Next::Done);
}

#[test]
fn a_pass_that_was_cut_waits_for_its_decision() {
    each(&[
        ("cut", |t| t.break_off(cut()), gate(0, GateCause::Cut(engine_gone()))),
        ("continue", |t| t.break_off(cut()).gate().choose(Choice::Continue), complete(0, 1)),
        (
            "continued",
            |t| t.break_off(cut()).gate().choose(Choice::Continue).complete(),
            gate(0, GateCause::StepDone),
        ),
        (
            "cut once more",
            |t| {
                t.break_off(cut())
                    .gate()
                    .choose(Choice::Continue)
                    .break_off(cut())
                    .gate()
                    .choose(Choice::Continue)
            },
            complete(0, 1),
        ),
        ("repeat", |t| t.break_off(cut()).gate().choose(Choice::Repeat), take(0, 2)),
        (
            "repeated",
            |t| t.break_off(cut()).gate().choose(Choice::Repeat).complete(),
            gate(0, GateCause::StepDone),
        ),
        ("next does not take the step again", |t| t.break_off(cut()).gate().choose(Choice::Next), take(1, 1)),
        (
            "skip leaves this step and the next",
            |t| t.break_off(cut()).gate().choose(Choice::Skip),
            take(2, 1),
        ),
        ("set", |t| t.break_off(cut()).gate().choose(set(3)), take(3, 1)),
        ("stop", |t| t.break_off(cut()).gate().choose(Choice::Stop), Next::Stopped),
        (
            "in the last step",
            |t| t.step(Choice::Next).step(Choice::Next).break_off(cut()).gate().choose(Choice::Next),
            Next::Done,
        ),
    ]);
}

#[test]
fn repetitions_are_taken_until_enough_are_complete() {
    let mut started = sweep(3, &[2]);
    for step in &mut started.steps {
        step.repetitions = 2;
    }
    let mut tale = Tale::of(started);
    assert_eq!(tale.complete().next(), take(0, 2));
    tale.break_off(cut()).gate().choose(Choice::Repeat);
    assert_eq!(tale.next(), take(0, 3), "the pass that was given up is none of the two");
    tale.complete().gate();
    assert!(tale.state.steps[0].is_done());
    tale.choose(Choice::Repeat);
    assert_eq!((tale.next(), tale.state.steps[0].wanted), (take(0, 4), 4));
    tale.complete().choose(Choice::Pause);
    assert_eq!(tale.next(), gate(0, GateCause::Paused));
    tale.gate().choose(Choice::Next);
    assert_eq!(tale.next(), take(1, 1), "a step that was left is not gone on with, done or not");
}

#[test]
fn a_value_that_was_set_is_a_step_of_its_own_and_the_plan_goes_on_after_it() {
    let mut tale = tale();
    tale.step(set(3));
    let labels: Vec<_> = tale.state.steps.iter().map(|step| step.step.label.as_str()).collect();
    assert_eq!(labels, ["baseline", "concurrency 2", "concurrency 4", "concurrency 3"]);
    assert_eq!(tale.state.steps[3].step.setting.concurrency, 3);
    assert_eq!((tale.next(), next_step(&tale.state)), (take(3, 1), Some(3)));
    tale.complete();
    assert_eq!(tale.next(), gate(3, GateCause::StepDone));
    tale.gate();
    for (value, said) in [
        (1, "concurrency 1 is step 1, which was taken: repeat"),
        (3, "concurrency 3 is step 4, which was taken"),
        (4, "concurrency 4 is step 3, which is still to come"),
        (0, "concurrency 0 is out of bounds; allowed: 1 to 16384"),
        (16_385, "out of bounds"),
    ] {
        let why = tale.refused(set(value));
        assert!(why.contains(said), "{why}");
    }
    tale.choose(Choice::Next);
    assert_eq!(tale.next(), take(1, 1));
    tale.step(Choice::Next).step(Choice::Next);
    assert_eq!(tale.next(), Next::Done);
}

#[test]
fn a_step_that_was_left_out_can_be_set_after_all() {
    let mut tale = tale();
    tale.step(Choice::Skip).complete().gate().choose(set(2));
    assert_eq!(tale.state.steps.len(), 3, "it is the step that it was");
    assert_eq!(tale.next(), take(1, 1));
    assert!(!tale.state.steps[1].skipped);
    tale.step(Choice::Next);
    assert_eq!(tale.next(), Next::Done);
}

#[test]
fn a_pause_opens_a_gate_in_a_pass_and_between_passes() {
    let paused = || PassEnd::Cut(CutCause::Paused);
    assert_eq!(tale().break_off(paused()).next(), gate(0, GateCause::Cut(CutCause::Paused)));

    let mut started = sweep(3, &[2]);
    started.steps[0].repetitions = 2;
    let mut tale = Tale::of(started);
    let first = tale.begin();
    tale.choose(Choice::Pause);
    assert!(tale.refused(Choice::Pause).contains("about to pause"));
    tale.end_pass(first, PassEnd::Complete);
    assert_eq!(tale.next(), gate(0, GateCause::Paused));
    tale.gate();
    assert!(tale.refused(Choice::Pause).contains("waits at a gate"));
    assert!(tale.refused(Choice::Repeat).contains("continue takes its passes"));
    tale.choose(Choice::Continue);
    assert_eq!(tale.next(), take(0, 2));
    let second = tale.begin();
    tale.choose(Choice::Pause).end_pass(second, PassEnd::Complete);
    assert_eq!(tale.next(), gate(0, GateCause::StepDone), "the gate that opens anyway is a pause too");
    tale.gate().choose(Choice::Next);
    assert_eq!(tale.next(), take(1, 1), "and it ends the pause");
}

#[test]
fn stop_after_pass_ends_the_run_when_the_pass_is_over_and_not_before() {
    let stopping = |t: &mut Tale| {
        let id = t.begin();
        t.choose(Choice::StopAfterPass);
        assert!(t.refused(Choice::StopAfterPass).contains("already"));
        id
    };
    let mut tale = tale();
    let id = stopping(&mut tale);
    tale.end_pass(id, PassEnd::Complete);
    assert_eq!(tale.next(), Next::Stopped);
    assert_eq!(tale.end(RunEnd::Stopped).resume().next(), gate(0, GateCause::StepDone));
    tale.gate();
    assert!(tale.refused(Choice::StopAfterPass).contains("stop ends the run here"));

    // A pass that is cut is not over: what is decided then says how the run goes on.
    for (choice, next) in
        [(Choice::Continue, complete(1, 1)), (Choice::Repeat, take(1, 2)), (Choice::Next, take(2, 1))]
    {
        let mut tale = self::tale();
        tale.step(Choice::Next);
        let id = stopping(&mut tale);
        tale.end_pass(id, cut()).gate().choose(choice);
        assert_eq!(tale.next(), next, "{choice:?}");
        if choice == Choice::Continue {
            assert_eq!(tale.complete().next(), Next::Stopped);
        }
    }

    let mut last = Tale::of(RunStarted { auto: true, ..sweep(3, &[]) });
    let id = stopping(&mut last);
    assert_eq!(last.end_pass(id, PassEnd::Complete).next(), Next::Done, "nothing was left to stop");
}

#[test]
fn without_an_engine_the_run_waits_where_it_is() {
    each(&[
        ("to begin a step", |t| t.step(Choice::Next).no_engine().choose(Choice::Continue), take(1, 1)),
        (
            "next is the step that waits",
            |t| t.step(Choice::Next).no_engine().choose(Choice::Next),
            take(1, 1),
        ),
        (
            "the step before once more",
            |t| t.step(Choice::Next).no_engine().choose(Choice::Repeat),
            take(0, 2),
        ),
        ("without the step", |t| t.step(Choice::Next).no_engine().choose(Choice::Skip), take(2, 1)),
        ("to begin a step that was set", |t| t.step(set(3)).no_engine().choose(Choice::Continue), take(3, 1)),
        (
            "only without the step that was set",
            |t| t.step(set(3)).no_engine().choose(Choice::Skip),
            take(1, 1),
        ),
        ("leaving the step that was set", |t| t.step(set(3)).no_engine().choose(Choice::Next), take(1, 1)),
        (
            "to complete a pass",
            |t| t.break_off(cut()).gate().choose(Choice::Continue).no_engine().choose(Choice::Continue),
            complete(0, 1),
        ),
        (
            "giving the pass up",
            |t| t.break_off(cut()).gate().choose(Choice::Continue).no_engine().choose(Choice::Next),
            take(1, 1),
        ),
        (
            "a step of which all was given up",
            |t| t.break_off(cut()).gate().choose(Choice::Next).no_engine().choose(Choice::Repeat),
            take(0, 2),
        ),
        ("the end", |t| t.step(Choice::Next).no_engine().choose(Choice::Stop), Next::Stopped),
    ]);
}

#[test]
fn a_runner_that_begins_again_goes_on_where_the_fold_ends() {
    let interrupted = || gate(0, GateCause::Interrupted);
    each(&[
        ("before anything", |t| t.resume(), take(0, 1)),
        (
            "killed in a pass",
            |t| {
                t.begin();
                t.resume()
            },
            interrupted(),
        ),
        ("stopped in a pass", |t| t.break_off(PassEnd::Stopped).end(RunEnd::Stopped).resume(), interrupted()),
        (
            "failed in a pass",
            |t| {
                t.begin();
                t.end(RunEnd::Failed { why: "x".to_owned() }).resume()
            },
            interrupted(),
        ),
        ("a pass was cut", |t| t.break_off(cut()).resume(), gate(0, GateCause::Cut(engine_gone()))),
        ("at its gate", |t| t.break_off(cut()).gate().resume(), gate(0, GateCause::Cut(engine_gone()))),
        ("at a gate", |t| t.complete().gate().resume(), gate(0, GateCause::StepDone)),
        ("a gate in want of an engine", |t| t.step(Choice::Next).no_engine().resume(), take(1, 1)),
        (
            "continue was not begun: asked again",
            |t| t.break_off(cut()).gate().choose(Choice::Continue).resume(),
            gate(0, GateCause::Cut(engine_gone())),
        ),
        (
            "killed in the second attempt",
            |t| {
                t.break_off(cut()).gate().choose(Choice::Continue).begin();
                t.resume()
            },
            interrupted(),
        ),
        ("next was not begun", |t| t.step(Choice::Next).resume(), take(1, 1)),
        (
            "next after a cut was not begun",
            |t| t.break_off(cut()).gate().choose(Choice::Next).resume(),
            take(1, 1),
        ),
        ("repeat was not begun", |t| t.step(Choice::Repeat).resume(), take(0, 2)),
        (
            "repeat after a cut was not begun",
            |t| t.break_off(cut()).gate().choose(Choice::Repeat).resume(),
            take(0, 2),
        ),
        ("skip was not begun", |t| t.step(Choice::Skip).resume(), take(2, 1)),
        ("set was not begun", |t| t.step(set(3)).resume(), take(3, 1)),
        (
            "stopped at a gate",
            |t| t.step(Choice::Stop).end(RunEnd::Stopped).resume(),
            gate(0, GateCause::StepDone),
        ),
        (
            "a pause is over",
            |t| {
                t.step(Choice::Next).begin();
                t.choose(Choice::Pause).resume()
            },
            gate(1, GateCause::Interrupted),
        ),
        ("without gates", |t| t.complete().tell(support::records::resumed(true)), take(1, 1)),
    ]);
    let mut tale = tale();
    tale.begin();
    tale.resume().gate().choose(Choice::Continue).complete();
    assert_eq!((tale.state.resumptions, tale.state.steps[0].passes[0].attempts), (1, 2));
}

#[test]
fn one_decision_closes_a_gate_and_one_that_comes_too_late_is_refused() {
    let mut tale = tale();
    assert!(tale.refused(Choice::Next).contains("none is open: pause opens one"));
    tale.complete().gate();
    let seq = tale.state.gate.as_ref().unwrap().seq;
    assert_eq!(seq, tale.lines.last().unwrap().seq);
    let at = |gate| Decision { gate: Some(gate), ..Decision::new(Choice::Next, "") };
    assert_eq!(check(&tale.state, &at(seq)), Ok(0));
    assert!(check(&tale.state, &at(seq - 1)).is_err());
    assert!(tale.refused(Choice::Continue).contains("the step is done"));

    tale.choose(Choice::Next);
    assert!(tale.refused(Choice::Next).contains("none is open"), "somebody else decided");
    let late = check(&tale.state, &at(seq)).unwrap_err().to_string();
    assert!(late.contains("somebody decided before"), "{late}");
    tale.complete().gate();
    assert!(check(&tale.state, &at(seq)).is_err(), "the next gate is another one");
}

#[test]
fn what_is_so_already_and_what_is_over_is_refused() {
    let mut tale = tale();
    assert!(tale.refused(Choice::AutoOff).contains("already"));
    tale.choose(Choice::Auto);
    assert!(tale.refused(Choice::Auto).contains("already"));
    tale.choose(Choice::AutoOff);
    assert!(check(&tale.state, &Decision::new(Choice::Note, " ")).is_err(), "a note without a text");
    tale.step(Choice::Next).step(Choice::Next).complete().gate();
    assert!(tale.refused(Choice::Skip).contains("no step is left to skip"));
    assert_eq!(tale.choose(Choice::Stop).refused(Choice::Note), "the run is over");
    tale.end(RunEnd::Stopped);
    for choice in [Choice::Next, Choice::Pause, Choice::Stop, set(9)] {
        assert_eq!(tale.refused(choice), "the run is over");
    }
}

#[test]
fn a_skip_is_about_the_step_that_it_leaves_out() {
    let mut tale = tale();
    tale.complete().gate();
    let skip = Decision::new(Choice::Skip, "");
    assert_eq!(check(&tale.state, &skip), Ok(1));
    tale.tell(decided(1, Choice::Skip));
    assert!(tale.state.steps[1].skipped && tale.state.steps[0].left && !tale.state.steps[0].skipped);
    // A step that was set and waits for its engine is the one that comes next.
    let mut waiting = self::tale();
    waiting.step(set(3)).no_engine();
    assert_eq!(check(&waiting.state, &skip), Ok(3));
    assert!(matches!(waiting.lines.last().unwrap().event, Event::GateOpened { step: 3, .. }));
}
