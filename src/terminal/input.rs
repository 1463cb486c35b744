//! What comes from the terminal, read by a thread of its own.
//!
//! The reader can hang for ever when the connection behind the terminal dies: it then reads an end that it takes for
//! nothing. So another thread watches the terminal for that, without reading.

use std::time::Duration;

use crossterm::event::{Event, KeyEvent, KeyEventKind};
use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::mpsc;

/// Longest time that whoever reads [`Input`] gets to leave when the terminal is gone, before the process ends: nothing
/// of a run depends on a screen.
const GRACE: Duration = Duration::from_secs(1);

/// Something that the person or the terminal did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A key was pressed or repeats.
    Key(KeyEvent),
    /// Text was pasted.
    Paste(String),
    /// The terminal has another size.
    Resized,
    /// The terminal is gone.
    Gone,
}

/// Starts both threads; they end with the process.
pub fn listen() -> mpsc::UnboundedReceiver<Input> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let watching = sender.clone();
    std::thread::spawn(move || {
        watch_for_hang_up();
        // Whoever listened may have left.
        let _ = watching.send(Input::Gone);
        std::thread::sleep(GRACE);
        std::process::exit(1);
    });
    std::thread::spawn(move || {
        while let Ok(event) = crossterm::event::read() {
            if let Some(input) = of(event)
                && sender.send(input).is_err()
            {
                return;
            }
        }
        let _ = sender.send(Input::Gone);
    });
    receiver
}

fn of(event: Event) -> Option<Input> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => Some(Input::Key(key)),
        Event::Paste(text) => Some(Input::Paste(text)),
        Event::Resize(_, _) => Some(Input::Resized),
        Event::Key(_) | Event::Mouse(_) | Event::FocusGained | Event::FocusLost => None,
    }
}

/// Returns when the terminal hangs up. It takes no time meanwhile: nothing but a hang-up is asked for.
fn watch_for_hang_up() {
    let stdin = std::io::stdin();
    loop {
        let mut watched = [PollFd::new(&stdin, PollFlags::empty())];
        match poll(&mut watched, None) {
            Ok(_) if !watched[0].revents().is_empty() => return,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}
