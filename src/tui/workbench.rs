//! The loop: what the runner says and what the person does goes into the model, decisions go out, and the screen is drawn
//! when something changed, at most ten times a second.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use ratatui::Frame;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use super::figures::Figures;
use super::model::{Connection, Effect, Model};
use super::theme::Theme;
use super::view;
use crate::run::control::{ConnectError, Events, Remote, Viewer};
use crate::run::journal;
use crate::run::state::State;
use crate::terminal::capabilities::Capabilities;
use crate::terminal::guard::Terminal;
use crate::terminal::input::{self, Input};

/// Shortest time between two drawings.
const FRAME: Duration = Duration::from_millis(100);

/// Shortest time between two computations of the figures.
const COUNT: Duration = Duration::from_millis(500);

/// The figures of a large run take long: they may take one part of this many of a core's time.
const COUNT_SHARE: u32 = 50;

/// How the screen was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// The person left; the run goes on.
    Running,
    /// The run is over.
    Over,
    /// The runner is gone without an end.
    Lost,
    /// The terminal is gone.
    Gone,
}

/// Why the workbench cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum WorkbenchError {
    /// The terminal.
    #[error("the terminal: {0}")]
    Terminal(#[from] io::Error),
    /// The runner.
    #[error(transparent)]
    Runner(#[from] ConnectError),
    /// The journal, after the runner's end.
    #[error(transparent)]
    Journal(#[from] journal::JournalError),
}

/// Shows a run until the person leaves; gives the last state. `interrupt` was listened to since before the terminal was
/// taken: a Ctrl-C of then leaves too.
pub async fn show(
    run_folder: &Path,
    viewer: Viewer,
    theme: &Theme,
    capabilities: Capabilities,
    interrupt: Signal,
) -> Result<(Left, State), WorkbenchError> {
    let mut signals = Signals::listen(interrupt)?;
    let known = viewer.hello().next_seq;
    let (events, remote) = viewer.follow(0).await?;
    let mut terminal = Terminal::take()?;
    let mut bench = Workbench {
        model: Model::new(known),
        events,
        remote,
        counted: Counted::default(),
        answers: mpsc::unbounded_channel(),
    };
    let left = bench.run(run_folder, &mut terminal, &mut signals, |frame, model| {
        view::draw(frame, model, theme, capabilities);
    });
    let left = left.await?;
    drop(terminal);
    Ok((left, bench.model.seen().run.clone()))
}

struct Workbench {
    model: Model,
    events: Events,
    remote: Remote,
    counted: Counted,
    answers:
        (mpsc::UnboundedSender<crate::run::desk::Answer>, mpsc::UnboundedReceiver<crate::run::desk::Answer>),
}

/// When the figures were computed, and how long that took.
#[derive(Default)]
struct Counted {
    last: Option<(Instant, Duration)>,
    /// Place in the journal of what they are about.
    seq: u64,
}

impl Counted {
    /// Whether it is time to compute them again.
    fn is_due(&self) -> bool {
        self.last.is_none_or(|(at, took)| at.elapsed() >= COUNT.max(took * COUNT_SHARE))
    }
}

/// Signals about the screen; none is about the run.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    stop: Signal,
}

/// What a signal asks for.
enum Asked {
    Leave,
    Suspend,
    Gone,
}

impl Signals {
    fn listen(interrupt: Signal) -> io::Result<Self> {
        Ok(Self {
            interrupt,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            stop: signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?,
        })
    }

    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => Asked::Leave,
            _ = self.terminate.recv() => Asked::Leave,
            _ = self.hang_up.recv() => Asked::Gone,
            _ = self.stop.recv() => Asked::Suspend,
        }
    }
}

impl Workbench {
    async fn run(
        &mut self,
        run_folder: &Path,
        terminal: &mut Terminal,
        signals: &mut Signals,
        draw: impl Fn(&mut Frame<'_>, &Model),
    ) -> Result<Left, WorkbenchError> {
        let mut input = input::listen();
        let mut frames = interval(FRAME);
        frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut changed = true;
        loop {
            let follows = matches!(self.model.connection, Connection::Live | Connection::CatchingUp);
            tokio::select! {
                biased;
                typed = input.recv() => {
                    changed = true;
                    match typed {
                        None | Some(Input::Gone) => return Ok(Left::Gone),
                        Some(Input::Resized) => {}
                        Some(Input::Paste(text)) => self.model.paste(&text),
                        Some(Input::Key(key)) => match self.model.press(key) {
                            Some(Effect::Leave) => return Ok(self.left()),
                            Some(Effect::Suspend) => self.suspend(terminal)?,
                            Some(Effect::Decide(decision)) => {
                                let (remote, answers) = (self.remote.clone(), self.answers.0.clone());
                                tokio::spawn(async move {
                                    // The person may have left meanwhile.
                                    let _ = answers.send(remote.decide(decision).await);
                                });
                            }
                            None => {}
                        },
                    }
                }
                asked = signals.next() => match asked {
                    Asked::Suspend => {
                        self.suspend(terminal)?;
                        changed = true;
                    }
                    Asked::Leave => return Ok(self.left()),
                    Asked::Gone => return Ok(Left::Gone),
                },
                Some(answer) = self.answers.1.recv() => {
                    self.model.answered(answer);
                    changed = true;
                }
                // Ticks go on until the figures are about the last line: what is due later must be drawn later.
                _ = frames.tick(), if changed || self.is_behind() => {
                    if self.count() || changed {
                        terminal.draw(|frame| draw(frame, &self.model))?;
                        changed = false;
                    }
                }
                heard = self.events.next(), if follows => {
                    changed = true;
                    match heard {
                        Some(heard) => self.model.hear(heard?),
                        None => self.catch_up(run_folder)?,
                    }
                }
            }
        }
    }

    fn suspend(&mut self, terminal: &mut Terminal) -> io::Result<()> {
        if !terminal.suspend()? {
            self.model.notice = Some("there is no shell to come back from".to_owned());
        }
        Ok(())
    }

    /// Whether the figures are older than what is known.
    fn is_behind(&self) -> bool {
        self.counted.last.is_none() || self.counted.seq != self.model.seen().run.next_seq
    }

    /// Computes the figures, if it is time to; true when they are new.
    fn count(&mut self) -> bool {
        if !self.is_behind() || !self.counted.is_due() {
            return false;
        }
        let run = &self.model.seen().run;
        let begun = Instant::now();
        let (figures, seq) = (Figures::of(run), run.next_seq);
        self.counted = Counted { last: Some((begun, begun.elapsed())), seq };
        self.model.count(figures);
        true
    }

    /// Reads what the journal has beyond what came over the connection: a runner does not wait for a viewer that was
    /// stopped.
    fn catch_up(&mut self, run_folder: &Path) -> Result<(), WorkbenchError> {
        let journal = crate::run::folder::RunFolder::open(run_folder).journal();
        journal::each(&journal, |line| {
            if line.seq == self.model.seen().run.next_seq {
                self.model.take(line);
            }
        })?;
        self.model.lose();
        Ok(())
    }

    fn left(&self) -> Left {
        match self.model.connection {
            Connection::Live | Connection::CatchingUp => Left::Running,
            Connection::Over => Left::Over,
            Connection::Lost => Left::Lost,
        }
    }
}
