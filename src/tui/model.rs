//! Everything that is shown, and how events and keys change it. It has no clock and does no IO, so that a test can do all
//! that a person can.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use jiff::Timestamp;
use tui_textarea::TextArea;

use super::action::{Action, of_key, possible};
use super::figures::Figures;
use super::theme::Role;
use crate::measure::LiveCounts;
use crate::protocol::Parameter;
use crate::results::story;
use crate::run::control::Message as Heard;
use crate::run::decision::{Choice, Decision};
use crate::run::desk::Answer;
use crate::run::event::{Event, Line, PassEnd};
use crate::run::state::State;

/// Messages that are kept; the journal has all.
const KEPT_MESSAGES: usize = 1000;

/// What is known of a run.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// The fold.
    pub run: State,
    /// Its numbers; they may be a moment older.
    pub figures: Figures,
    /// Counts of the running phase.
    pub live: Option<LiveCounts>,
    /// Why nothing can be recorded.
    pub trouble: Option<String>,
    /// Wall clock of the last thing that was heard.
    pub at: Option<Timestamp>,
}

impl Seen {
    /// Time from the run's first line to the last thing that was heard.
    pub fn elapsed(&self, began: Option<Timestamp>) -> Option<Duration> {
        Duration::try_from(self.at?.duration_since(began?)).ok()
    }
}

/// A line among the messages.
#[derive(Debug, Clone)]
pub struct Message {
    /// When it happened.
    pub at: Timestamp,
    /// What it says; may have several lines.
    pub text: String,
    /// What it means.
    pub role: Role,
}

/// Whether there is a runner to hear of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection {
    /// The runner is there; what was before this viewer came is still being read.
    CatchingUp,
    /// The runner is there.
    Live,
    /// The run is over.
    Over,
    /// The runner is gone without an end.
    Lost,
}

/// Something that is being written.
#[derive(Debug, Clone)]
pub struct Prompt {
    /// What it is for.
    pub asks: Asks,
    /// The line.
    pub line: TextArea<'static>,
    /// The gate at which it was begun.
    gate: Option<u64>,
}

/// What a prompt asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    /// Why; may be left empty.
    Reason(Choice),
    /// A value, and perhaps why.
    Value(Parameter),
    /// A remark.
    Note,
}

/// What is to be done outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Hand this to the runner.
    Decide(Decision),
    /// Leave the screen.
    Leave,
    /// Stop this process until the shell goes on with it.
    Suspend,
}

/// Everything that is shown.
#[derive(Debug)]
pub struct Model {
    seen: Seen,
    frozen: Option<Box<Seen>>,
    /// When the run began.
    pub began: Option<Timestamp>,
    /// What happened, in order.
    pub messages: Vec<Message>,
    /// How many messages the person has gone back.
    pub back: usize,
    /// The step that the person chose.
    pub chosen: Option<usize>,
    /// What is being written.
    pub prompt: Option<Prompt>,
    /// What a decision was refused for, or what was wrong with what was written.
    pub notice: Option<String>,
    /// Whether the list of keys is shown.
    pub help: bool,
    /// Whether there is a runner.
    pub connection: Connection,
    /// First line of the journal that this viewer sees happen.
    known: u64,
}

impl Model {
    /// A viewer that comes when the journal has this many lines.
    pub fn new(known: u64) -> Self {
        Self {
            seen: Seen::default(),
            frozen: None,
            began: None,
            messages: Vec::new(),
            back: 0,
            chosen: None,
            prompt: None,
            notice: None,
            help: false,
            connection: if known == 0 { Connection::Live } else { Connection::CatchingUp },
            known,
        }
    }

    /// What is on the screen: what is known, or what was known when the person froze it.
    pub fn shown(&self) -> &Seen {
        self.frozen.as_deref().unwrap_or(&self.seen)
    }

