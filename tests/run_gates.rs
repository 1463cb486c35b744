//! Gates: after each step the runner waits for a decision, and each decision is in the journal.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use std::path::Path;

use aforo::protocol::Parameter;
use aforo::protocol::read;
use aforo::run::cause::GateCause;
use aforo::run::decision::{Choice, Decision, Who};
use aforo::run::desk::Answer;
use aforo::run::event::{Event, RunEnd};
use aforo::run::prepare::{Manner, Prepare};
use aforo::run::runner::{Ended, Runner};
use aforo::run::{journal, state::State};
use support::Workplace;

/// Three steps of one pass.
fn place() -> Workplace {
    let place = Workplace::new(6);
    place.append("[[sweep]]\nparameter = \"concurrency\"\nvalues = [2, 3]");
    place
}

fn runner(place: &Workplace) -> Runner {
    runner_in(place, Manner::default())
}

fn runner_in(place: &Workplace, manner: Manner) -> Runner {
    let prepared = Prepare::new(read(&place.path("protocol.toml"), &[]).unwrap()).unwrap();
    let folder = prepared.create(&place.path("aforo-runs")).unwrap();
    prepared.open(folder, manner).unwrap()
}

/// Answers each gate with the next of these; when they are used up, the run is stopped as by a signal.
async fn decided(mut runner: Runner, choices: &[(Choice, &str)]) -> Ended {
    let (desk, stopper) = (runner.desk(), runner.stopper());
    let mut view = runner.view().unwrap();
    let mut choices = choices.iter();
    let answer = async move {
        while let Some(line) = view.lines.recv().await {
            if let Event::GateOpened { step, cause } = line.event {
                let gate = view.state.lock().unwrap().gate.clone().unwrap();
                assert_eq!((gate.step, &gate.cause, gate.seq), (step, &cause, line.seq));
                match choices.next() {
                    Some((choice, reason)) => {
                        let decision = Decision { gate: Some(gate.seq), ..Decision::new(*choice, *reason) };
                        assert_eq!(desk.decide(decision).await, Answer::Accepted);
                    }
                    None => drop(stopper.stop()),
                }
            }
        }
    };
    let (ended, ()) = tokio::join!(runner.run(), answer);
    ended.unwrap()
}

fn passes(state: &State) -> Vec<usize> {
    state.steps.iter().map(|step| step.passes.len()).collect()
}

fn choices(state: &State) -> Vec<(usize, Choice, Who, &str)> {
    state.decisions.iter().map(|d| (d.step, d.choice, d.who, d.reason.as_str())).collect()
}

/// The journal on the disk folds to the state that the runner ended with.
fn is_on_the_disk(ended: &Ended) {
    let journal = journal::read(&Path::new(&ended.folder).join("journal.jsonl")).unwrap();
    assert_eq!(State::fold(&journal.lines), ended.state);
}

#[tokio::test]
async fn next_goes_from_step_to_step_to_the_end() {
    let place = place();
    let ended =
        decided(runner(&place), &[(Choice::Next, ""), (Choice::Next, "looks good"), (Choice::Next, "")])
            .await;
    assert_eq!(ended.state.end, Some(RunEnd::Done));
    assert_eq!(passes(&ended.state), [1, 1, 1]);
    let person = Who::Person;
    let expected = [
        (0, Choice::Next, person, ""),
        (1, Choice::Next, person, "looks good"),
        (2, Choice::Next, person, ""),
    ];
    assert_eq!(choices(&ended.state), expected);
    assert_eq!(ended.state.gate, None);
    is_on_the_disk(&ended);
}

