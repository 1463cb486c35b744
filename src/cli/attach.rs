//! `aforo attach`: follows a run that a runner takes, and hands decisions to it. Leaving changes nothing.

use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};

use super::exit::{CliError, Exit};
use super::launch::Launch;
use super::print::say;
use super::which::{Wanted, which};
use super::{AttachArgs, advice, ask, foreground, outcome, progress};
use crate::measure::LiveCounts;
use crate::results::story;
use crate::run::control::{ConnectError, Message, Remote, Viewer};
use crate::run::event::{Event, Line, RunEnd};
use crate::run::folder::RunFolder;
use crate::run::runner::View;
use crate::run::state::State;
use crate::run::{journal, lock};
use crate::terminal::capabilities::{Capabilities, Colours};
use crate::tui::theme::Theme;
use crate::tui::workbench::{self, Left};

/// From where a run is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    /// From its first line: it has just begun.
    Start,
    /// From now, after a line that says where it is.
    Now,
}

pub(super) fn execute(args: &AttachArgs) -> Result<Exit, CliError> {
    let folder = which(args.run.as_deref(), &args.runs, Wanted::Running)?.folder;
    follow(&folder, None, How { from: From::Now, lines: args.lines, json: args.json })
}

/// How a run is followed.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    /// From where it is told, with lines.
    pub(super) from: From,
    /// With lines although there could be a screen.
    pub(super) lines: bool,
    /// The result as JSON at the end.
    pub(super) json: bool,
}

/// What the terminal can show, if a screen is wanted and possible.
fn screen(how: How) -> Option<Capabilities> {
    let has_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if how.lines || !has_terminal {
        return None;
    }
    let capabilities = Capabilities::of_environment();
    if let Err(dumb) = &capabilities {
        say(&format!("{dumb}: lines instead"));
    }
    capabilities.ok()
}

/// Why the following ended.
enum Over {
    /// The run did.
    Run,
    /// The person left.
    Left,
    /// The runner is gone without an end.
    Lost,
}

/// Follows a run, perhaps one that is only being launched, until it is over or the person leaves.
pub(super) fn follow(folder: &RunFolder, launch: Option<&Launch>, how: How) -> Result<Exit, CliError> {
    let runtime = foreground::runtime()?;
    let state = Arc::new(Mutex::new(State::default()));
    let over = runtime.block_on(launch_and_watch(folder, launch, how, Arc::clone(&state)));
    // The thread that reads the input cannot be called back.
    runtime.shutdown_background();
    let state = state.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match over? {
        Over::Left => {
            let back = advice::command("attach", folder.path());
            let stop = advice::command("stop", folder.path());
            // What the terminal shows for the key stands on this line.
            say(&format!("\nthe run goes on\n  {back}   comes back\n  {stop}   ends it"));
            Ok(Exit::Done)
        }
        Over::Lost => {
            let resume = advice::command("resume", folder.path());
            say(&format!("the runner is gone; what was recorded is safe\n  {resume}   goes on"));
            Ok(Exit::Stopped)
        }
        Over::Run => {
            let shown = outcome::show(&state, how.json);
            outcome::kept(folder, &state);
            match state.end {
                Some(RunEnd::Failed { why }) => Err(CliError::Failed(color_eyre::eyre::eyre!(why))),
                _ => shown,
            }
        }
    }
}

async fn launch_and_watch(
    folder: &RunFolder,
    launch: Option<&Launch>,
    how: How,
    state: Arc<Mutex<State>>,
) -> Result<Over, CliError> {
    // One listener for the whole time: a key pressed at any moment means that the person leaves.
    let mut interrupt = signal(SignalKind::interrupt()).map_err(CliError::failed)?;
    if let Some(launch) = launch {
        let launched = launch.start()?;
        let ready = tokio::task::spawn_blocking(|| launched.ready());
        tokio::select! {
            ready = ready => ready.map_err(CliError::failed)??,
            _ = interrupt.recv() => return Ok(Over::Left),
        }
    }
    match screen(how) {
        Some(capabilities) => show(folder, capabilities, &state, interrupt).await,
        None => watch(folder, how.from, state, interrupt).await,
    }
}

/// Follows with a screen.
async fn show(
    folder: &RunFolder,
    capabilities: Capabilities,
    state: &Mutex<State>,
    interrupt: Signal,
) -> Result<Over, CliError> {
    let theme = match capabilities.colours {
        Colours::None => "mono",
        Colours::Sixteen => "default",
    };
    let theme = Theme::named(theme).map_err(CliError::failed)?;
    let viewer = Viewer::connect(folder.path()).await.map_err(|error| unconnected(folder, error))?;
    let shown = workbench::show(folder.path(), viewer, &theme, capabilities, interrupt).await;
    let (left, run) = shown.map_err(CliError::failed)?;
    *state.lock().unwrap_or_else(PoisonError::into_inner) = run;
    Ok(match left {
        Left::Running | Left::Gone => Over::Left,
        Left::Over => Over::Run,
        Left::Lost => Over::Lost,
    })
}