    /// What is known.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// How old the frozen screen is, if it is frozen.
    pub fn frozen_for(&self) -> Option<Duration> {
        self.frozen.as_ref()?;
        let age = self.seen.at?.duration_since(self.shown().at?);
        Duration::try_from(age).ok()
    }

    /// Takes what the runner said.
    pub fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::Live(live) => {
                self.seen.live = live.counts;
                self.seen.trouble = live.trouble;
                self.seen.at = Some(live.at);
            }
            Heard::Line(line) => self.take(*line),
        }
    }

    /// Takes a line of the journal.
    pub fn take(&mut self, line: Line) {
        let (at, seq) = (line.at, line.seq);
        self.seen.at = Some(at);
        self.began = self.began.or(Some(at));
        if let Some(role) = role_of(&line.event) {
            self.seen.run.apply(&line);
            if let Some(text) = story::told(&self.seen.run, &line) {
                // What can be chosen at a gate stands among the keys.
                let text = match line.event {
                    Event::GateOpened { .. } => text.lines().next().unwrap_or_default(),
                    _ => text.trim_start(),
                };
                self.say(Message { at, text: text.to_owned(), role });
            }
        } else {
            self.seen.run.take(line);
        }
        if seq + 1 >= self.known && self.connection == Connection::CatchingUp {
            self.connection = Connection::Live;
        }
        if self.seen.run.end.is_some() && self.connection == Connection::Live {
            self.connection = Connection::Over;
        }
        let gate = self.seen.run.gate.as_ref().map(|gate| gate.seq);
        if self.prompt.as_ref().is_some_and(|prompt| prompt.gate.is_some() && prompt.gate != gate) {
            self.prompt = None;
            self.notice = Some("somebody decided before: what you wrote was not used".to_owned());
        }
    }

    fn say(&mut self, message: Message) {
        if self.messages.len() == KEPT_MESSAGES {
            self.messages.remove(0);
        }
        self.messages.push(message);
        if self.back > 0 {
            // What the person reads stays where it is.
            self.back = (self.back + 1).min(self.messages.len() - 1);
        }
    }

    /// Takes the numbers that were computed for what is known.
    pub fn count(&mut self, figures: Figures) {
        self.seen.figures = figures;
    }

    /// Takes that the runner is gone.
    pub fn lose(&mut self) {
        self.connection = if self.seen.run.end.is_some() { Connection::Over } else { Connection::Lost };
        self.prompt = None;
    }

    /// Takes the answer to a decision.
    pub fn answered(&mut self, answer: Answer) {
        self.notice = match answer {
            Answer::Accepted => None,
            Answer::Refused { why } => Some(format!("refused: {why}")),
        };
    }

    /// Takes pasted text: it goes into what is being written and nowhere else.
    pub fn paste(&mut self, text: &str) {
        if let Some(prompt) = &mut self.prompt {
            prompt.line.insert_str(text.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }

    /// Takes a key.
    pub fn press(&mut self, key: KeyEvent) -> Option<Effect> {
        if self.prompt.is_some() {
            return self.write(key);
        }
        self.notice = None;
        let action = of_key(key);
        if self.help && action != Some(Action::Leave) && action != Some(Action::Suspend) {
            self.help = false;
            return None;
        }
        match action? {
            Action::Leave => return Some(Effect::Leave),
            Action::Suspend => return Some(Effect::Suspend),
            Action::Help => self.help = true,
            Action::Freeze => {
                self.frozen = if self.frozen.is_some() { None } else { Some(Box::new(self.seen.clone())) };
            }
            Action::Up => self.choose(|chosen, _| chosen.saturating_sub(1)),
            Action::Down => self.choose(|chosen, last| (chosen + 1).min(last)),
            Action::Earlier => self.back = (self.back + 1).min(self.messages.len().saturating_sub(1)),
            Action::Later => self.back = self.back.saturating_sub(1),
            Action::Decide(choice) => return self.decide(choice),
        }
        None
    }

    fn choose(&mut self, to: impl Fn(usize, usize) -> usize) {
        let last = self.shown().run.steps.len().saturating_sub(1);
        let from = self.chosen.unwrap_or(self.shown().run.current);
        self.chosen = Some(to(from.min(last), last));
    }

    fn decide(&mut self, choice: Choice) -> Option<Effect> {
        let same = |action: Action| match (action, choice) {
            (Action::Decide(Choice::Set { .. }), Choice::Set { .. }) => true,
            (action, choice) => action == Action::Decide(choice),
        };
        let run = &self.seen.run;
        if matches!(self.connection, Connection::Over | Connection::Lost)
            || !possible(run).any(|entry| same(entry.action))
        {
            let why = crate::run::decision::check(run, &Decision::new(choice, "…")).err();
            self.notice = Some(match self.connection {
                Connection::Lost => {
                    "the runner is gone: q leaves, aforo resume takes the run up again".to_owned()
                }
                _ => why.map_or_else(|| "not possible now".to_owned(), |why| why.to_string()),
            });
            return None;
        }
        let asks = match choice {
            Choice::Set { parameter, .. } => Asks::Value(parameter),
            Choice::Note => Asks::Note,
            Choice::Repeat | Choice::Skip | Choice::Stop | Choice::StopAfterPass => Asks::Reason(choice),
            _ => return Some(Effect::Decide(self.decision(choice, ""))),
        };
        let gate = self.seen.run.gate.as_ref().map(|gate| gate.seq);
        self.prompt = Some(Prompt { asks, line: TextArea::default(), gate });
        None
    }

    /// A decision about the gate that is open, if there is one.
    fn decision(&self, choice: Choice, reason: &str) -> Decision {
        let gate = self.seen.run.gate.as_ref().map(|gate| gate.seq).filter(|_| choice.closes_gate());
        Decision { gate, ..Decision::new(choice, reason) }
    }

    fn write(&mut self, key: KeyEvent) -> Option<Effect> {
        let leaves = key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
        match key.code {
            KeyCode::Esc => self.prompt = None,
            _ if leaves => self.prompt = None,
            KeyCode::Enter => return self.submit(),
            _ => {
                if let Some(prompt) = &mut self.prompt {
                    prompt.line.input(key);
                }
            }
        }
        None
    }

    fn submit(&mut self) -> Option<Effect> {
        let prompt = self.prompt.take()?;
        let written = prompt.line.lines().join(" ");
        let written = written.trim();
        let decision = match prompt.asks {
            Asks::Reason(choice) => self.decision(choice, written),
            Asks::Note if written.is_empty() => {
                self.notice = Some("a note needs a text".to_owned());
                return None;
            }
            Asks::Note => self.decision(Choice::Note, written),
            Asks::Value(parameter) => {
                let (value, reason) = written.split_once(char::is_whitespace).unwrap_or((written, ""));
                let Ok(value) = value.parse() else {
                    self.notice = Some(format!(
                        "{value:?} is no value of {}: write a whole number, then perhaps why",
                        parameter.word()
                    ));
                    self.prompt = Some(prompt);
                    return None;
                };
                self.decision(Choice::Set { parameter, value }, reason)
            }
        };
        Some(Effect::Decide(decision))
    }
}

/// What an event means among the messages; `None` for one that has nothing to say there.
fn role_of(event: &Event) -> Option<Role> {
    Some(match event {
        Event::Request { .. } => return None,
        Event::Caution { .. } | Event::ClockNoted { .. } => Role::Caution,
        Event::GateOpened { cause, .. } if cause.is_failure() => Role::Bad,
        Event::GateOpened { .. } => Role::Title,
        Event::Decision { .. } => Role::Decision,
        Event::PassEnded { end: PassEnd::Cut(_), .. } => Role::Bad,
        _ => Role::Text,
    })
}
