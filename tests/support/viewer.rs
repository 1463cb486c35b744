//! A viewer of a run for tests: waits for lines, decides, and keeps the fold.

use std::path::Path;

use aforo::protocol::Parameter;
use aforo::run::control::{Events, Message, Remote, Viewer};
use aforo::run::decision::{Choice, Decision};
use aforo::run::desk::Answer;
use aforo::run::event::{Event, Line};
use aforo::run::state::State;

use super::HANGS;

/// A viewer attached to a run from its first line.
pub struct Watch {
    events: Events,
    remote: Remote,
    pub state: State,
}

impl Watch {
    /// Attaches; the runner must listen already.
    pub async fn attach(folder: &Path) -> Self {
        let viewer = Viewer::connect(folder).await.unwrap();
        let (events, remote) = viewer.follow(0).await.unwrap();
        Self { events, remote, state: State::default() }
    }

    /// The next message; `None` when the runner has closed the connection.
    pub async fn next(&mut self) -> Option<Message> {
        let message = tokio::time::timeout(HANGS, self.events.next()).await.expect("nothing comes")?.unwrap();
        if let Message::Line(line) = &message {
            assert_eq!(line.seq, self.state.next_seq, "exactly once and in order");
            self.state.apply(line);
        }
        Some(message)
    }

    /// Reads until a line passes.
    pub async fn until(&mut self, passes: impl Fn(&Line) -> bool) -> Line {
        loop {
            match self.next().await.expect("the runner has gone") {
                Message::Line(line) if passes(&line) => return *line,
                _ => {}
            }
        }
    }

    /// Reads until a gate opens.
    pub async fn gate(&mut self) -> aforo::run::cause::GateCause {
        let line = self.until(|line| matches!(line.event, Event::GateOpened { .. })).await;
        let Event::GateOpened { cause, .. } = line.event else { unreachable!() };
        cause
    }

    /// Reads to the end of the run.
    pub async fn end(&mut self) {
        while self.next().await.is_some() {}
        assert!(self.state.end.is_some(), "the runner has gone without an end");
    }

    /// Decides while events go on.
    pub async fn decide(&mut self, choice: Choice, reason: &str) -> Answer {
        let remote = self.remote.clone();
        let decision = Decision::new(choice, reason);
        let asking = tokio::spawn(async move { remote.decide(decision).await });
        tokio::time::timeout(HANGS, asking).await.expect("no answer").unwrap()
    }

    /// Decides what must be possible.
    pub async fn accepted(&mut self, choice: Choice, reason: &str) {
        assert_eq!(self.decide(choice, reason).await, Answer::Accepted, "{choice:?}");
    }
}

/// Another value of the swept parameter.
pub fn set(value: u32) -> Choice {
    Choice::Set { parameter: Parameter::Concurrency, value }
}
