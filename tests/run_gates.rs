//! Gates: after each step the runner waits for a decision, and each decision is in the journal.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use std::path::Path;

use aforo::protocol::read;
use aforo::run::event::{Choice, Event, RunEnd, Who};
use aforo::run::gate::{Decision, Gate};
use aforo::run::prepare::Prepare;
use aforo::run::runner::{Ended, Runner};
use aforo::run::{journal, state::State};
use support::Workplace;
use tokio::sync::mpsc;

/// Three steps of one pass.
fn place() -> Workplace {
    let place = Workplace::new(6);
    place.append("[[sweep]]\nparameter = \"concurrency\"\nvalues = [2, 3]");
    place
}

fn runner(place: &Workplace) -> Runner {
    let frozen = read(&place.path("protocol.toml"), &[]).unwrap();
    Prepare::new(frozen).unwrap().open(&place.path("aforo-runs")).unwrap()
}

/// Answers each gate with the next of these; when they are used up, nobody is left to decide.
async fn decided(mut runner: Runner, choices: &[(Choice, &str)]) -> Ended {
    let (decisions, gate) = mpsc::unbounded_channel();
    let mut view = runner.view().unwrap();
    let mut choices =
        choices.iter().map(|(choice, reason)| Decision { choice: *choice, reason: (*reason).to_owned() });
    let answer = async move {
        let mut decisions = Some(decisions);
        while let Some(line) = view.lines.recv().await {
            if let Event::GateOpened { step } = line.event {
                assert_eq!(view.state.lock().unwrap().gate, Some(step));
                match choices.next() {
                    Some(decision) => decisions.as_ref().unwrap().send(decision).unwrap(),
                    None => drop(decisions.take()),
                }
            }
        }
    };
    let (ended, ()) = tokio::join!(runner.run(Gate::Asks(gate)), answer);
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
async fn skip_after_the_last_step_ends_the_run_and_leaves_nothing_out() {
    let place = place();
    let ended = decided(runner(&place), &[(Choice::Next, ""), (Choice::Next, ""), (Choice::Skip, "")]).await;
    assert_eq!(ended.state.end, Some(RunEnd::Done));
    assert_eq!(passes(&ended.state), [1, 1, 1]);
    assert!(ended.state.steps.iter().all(|step| !step.skipped));
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
async fn when_nobody_is_left_to_decide_the_run_stops_and_the_rule_is_named() {
    let place = place();
    let ended = decided(runner(&place), &[]).await;
    assert_eq!(ended.state.end, Some(RunEnd::Stopped));
    assert_eq!(choices(&ended.state), [(0, Choice::Stop, Who::Rule, "nobody is left to decide")]);
}

#[tokio::test]
async fn a_stop_at_an_open_gate_does_not_wait_for_a_decision() {
    let place = place();
    let mut runner = runner(&place);
    let (_decisions, gate) = mpsc::unbounded_channel();
    let (mut view, stop) = (runner.view().unwrap(), runner.stopper());
    let answer = async move {
        while let Some(line) = view.lines.recv().await {
            if matches!(line.event, Event::GateOpened { .. }) {
                stop.send_replace(true);
            }
        }
    };
    let (ended, ()) = tokio::join!(runner.run(Gate::Asks(gate)), answer);
    let state = ended.unwrap().state;
    assert_eq!((state.end.clone(), passes(&state)), (Some(RunEnd::Stopped), vec![1, 0, 0]));
    assert_eq!(state.decisions, [], "a signal is no decision at a gate");
}

#[tokio::test]
async fn without_gates_nothing_is_asked() {
    let place = place();
    let ended = runner(&place).run(Gate::Open).await.unwrap();
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
