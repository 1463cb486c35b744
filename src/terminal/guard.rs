//! Takes the terminal over for screens and gives it back as it was: once, whatever ends them.

use std::io::{self, Stdout, Write as _, stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ThreadId;

use crossterm::cursor::Show;
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen,
    LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{execute, queue};
use ratatui::Frame;
use ratatui::backend::CrosstermBackend;
use rustix::process::{Signal, getpid, getppid, getsid, kill_process};

/// Whether the terminal is taken, so that it is given back once.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal while it shows screens. Dropped, it is as it was.
#[derive(Debug)]
pub struct Terminal {
    inner: ratatui::Terminal<CrosstermBackend<Stdout>>,
}

impl Terminal {
    /// Takes the terminal over. A panic of this thread gives it back before it is told; one of another thread must not,
    /// since the screens go on.
    pub fn take() -> io::Result<Self> {
        // Without this a theme without colours would have its bold and reverse reset by empty colour codes.
        crossterm::style::force_color_output(true);
        give_back_on_panic_of(std::thread::current().id());
        enter()?;
        Ok(Self { inner: blank().inspect_err(|_| give_back())? })
    }

    /// Draws in one piece: a terminal that can hold back a half-drawn screen is asked to.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        queue!(stdout(), BeginSynchronizedUpdate)?;
        self.inner.draw(draw)?;
        execute!(stdout(), EndSynchronizedUpdate)
    }

    /// Gives the terminal back and stops this process, as Ctrl-Z does; takes it over again when it goes on. False where
    /// there is no shell that could let it go on: as the first program of a connection it would hang for ever.
    pub fn suspend(&mut self) -> io::Result<bool> {
        if !has_shell() {
            return Ok(false);
        }
        give_back();
        // Not the signal that was caught: that one would be caught again.
        kill_process(getpid(), Signal::STOP)?;
        enter()?;
        self.inner = blank()?;
        Ok(true)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

/// Whether the program that started this one is in the same session, as a shell with jobs is.
fn has_shell() -> bool {
    let session_of = |process| getsid(process).ok();
    getppid().is_some_and(|parent| session_of(Some(parent)) == session_of(None))
}

/// A screen with nothing on it. Not by asking the terminal where its cursor is, as ratatui's own clearing does: the
/// answer would come to the thread that reads keys.
fn blank() -> io::Result<ratatui::Terminal<CrosstermBackend<Stdout>>> {
    execute!(stdout(), Clear(ClearType::All))?;
    ratatui::Terminal::new(CrosstermBackend::new(stdout()))
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    TAKEN.store(true, Ordering::SeqCst);
    execute!(stdout(), EnterAlternateScreen, EnableBracketedPaste, crossterm::cursor::Hide)
        .inspect_err(|_| give_back())
}

/// Gives the terminal back, if it is taken.
fn give_back() {
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    // A terminal that is gone takes none of it; there is nothing left to be restored then.
    let _ = execute!(stdout(), EndSynchronizedUpdate, DisableBracketedPaste, LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
    let _ = stdout().flush();
}

fn give_back_on_panic_of(thread: ThreadId) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if std::thread::current().id() == thread {
                give_back();
            }
            before(panic);
        }));
    });
}