#[tokio::test]
async fn repeat_takes_further_passes_and_keeps_the_earlier_ones() {
    let place = place();
    let answers = [
        (Choice::Repeat, "the card was busy"),
        (Choice::Next, ""),
        (Choice::Next, ""),
        (Choice::Repeat, ""),
        (Choice::Next, ""),
    ];
    let ended = decided(runner(&place), &answers).await;
    assert_eq!(passes(&ended.state), [2, 1, 2]);
    let numbers: Vec<_> =
        ended.state.steps[0].passes.iter().map(|pass| (pass.number, pass.requests.len())).collect();
    assert_eq!(numbers, [(1, 6), (2, 6)]);
    assert_eq!(choices(&ended.state)[0], (0, Choice::Repeat, Who::Person, "the card was busy"));
    assert!(ended.folder.join("outputs/step-01-pass-1.jsonl").exists());
    assert!(ended.folder.join("outputs/step-01-pass-2.jsonl").exists());
    is_on_the_disk(&ended);
}

#[tokio::test]
async fn passes_of_a_repeated_step_have_keys_of_their_own() {
    let place = place();
    let ended = decided(runner(&place), &[(Choice::Repeat, ""), (Choice::Stop, "")]).await;
    let journal = journal::read(&ended.folder.join("journal.jsonl")).unwrap();
    let mut keys: Vec<_> = journal
        .lines
        .iter()
        .filter_map(|line| match &line.event {
            Event::PassStarted { pass_key, .. } => Some(pass_key.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(keys.len(), 2);
    keys.dedup();
    assert_eq!(keys.len(), 2, "a repeated pass would find its first one in the prefix cache");
}

#[tokio::test]
async fn skip_leaves_the_next_step_out() {
    let place = place();
    let ended = decided(runner(&place), &[(Choice::Skip, "no time"), (Choice::Next, "")]).await;
    assert_eq!(passes(&ended.state), [1, 0, 1]);
    let skipped: Vec<_> = ended.state.steps.iter().map(|step| step.skipped).collect();
    assert_eq!(skipped, [false, true, false]);
    assert_eq!(choices(&ended.state)[0], (1, Choice::Skip, Who::Person, "no time"));
    assert_eq!(ended.state.end, Some(RunEnd::Done));
    is_on_the_disk(&ended);
}

#[tokio::test]
async fn set_opens_a_step_of_its_own_and_rewrites_none() {
    let place = place();
    let set = |value| Choice::Set { parameter: Parameter::Concurrency, value };
    let answers = [(Choice::Next, ""), (set(5), "between"), (Choice::Next, ""), (Choice::Next, "")];
    let ended = decided(runner(&place), &answers).await;
    assert_eq!(passes(&ended.state), [1, 1, 1, 1]);
    let labels: Vec<_> = ended.state.steps.iter().map(|step| step.step.label.as_str()).collect();
    assert_eq!(labels, ["baseline", "concurrency 2", "concurrency 3", "concurrency 5"]);
    let opened = &ended.state.steps[3];
    assert_eq!((opened.step.setting.concurrency, opened.passes[0].requests.len()), (5, 6));
    assert_eq!(ended.state.steps[2].step.setting.concurrency, 3, "the plan went on after it");
    assert!(ended.folder.join("outputs/step-04-pass-1.jsonl").exists());
    is_on_the_disk(&ended);
}

#[tokio::test]
async fn what_is_not_possible_is_refused_with_its_reason() {
    let place = place();
    let mut runner = runner(&place);
    let (desk, mut view) = (runner.desk(), runner.view().unwrap());
    let refused = async |choice, reason: &str| match desk.decide(Decision::new(choice, reason)).await {
        Answer::Refused { why } => why,
        Answer::Accepted => panic!("{choice:?} was accepted"),
    };
    let answer = async {
        let mut gates = 0;
        while let Some(line) = view.lines.recv().await {
            let Event::GateOpened { .. } = line.event else { continue };
            gates += 1;
            if gates == 1 {
                let set = |value| Choice::Set { parameter: Parameter::Concurrency, value };
                assert!(refused(set(2), "").await.contains("is step 2, which is still to come"));
                assert!(refused(set(1), "").await.contains("is step 1, which was taken"));
                assert!(refused(set(0), "").await.contains("allowed: 1 to"));
                assert!(refused(Choice::Continue, "").await.contains("the step is done"));
                assert!(refused(Choice::Pause, "").await.contains("at a gate already"));
                assert!(refused(Choice::AutoOff, "").await.contains("already"));
                assert!(refused(Choice::Note, " ").await.contains("needs a text"));
                assert_eq!(desk.decide(Decision::new(Choice::Note, "fan is loud")).await, Answer::Accepted);
                assert_eq!(
                    view.state.lock().unwrap().gate.as_ref().unwrap().seq,
                    line.seq,
                    "it is still open"
                );
                let next = || Decision { gate: Some(line.seq), ..Decision::new(Choice::Next, "") };
                let (first, second) = tokio::join!(desk.decide(next()), desk.decide(next()));
                let said = [first, second];
                assert!(said.contains(&Answer::Accepted), "{said:?}");
                let late = Answer::Refused { why: "that gate is closed: somebody decided before".to_owned() };
                assert!(said.contains(&late), "{said:?}");
            } else {
                assert_eq!(desk.decide(Decision::new(Choice::Next, "")).await, Answer::Accepted);
            }
        }
    };
    let (ended, ()) = tokio::join!(runner.run(), answer);
    let state = ended.unwrap().state;
    assert_eq!(passes(&state), [1, 1, 1]);
    assert_eq!(state.decisions.len(), 4, "three gates and a note: {:?}", state.decisions);
}

#[tokio::test]
async fn auto_goes_on_without_further_gates() {
    let place = place();
    let ended = decided(runner(&place), &[(Choice::Auto, "going home")]).await;
    assert_eq!(passes(&ended.state), [1, 1, 1]);
    assert_eq!(choices(&ended.state), [(0, Choice::Auto, Who::Person, "going home")]);
    let journal = journal::read(&ended.folder.join("journal.jsonl")).unwrap();
    let gates = journal.lines.iter().filter(|line| matches!(line.event, Event::GateOpened { .. })).count();
    assert_eq!(gates, 1);
}

#[tokio::test]
async fn stop_ends_the_run_and_says_so() {
    let place = place();
    let ended = decided(runner(&place), &[(Choice::Next, ""), (Choice::Stop, "enough seen")]).await;
    assert_eq!(ended.state.end, Some(RunEnd::Stopped));
    assert_eq!(passes(&ended.state), [1, 1, 0]);
    assert_eq!(choices(&ended.state)[1], (1, Choice::Stop, Who::Person, "enough seen"));
    is_on_the_disk(&ended);
}

#[tokio::test]
async fn a_stop_at_an_open_gate_does_not_wait_for_a_decision() {
    let place = place();
    let mut runner = runner(&place);
    let (mut view, stop) = (runner.view().unwrap(), runner.stopper());
    let answer = async move {
        while let Some(line) = view.lines.recv().await {
            if let Event::GateOpened { cause, .. } = line.event {
                assert_eq!(cause, GateCause::StepDone);
                assert!(!stop.stop(), "it was not stopped before");
            }
        }
    };
    let (ended, ()) = tokio::join!(runner.run(), answer);
    let state = ended.unwrap().state;
    assert_eq!((state.end.clone(), passes(&state)), (Some(RunEnd::Stopped), vec![1, 0, 0]));
    assert_eq!(state.decisions, [], "a signal is no decision at a gate");
}

#[tokio::test]
async fn without_gates_nothing_is_asked() {
    let place = place();
    let auto = Manner { auto: true, ..Manner::default() };
    let ended = runner_in(&place, auto).run().await.unwrap();
    assert_eq!(passes(&ended.state), [1, 1, 1]);
    assert_eq!(ended.state.decisions, []);
    is_on_the_disk(&ended);
}

#[tokio::test]
async fn two_runs_that_start_in_one_second_have_folders_of_their_own() {
    let place = place();
    let (one, two) = (runner(&place), runner(&place));
    assert_ne!(one.folder().path(), two.folder().path());
    assert_ne!(one.folder().name(), two.folder().name());
}