async fn watch(
    folder: &RunFolder,
    from: From,
    state: Arc<Mutex<State>>,
    mut interrupt: Signal,
) -> Result<Over, CliError> {
    let viewer = Viewer::connect(folder.path()).await.map_err(|error| unconnected(folder, error))?;
    let known = match from {
        From::Start => 0,
        From::Now => viewer.hello().next_seq,
    };
    let (mut events, remote) = viewer.follow(0).await.map_err(CliError::failed)?;
    let (told, lines) = mpsc::unbounded_channel();
    let (live, shown) = watch::channel(None::<LiveCounts>);
    let (trouble, troubles) = watch::channel(None);
    let view =
        View { lines, state: Arc::clone(&state), live: Arc::new(move || *shown.borrow()), trouble: troubles };
    // Nothing is shown before all that was known is: it would be told as if it were happening now.
    let mut view = Some(view);
    let mut showing = None;
    let mut left = input(remote);
    say("Ctrl-C leaves; the run goes on without you");
    if known == 0 {
        showing = view.take().map(|view| tokio::spawn(progress::show(view)));
    }
    let mut over = Over::Lost;
    loop {
        let message = tokio::select! {
            message = events.next() => message,
            _ = interrupt.recv() => { over = Over::Left; break }
            _ = left.recv() => { over = Over::Left; break }
        };
        match message.transpose().map_err(CliError::failed)? {
            None => break,
            Some(Message::Live(news)) => {
                live.send_replace(news.counts);
                trouble.send_if_modified(|known| {
                    let is_new = *known != news.trouble;
                    known.clone_from(&news.trouble);
                    is_new
                });
            }
            Some(Message::Line(event)) => {
                let ended = matches!(event.event, Event::RunEnded { .. });
                let tell = event.seq >= known && !matches!(event.event, Event::Request { .. });
                let copy = tell.then(|| (*event).clone());
                let at = event.seq;
                state.lock().unwrap_or_else(PoisonError::into_inner).take(*event);
                if at + 1 == known {
                    say(&story::standing(&state.lock().unwrap_or_else(PoisonError::into_inner)));
                    showing = view.take().map(|view| tokio::spawn(progress::show(view)));
                }
                if let Some(line) = copy {
                    // Nobody listens once the progress lines have ended.
                    let _ = told.send(line);
                }
                if ended && at + 1 >= known {
                    over = Over::Run;
                    break;
                }
            }
        }
    }
    if matches!(over, Over::Lost) && catch_up(folder, &state, &told)? {
        over = Over::Run;
    }
    drop(told);
    if let Some(showing) = showing
        && let Err(error) = showing.await
    {
        tracing::error!(%error, "the progress lines ended early");
    }
    Ok(over)
}

/// Reads what the journal has beyond what came over the connection: a viewer that was stopped may miss the end of a run,
/// whose runner does not wait for it. True when that is the end.
fn catch_up(
    folder: &RunFolder,
    state: &Mutex<State>,
    told: &mpsc::UnboundedSender<Line>,
) -> Result<bool, CliError> {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    journal::each(&folder.journal(), |line| {
        if line.seq == state.next_seq {
            if !matches!(line.event, Event::Request { .. }) {
                // Nobody listens once the progress lines have ended.
                let _ = told.send(line.clone());
            }
            state.take(line);
        }
    })
    .map_err(CliError::failed)?;
    Ok(state.end.is_some())
}

pub(super) fn unconnected(folder: &RunFolder, error: ConnectError) -> CliError {
    if !matches!(error, ConnectError::NotRunning) {
        return CliError::failed(error);
    }
    if !lock::is_held(folder) {
        let resume = advice::command("resume", folder.path());
        return CliError::WrongUse(format!(
            "the run ended just now, or its runner did\n  {resume}   goes on"
        ));
    }
    let pid = lock::held_by(folder).map_or_else(|| "PID".to_owned(), |pid| pid.to_string());
    let resume = advice::command("resume", folder.path());
    CliError::WrongUse(format!(
        "a runner (process {pid}) has this run, but its socket was removed, so that nothing can reach it\n  \
         kill {pid}   ends it in order; what it recorded is safe\n  {resume}   then goes on"
    ))
}

/// Reads decisions and hands them over; what comes out says that the person has left.
fn input(remote: Remote) -> mpsc::Receiver<()> {
    let (leave, left) = mpsc::channel(1);
    let is_terminal = std::io::stdin().is_terminal();
    let mut asked = ask::decisions("Ctrl-C leaves; the run goes on without you");
    tokio::spawn(async move {
        while let Some(decision) = asked.recv().await {
            ask::tell(remote.decide(decision).await).await;
        }
        if is_terminal {
            // The end of a terminal's input: the person, or the terminal, is gone.
            let _ = leave.send(()).await;
        } else {
            // There never was anybody to leave.
            leave.closed().await;
        }
    });
    left
}
