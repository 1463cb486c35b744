//! The state of a run: a pure fold of its events, without clock and without IO.

use std::sync::Arc;

use super::cause::GateCause;
use super::decision::{Choice, Who};
use super::event::{EngineFound, Event, Line, PassId, RunEnd, RunStarted};
use super::plan::{Departure, Step};
pub use super::taken::{Attempt, Course, PassState, StepState};
use crate::measure::{Phase, RequestRecord};
use crate::protocol::Parameter;

/// Everything that is known of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    /// What was going to be done; `None` before the first line.
    pub started: Option<RunStarted>,
    /// What answers.
    pub engine: Option<EngineFound>,
    /// Steps: those of the plan in its order, then those that decisions opened.
    pub steps: Vec<StepState>,
    /// Index of the step that is being taken, or was last.
    pub current: usize,
    /// What the person should know, in order.
    pub cautions: Vec<String>,
    /// Decisions, in order.
    pub decisions: Vec<Decided>,
    /// The last probe's record, once there is one.
    pub probe: Option<RequestRecord>,
    /// The open gate.
    pub gate: Option<OpenGate>,
    /// Whether steps follow one another without a gate.
    pub auto: bool,
    /// Whether a person wants the run to pause.
    pub paused: bool,
    /// Whether a decision ends the run.
    pub ending: Ending,
    /// Times that the runner began again.
    pub resumptions: u32,
    /// How the run ended; `None` while it goes on, or when it was interrupted.
    pub end: Option<RunEnd>,
    /// Sequence number of the next line.
    pub next_seq: u64,
}

/// Whether a decision ends a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ending {
    /// None does.
    #[default]
    No,
    /// After the pass that goes on.
    AfterPass,
    /// Now.
    Now,
}

/// A gate at which the runner waits.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenGate {
    /// Index of the step.
    pub step: usize,
    /// Why it opened.
    pub cause: GateCause,
    /// Place of its line in the journal.
    pub seq: u64,
}

/// A decision that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// Index of the step.
    pub step: usize,
    /// What was chosen.
    pub choice: Choice,
    /// Who chose.
    pub who: Who,
    /// Why.
    pub reason: String,
    /// Wall clock, for people.
    pub at: jiff::Timestamp,
}

