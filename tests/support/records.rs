//! Journal lines made up for tests.

use aforo::engine::Stamp;
use aforo::engine::openai::Finish;
use aforo::measure::{Phase, RequestRecord, Times, TokenSource, Tokens};
use aforo::protocol::{FailureReason, Parameter, Setting};
use aforo::quality::Verdict;
use aforo::run::decision::{Choice, Who};
use aforo::run::event::{Event, Line, PassId, RunResumed, RunStarted, SCHEMA};
use aforo::run::plan::{Departure, Step};

/// A line at its place.
pub fn line(seq: usize, event: Event) -> Line {
    Line { seq: seq as u64, at: jiff::Timestamp::UNIX_EPOCH, clock: Stamp::from_nanos(seq as u64), event }
}

/// Lines at their places.
pub fn lines(events: Vec<Event>) -> Vec<Line> {
    events.into_iter().enumerate().map(|(seq, event)| line(seq, event)).collect()
}

/// The first event of a run over that many documents and steps.
pub fn started(documents: usize, steps: usize) -> RunStarted {
    let step = |index: usize| Step {
        label: format!("step {index}"),
        departs: None,
        setting: Setting { concurrency: 1 },
        repetitions: 1,
    };
    RunStarted {
        schema: SCHEMA,
        aforo: "0.0.0".to_owned(),
        run: "run".to_owned(),
        protocol: "p".to_owned(),
        fingerprint: "00".to_owned(),
        model: "m".to_owned(),
        documents,
        threshold: 0.5,
        steps: (0..steps).map(step).collect(),
        deadlines: Vec::new(),
        auto: false,
    }
}

/// The first event of a run over that many documents: the baseline and these concurrencies, with one pass each.
pub fn sweep(documents: usize, values: &[u32]) -> RunStarted {
    let mut started = started(documents, 1);
    let baseline = Step { label: "baseline".to_owned(), ..started.steps.remove(0) };
    let departing = |value: &u32| {
        Step::departing(&baseline, Departure { parameter: Parameter::Concurrency, value: *value })
    };
    started.steps = std::iter::once(baseline.clone()).chain(values.iter().map(departing)).collect();
    started
}

/// The event of a decision by a person.
pub fn decided(step: usize, choice: Choice) -> Event {
    Event::Decision { step, choice, who: Who::Person, reason: String::new() }
}

/// The runner begins again.
pub fn resumed(auto: bool) -> Event {
    Event::RunResumed(RunResumed { aforo: "0.0.0".to_owned(), boot: Some("b".to_owned()), auto })
}

/// A request that was sent at `sent` and took a millisecond to its first token and two to its end.
pub fn request(document: &str, phase: Phase, sent: u64, failed: Option<FailureReason>) -> RequestRecord {
    let at = |milliseconds: u64| Stamp::from_nanos(sent + milliseconds * 1_000_000);
    let verdict = match failed {
        None => Verdict::Accepted,
        Some(reason) => Verdict::Failed { reason, detail: "x".to_owned() },
    };
    RequestRecord {
        document: document.to_owned(),
        phase,
        times: Times {
            scheduled: at(0),
            sent: Some(at(0)),
            first_event: Some(at(1)),
            first_token: Some(at(1)),
            first_answer: Some(at(1)),
            last_token: Some(at(2)),
            end: at(2),
        },
        connected_in_s: None,
        resent: false,
        status: Some(200),
        tokens: Tokens {
            source: TokenSource::Engine,
            input: Some(3),
            out: Some(2),
            cached: None,
            reasoning: None,
            first_event: None,
        },
        events: 2,
        reads: 2,
        longest_gap_s: Some(0.001),
        engine: None,
        finish: Some(Finish::Stop),
        verdict,
        repairs: 0,
        fields: [].into_iter().collect(),
        said: None,
    }
}

/// The event of a request.
pub fn ended(step: usize, pass: u32, request: RequestRecord) -> Event {
    Event::Request { id: PassId { step, pass }, request: Box::new(request) }
}
