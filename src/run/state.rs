//! The state of a run: a pure fold of its events, without clock and without IO.

use super::event::{Choice, EngineFound, Event, Line, PassEnd, PassId, RunEnd, RunStarted, Who};
use super::plan::Step;
use super::scrape::EngineFigures;
use crate::measure::{Phase, RequestRecord};

/// Everything that is known of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    /// What was going to be done; `None` before the first line.
    pub started: Option<RunStarted>,
    /// What answers.
    pub engine: Option<EngineFound>,
    /// Steps in the order of the plan.
    pub steps: Vec<StepState>,
    /// What the person should know, in order.
    pub cautions: Vec<String>,
    /// Decisions, in order.
    pub decisions: Vec<Decided>,
    /// The probe's record, once there is one.
    pub probe: Option<RequestRecord>,
    /// Step whose gate is open.
    pub gate: Option<usize>,
    /// How the run ended; `None` while it goes on, or when it was interrupted.
    pub end: Option<RunEnd>,
    /// Sequence number of the next line.
    pub next_seq: u64,
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
}

/// A step and its passes.
#[derive(Debug, Clone, PartialEq)]
pub struct StepState {
    /// What was planned.
    pub step: Step,
    /// Passes begun, in order.
    pub passes: Vec<PassState>,
    /// True when a decision left it out.
    pub skipped: bool,
}

/// A pass.
#[derive(Debug, Clone, PartialEq)]
pub struct PassState {
    /// Number in its step, from 1.
    pub number: u32,
    /// Phase that runs or ran last.
    pub phase: Option<Phase>,
    /// Requests that the measurement will send.
    pub planned: usize,
    /// Requests of the warm-up: kept to be accounted for, excluded from every figure.
    pub warm_up: Vec<RequestRecord>,
    /// Requests of the measurement, in the order in which they ended.
    pub requests: Vec<RequestRecord>,
    /// Highest number of measurement requests in flight; `None` before the phase ended.
    pub in_flight_peak: Option<u32>,
    /// What the engine's metrics page said over the measurement.
    pub engine: Option<EngineFigures>,
    /// How it ended; `None` while it goes on, or when the run was interrupted in it.
    pub end: Option<PassEnd>,
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
                self.steps = started.steps.iter().map(StepState::planned).collect();
                self.started = Some(*started);
            }
            Event::EngineFound(found) => self.engine = Some(found),
            Event::Caution { text } => self.cautions.push(text),
            Event::PassStarted { id, .. } => {
                self.gate = None;
                if let Some(step) = self.steps.get_mut(id.step) {
                    step.passes.push(PassState::begun(id.pass));
                }
            }
            Event::PhaseStarted { id, phase, requests } => {
                if let Some(pass) = self.pass_mut(id) {
                    pass.phase = Some(phase);
                    if phase == Phase::Measurement {
                        pass.planned = requests;
                    }
                }
            }
            Event::Request { id, request } => self.take_request(id, *request),
            Event::PhaseEnded { id, phase: Phase::Measurement, in_flight_peak, engine } => {
                if let Some(pass) = self.pass_mut(id) {
                    pass.in_flight_peak = Some(in_flight_peak);
                    pass.engine = engine.map(|figures| *figures);
                }
            }
            Event::PassEnded { id, end } => {
                if let Some(pass) = self.pass_mut(id) {
                    pass.end = Some(end);
                }
            }
            Event::GateOpened { step } => self.gate = Some(step),
            Event::Decision { step, choice, who, reason } => self.decide(step, choice, who, reason),
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

    fn decide(&mut self, step: usize, choice: Choice, who: Who, reason: String) {
        self.gate = None;
        // A step that was begun cannot be left out any more: skipping after the last one skips nothing.
        if choice == Choice::Skip
            && let Some(skipped) = self.steps.get_mut(step).filter(|step| step.passes.is_empty())
        {
            skipped.skipped = true;
        }
        self.decisions.push(Decided { step, choice, who, reason });
    }

    /// The pass of that id.
    pub fn pass(&self, id: PassId) -> Option<&PassState> {
        self.steps.get(id.step)?.passes.iter().find(|pass| pass.number == id.pass)
    }

    fn pass_mut(&mut self, id: PassId) -> Option<&mut PassState> {
        self.steps.get_mut(id.step)?.passes.iter_mut().find(|pass| pass.number == id.pass)
    }

    /// Whether the simulated engine answered.
    pub fn simulated(&self) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.found.simulated)
    }
}

impl StepState {
    fn planned(step: &Step) -> Self {
        Self { step: step.clone(), passes: Vec::new(), skipped: false }
    }
}

impl PassState {
    fn begun(number: u32) -> Self {
        Self {
            number,
            phase: None,
            planned: 0,
            warm_up: Vec::new(),
            requests: Vec::new(),
            in_flight_peak: None,
            engine: None,
            end: None,
        }
    }
}
