//! A run that is told instead of taken: the events that a runner would write, where they would be possible.

use aforo::measure::{Phase, Trouble};
use aforo::protocol::FailureReason;
use aforo::run::cause::{CutCause, GateCause};
use aforo::run::decision::{Choice, Decision, check};
use aforo::run::event::{Event, Line, PassEnd, PassId, RunEnd, RunStarted};
use aforo::run::position::{self, Next};
use aforo::run::remaining::remaining;
use aforo::run::state::State;

use super::records::{decided, ended, line, request, resumed};

/// What has been told so far.
pub struct Tale {
    pub lines: Vec<Line>,
    pub state: State,
    documents: Vec<String>,
}

/// The engine is gone.
pub fn engine_gone() -> CutCause {
    CutCause::Trouble(Trouble::EngineGone { text: "refused".to_owned() })
}

/// The engine is gone, in a pass.
pub fn cut() -> PassEnd {
    PassEnd::Cut(engine_gone())
}

impl Tale {
    pub fn of(started: RunStarted) -> Self {
        let documents = (0..started.documents).map(|number| format!("d{number}")).collect();
        let mut tale = Self { lines: Vec::new(), state: State::default(), documents };
        tale.tell(Event::RunStarted(Box::new(started)));
        tale
    }

    pub fn tell(&mut self, event: Event) -> &mut Self {
        let line = line(self.lines.len(), event);
        self.state.apply(&line);
        self.lines.push(line);
        self
    }

    pub fn next(&self) -> Next {
        position::next(&self.state)
    }

    /// Documents of a pass that are left to be asked.
    pub fn left(&self, id: PassId) -> Vec<usize> {
        remaining(self.state.pass(id).unwrap(), self.documents.iter().map(String::as_str))
    }

    /// Begins the pass that comes next, or goes on with it.
    pub fn begin(&mut self) -> PassId {
        let (id, requests) = match self.next() {
            Next::Take(id) => {
                self.tell(Event::PassStarted { id, pass_key: "k".to_owned() });
                (id, self.documents.len())
            }
            Next::Complete(id) => {
                let requests = self.left(id).len();
                let attempt = self.state.pass(id).unwrap().attempts + 1;
                self.tell(Event::PassContinued { id, attempt, requests });
                (id, requests)
            }
            other => panic!("no pass is next: {other:?}"),
        };
        self.tell(Event::PhaseStarted { id, phase: Phase::Measurement, requests });
        id
    }

    /// A request of a pass ends.
    pub fn request(&mut self, id: PassId, document: usize, failed: Option<FailureReason>) -> &mut Self {
        let sent = 5_000_000 * self.lines.len() as u64;
        let record = request(&self.documents[document], Phase::Measurement, sent, failed);
        self.tell(ended(id.step, id.pass, record))
    }

    pub fn end_pass(&mut self, id: PassId, end: PassEnd) -> &mut Self {
        self.tell(Event::PhaseEnded { id, phase: Phase::Measurement, in_flight_peak: 1, engine: None });
        self.tell(Event::PassEnded { id, end })
    }

    /// The pass that comes next, with an answer to each document that is left.
    pub fn complete(&mut self) -> &mut Self {
        let id = self.begin();
        for document in self.left(id) {
            self.request(id, document, None);
        }
        self.end_pass(id, PassEnd::Complete)
    }

    /// The pass that comes next, with an answer to its first document only.
    pub fn break_off(&mut self, end: PassEnd) -> &mut Self {
        let id = self.begin();
        if let Some(first) = self.left(id).first() {
            self.request(id, *first, None);
        }
        self.end_pass(id, end)
    }

    /// The gate that comes next opens.
    pub fn gate(&mut self) -> &mut Self {
        let Next::OpenGate { step, cause } = self.next() else {
            panic!("no gate is next: {:?}", self.next())
        };
        self.tell(Event::GateOpened { step, cause })
    }

    /// A gate for want of an engine opens where a pass comes next.
    pub fn no_engine(&mut self) -> &mut Self {
        assert!(matches!(self.next(), Next::Take(_) | Next::Complete(_)), "{:?}", self.next());
        let (step, text) = (self.state.current, "refused".to_owned());
        self.tell(Event::GateOpened { step, cause: GateCause::NoEngine { text } })
    }

    /// A person decides what is possible.
    pub fn choose(&mut self, choice: Choice) -> &mut Self {
        let step =
            check(&self.state, &Decision::new(choice, "x")).unwrap_or_else(|why| panic!("{choice:?}: {why}"));
        self.tell(decided(step, choice))
    }

    /// The step that is done, and what is decided at its gate.
    pub fn step(&mut self, choice: Choice) -> &mut Self {
        self.complete().gate().choose(choice)
    }

    /// Why a choice is not possible.
    pub fn refused(&self, choice: Choice) -> String {
        match check(&self.state, &Decision::new(choice, "x")) {
            Ok(step) => panic!("{choice:?} is possible at step {step}"),
            Err(why) => why.to_string(),
        }
    }

    /// The run ends.
    pub fn end(&mut self, end: RunEnd) -> &mut Self {
        self.tell(Event::RunEnded { end })
    }

    /// The runner begins again.
    pub fn resume(&mut self) -> &mut Self {
        let auto = self.state.auto;
        self.tell(resumed(auto))
    }
}