impl State {
    /// The fold of many lines.
    pub fn fold<'l>(lines: impl IntoIterator<Item = &'l Line>) -> Self {
        let mut state = Self::default();
        for line in lines {
            state.apply(line);
        }
        state
    }

    /// Takes one line.
    pub fn apply(&mut self, line: &Line) {
        self.take(line.clone());
    }

    /// Takes one line that nobody else needs.
    pub fn take(&mut self, line: Line) {
        self.next_seq = line.seq.saturating_add(1);
        match line.event {
            Event::RunStarted(started) => {
                self.steps = started.steps.iter().cloned().map(StepState::planned).collect();
                self.auto = started.auto;
                self.started = Some(*started);
            }
            Event::RunResumed(resumed) => self.begin_again(resumed.auto),
            Event::EngineFound(found) => self.engine = Some(found),
            Event::Caution { text } => self.caution(text),
            Event::PassStarted { id, .. } => {
                self.gate = None;
                let found = self.engine.clone().map(Arc::new);
                if let Some(step) = self.steps.get_mut(id.step) {
                    step.passes.push(Arc::new(PassState::begun(id.pass, found)));
                    self.current = id.step;
                }
            }
            Event::PassContinued { id, attempt, .. } => {
                self.gate = None;
                let found = self.engine.clone().map(Arc::new);
                if let Some(pass) = self.pass_mut(id) {
                    pass.go_on(attempt, found);
                    self.current = id.step;
                }
            }
            Event::PhaseStarted { id, phase, requests } => {
                if let Some(pass) = self.pass_mut(id) {
                    pass.phase = Some(phase);
                    if phase == Phase::Measurement {
                        pass.planned = pass.requests.len().saturating_add(requests);
                    }
                }
            }
            Event::ClockNoted { id, drift, .. } => {
                if let Some(pass) = self.pass_mut(id) {
                    pass.drifts.push(drift);
                }
            }
            Event::Request { id, request } => self.take_request(id, *request),
            Event::PhaseEnded { id, phase: Phase::Measurement, in_flight_peak, engine } => {
                if let Some(pass) = self.pass_mut(id) {
                    pass.in_flight_peak = pass.in_flight_peak.max(Some(in_flight_peak));
                    pass.engine = engine.map(|figures| *figures).filter(|_| !pass.was_resumed());
                }
            }
            Event::PassEnded { id, end } => {
                if let Some(pass) = self.pass_mut(id) {
                    pass.end = Some(end);
                }
            }
            Event::GateOpened { step, cause } => self.gate = Some(OpenGate { step, cause, seq: line.seq }),
            Event::Decision { step, choice, who, reason } => {
                self.decide(step, choice);
                self.decisions.push(Decided { step, choice, who, reason, at: line.at });
            }
            Event::RunEnded { end } => {
                self.gate = None;
                self.end = Some(end);
            }
            Event::PhaseEnded { .. } | Event::Unknown => {}
        }
    }

    fn take_request(&mut self, id: PassId, request: RequestRecord) {
        if request.phase == Phase::Probe {
            self.probe = Some(request);
        } else if let Some(pass) = self.pass_mut(id) {
            match request.phase {
                Phase::WarmUp => pass.warm_up.push(request),
                Phase::Measurement | Phase::Probe => pass.requests.push(request),
            }
        }
    }

    fn decide(&mut self, step: usize, choice: Choice) {
        match choice {
            Choice::Next => self.leave(),
            Choice::Skip => {
                self.leave();
                // A step that was begun cannot be left out any more.
                if let Some(skipped) = self.steps.get_mut(step).filter(|step| step.passes.is_empty()) {
                    skipped.skipped = true;
                }
            }
            Choice::Repeat => {
                self.settle(Course::GivenUp);
                self.close_gate();
                self.ending = Ending::No;
                if let Some(step) = self.steps.get_mut(self.current) {
                    // A pass that was given up is among those that are wanted still.
                    if step.is_done() {
                        step.wanted = step.wanted.saturating_add(step.step.repetitions);
                    }
                    step.left = false;
                }
            }
            Choice::Continue => {
                self.settle(Course::Continue);
                self.close_gate();
            }
            Choice::Set { parameter, value } => {
                self.leave();
                self.open_step(parameter, value);
            }
            Choice::Auto => {
                self.auto = true;
                if self.gate.as_ref().is_some_and(|gate| gate.cause == GateCause::StepDone) {
                    self.leave();
                }
            }
            Choice::AutoOff => self.auto = false,
            Choice::Pause => self.paused = true,
            Choice::Stop => {
                self.close_gate();
                self.ending = Ending::Now;
            }
            Choice::StopAfterPass => self.ending = Ending::AfterPass,
            Choice::Note => {}
        }
    }

    /// Goes on to another step: a pass that was cut stays as it is, and what was to happen after it no longer holds.
    fn leave(&mut self) {
        self.settle(Course::GivenUp);
        self.close_gate();
        self.ending = Ending::No;
        if let Some(step) = self.steps.get_mut(self.current) {
            step.left = true;
        }
    }

    fn close_gate(&mut self) {
        self.gate = None;
        self.paused = false;
    }

    /// Decides how a pass that was cut goes on, if there is one.
    fn settle(&mut self, course: Course) {
        if let Some(pass) = self.unfinished_mut() {
            pass.course = course;
        }
    }

    /// The baseline with one value of its own: a step that was decided away before it was begun, or one that the plan
    /// does not have.
    fn open_step(&mut self, parameter: Parameter, value: u32) {
        let Some(baseline) = self.steps.first().map(|step| &step.step) else { return };
        let step = Step::departing(baseline, Departure { parameter, value });
        let away = |known: &StepState| {
            known.passes.is_empty() && known.is_decided_away() && known.step.setting == step.setting
        };
        let place = self.steps.iter().position(away).unwrap_or(self.steps.len());
        match self.steps.get_mut(place) {
            Some(away) => (away.skipped, away.left) = (false, false),
            None => self.steps.push(StepState::planned(step)),
        }
        self.current = place;
    }

    /// Keeps what is to be known, once: a run that begins again finds the same things.
    fn caution(&mut self, text: String) {
        if !self.cautions.contains(&text) {
            self.cautions.push(text);
        }
    }

    /// The runner begins again: whatever it was about to do is asked anew.
    fn begin_again(&mut self, auto: bool) {
        self.resumptions = self.resumptions.saturating_add(1);
        (self.end, self.gate) = (None, None);
        (self.paused, self.ending) = (false, Ending::No);
        self.auto = auto;
        if let Some(pass) = self.unfinished_mut() {
            (pass.course, pass.interrupted) = (Course::Open, pass.end.is_none());
        }
    }

    /// The last pass of the current step, when it is not complete and nobody gave it up.
    pub fn unfinished(&self) -> Option<&PassState> {
        let last = self.steps.get(self.current)?.passes.last()?;
        (!last.is_complete() && last.course != Course::GivenUp).then_some(last)
    }

    fn unfinished_mut(&mut self) -> Option<&mut PassState> {
        let pass = self.unfinished()?.number;
        self.pass_mut(PassId { step: self.current, pass })
    }

    /// The pass of that id.
    pub fn pass(&self, id: PassId) -> Option<&PassState> {
        self.steps.get(id.step)?.passes.iter().map(Arc::as_ref).find(|pass| pass.number == id.pass)
    }

    fn pass_mut(&mut self, id: PassId) -> Option<&mut PassState> {
        let pass = self.steps.get_mut(id.step)?.passes.iter_mut().find(|pass| pass.number == id.pass)?;
        // Copies the pass only while somebody else holds a copy of the state.
        Some(Arc::make_mut(pass))
    }

    /// Whether the simulated engine answered.
    pub fn simulated(&self) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.found.simulated)
    }
}
