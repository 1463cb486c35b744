//! The screen in a real terminal: it comes up, takes keys, and leaves the terminal as it was, whatever ends it.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use std::io::{Read as _, Write as _};
use std::num::NonZero;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aforo::run::event::{Event, RunEnd};
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};
use support::detached::{detached, is_alive, runner_of, state_of};
use support::{HANGS, Workplace, until};

fn sized(cells: u16) -> NonZero<u16> {
    NonZero::new(cells).unwrap()
}

/// A terminal with a program in it.
struct Pty {
    master: Option<Box<dyn MasterPty + Send>>,
    keys: Option<Box<dyn std::io::Write + Send>>,
    child: Box<dyn Child + Send + Sync>,
    shown: Arc<Mutex<vt100::Parser>>,
    bytes: Arc<Mutex<Vec<u8>>>,
    reading: std::thread::JoinHandle<()>,
}

type Opened = (Box<dyn MasterPty + Send>, Box<dyn Child + Send + Sync>);

/// A program in a terminal of 120x40.
fn open(place: &Workplace, program: &[&str], variables: &[(&str, &str)]) -> Opened {
    let size = PtySize { rows: 40, cols: 120, pixel_width: 0, pixel_height: 0 };
    let pair = native_pty_system().openpty(size).unwrap();
    let mut command = CommandBuilder::new(program[0]);
    command.args(&program[1..]);
    command.cwd(place.path("."));
    // Variables of whoever runs the tests must not change what they see.
    for name in ["NO_COLOR", "LC_ALL", "LC_CTYPE"] {
        command.env_remove(name);
    }
    for (name, value) in [("TERM", "xterm-256color"), ("LANG", "C.UTF-8")].iter().chain(variables) {
        command.env(name, value);
    }
    (pair.master, pair.slave.spawn_command(command).unwrap())
}

impl Pty {
    fn start(place: &Workplace, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::program(place, &[&[env!("CARGO_BIN_EXE_aforo")], arguments].concat(), variables)
    }

    fn program(place: &Workplace, program: &[&str], variables: &[(&str, &str)]) -> Self {
        let (master, child) = open(place, program, variables);
        let shown = Arc::new(Mutex::new(vt100::Parser::new(sized(40), sized(120), 0)));
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        let mut reader = master.try_clone_reader().unwrap();
        let keys = master.take_writer().unwrap();
        let (screen, all) = (Arc::clone(&shown), Arc::clone(&bytes));
        let reading = std::thread::spawn(move || {
            let mut part = [0; 4096];
            // A terminal whose other side is gone ends with an error.
            while let Ok(count @ 1..) = reader.read(&mut part) {
                screen.lock().unwrap().process(&part[..count]);
                all.lock().unwrap().extend_from_slice(&part[..count]);
            }
        });
        Self { master: Some(master), keys: Some(keys), child, shown, bytes, reading }
    }

    fn screen(&self) -> String {
        self.shown.lock().unwrap().screen().contents()
    }

    fn shows(&self, text: &str) {
        let begun = Instant::now();
        while !self.screen().contains(text) {
            assert!(begun.elapsed() < HANGS, "{text:?} never came:\n{}", self.screen());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.process_id().unwrap().try_into().unwrap()).unwrap()
    }

    /// Waits for the program's end and gives everything that it wrote.
    fn end(mut self) -> String {
        until(|| self.child.try_wait().unwrap().is_some());
        drop((self.keys.take(), self.master.take()));
        self.reading.join().unwrap();
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }
}

/// The alternate screen was left, the cursor is shown and pastes are plain again, each once after the last taking.
fn left_as_it_was(bytes: &str) {
    for (on, off) in
        [("\x1b[?1049h", "\x1b[?1049l"), ("\x1b[?25l", "\x1b[?25h"), ("\x1b[?2004h", "\x1b[?2004l")]
    {
        let (last_on, last_off) = (bytes.rfind(on).expect(on), bytes.rfind(off).expect(off));
        assert!(last_off > last_on, "{off:?} did not come after {on:?}");
    }
    assert_eq!(bytes.matches("\x1b[?1049h").count(), bytes.matches("\x1b[?1049l").count());
}

fn two_steps() -> Workplace {
    let place = Workplace::new(8);
    place.append("[[sweep]]\nparameter = \"concurrency\"\nvalues = [2]");
    place
}

#[test]
fn a_person_decides_with_keys_and_sees_the_table_at_the_end() {
    let place = two_steps();
    let mut pty = Pty::start(&place, &["run", "protocol.toml"], &[]);
    pty.shows("GATE");
    pty.shows("n next step");
    // The figures come a moment after the line that they are about, though nothing else happens.
    pty.shows("8 / 8  100.0 %");
    assert!(pty.screen().contains("SIMULATED"));
    pty.press("?");
    pty.shows("what is not possible now is refused");
    pty.press("?");
    pty.press("d");
    pty.press("the fan is loud\r");
    pty.shows("note (person): the fan is loud");
    // Pasted keys decide nothing.
    pty.press("\x1b[200~nnnn\x1b[201~");
    pty.press("n");
    pty.shows("GATE at step 2");
    pty.press("n");
    pty.shows("DONE");
    pty.press("q");
    let said = pty.end();
    left_as_it_was(&said);
    assert!(said.contains("concurrency 2") && said.contains("kept in"), "{said}");
    let state = place.run_folder().state();
    assert_eq!(state.end, Some(RunEnd::Done));
    assert_eq!(state.decisions.len(), 3, "{:?}", state.decisions);
}

#[test]
fn leaving_changes_nothing_and_coming_back_shows_what_was() {
    let place = two_steps();
    let mut pty = Pty::start(&place, &["run", "protocol.toml"], &[]);
    pty.shows("GATE");
    pty.press("\x03");
    let said = pty.end();
    left_as_it_was(&said);
    assert!(said.contains("the run goes on") && said.contains("aforo attach"), "{said}");
    assert_eq!(state_of(&place), "at a gate");
    let mut pty = Pty::start(&place, &["attach"], &[]);
    pty.shows("GATE at step 1");
    pty.press("x");
    pty.press("enough\r");
    pty.shows("STOPPED");
    pty.press("q");
    left_as_it_was(&pty.end());
    assert_eq!(place.run_folder().state().decisions[0].reason, "enough");
}

#[test]
fn a_terminal_that_hangs_up_ends_the_screen_within_two_seconds_and_not_the_run() {
    let aforo = env!("CARGO_BIN_EXE_aforo");
    // With the hang-up's signal, and where something has told processes to ignore it.
    for program in [vec![aforo, "attach"], vec!["sh", "-c", "trap '' HUP; exec \"$0\" attach", aforo]] {
        let place = two_steps();
        let files = detached(&place, &[]);
        let (master, mut child) = open(&place, &program, &[]);
        let mut reader = master.try_clone_reader().unwrap();
        let (mut said, mut part) = (String::new(), [0; 4096]);
        while !said.contains("GATE") {
            let count = reader.read(&mut part).unwrap();
            said.push_str(&String::from_utf8_lossy(&part[..count]));
        }
        // Nobody else holds the terminal's other side: this hangs it up.
        drop((reader, master));
        let begun = Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(2), "it is still there");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(is_alive(runner_of(&files)));
        assert_eq!(state_of(&place), "at a gate");
    }
}

#[test]
fn a_signal_leaves_the_terminal_as_it_was() {
    for signal in [Signal::TERM, Signal::INT] {
        let place = two_steps();
        let files = detached(&place, &[]);
        let pty = Pty::start(&place, &["attach"], &[]);
        pty.shows("GATE");
        kill_process(pty.pid(), signal).unwrap();
        left_as_it_was(&pty.end());
        assert!(is_alive(runner_of(&files)));
    }
}

#[test]
fn ctrl_z_gives_the_terminal_to_the_shell_and_fg_comes_back() {
    let place = two_steps();
    detached(&place, &[]);
    let line = format!(
        "set -m; {} attach; echo; echo 'the shell'; fg >/dev/null; echo 'the end'",
        env!("CARGO_BIN_EXE_aforo")
    );
    let mut pty = Pty::program(&place, &["bash", "-c", &line], &[]);
    pty.shows("GATE");
    pty.shows("8 / 8  100.0 %");
    pty.press("\x1a");
    // It comes back at once: what the shell said is on a screen that is hidden by then.
    let wrote = |pty: &Pty, text: &str| String::from_utf8_lossy(&pty.bytes.lock().unwrap()).contains(text);
    until(|| wrote(&pty, "Stopped") && wrote(&pty, "the shell"));
    pty.shows("8 / 8  100.0 %");
    pty.press("q");
    let said = pty.end();
    left_as_it_was(&said);
    let shell = said.find("the shell").unwrap();
    assert!(said[..shell].contains("\x1b[?1049l"), "{said:?}");
    assert_eq!(said.matches("\x1b[?1049h").count(), 2, "it was taken over again");
}

#[test]
fn the_terminal_says_what_it_can_show() {
    let place = two_steps();
    detached(&place, &[]);
    for (variables, colours, ascii) in [
        (&[][..], true, false),
        (&[("NO_COLOR", "1")], false, false),
        (&[("LANG", "C")], true, true),
        (&[("TERM", "linux")], true, true),
        (&[("TERM", "screen")], true, false),
        (&[("TERM", "never-heard-of")], true, false),
    ] {
        let mut pty = Pty::start(&place, &["attach"], variables);
        pty.shows("GATE");
        let screen = pty.screen();
        pty.press("q");
        let said = pty.end();
        left_as_it_was(&said);
        let until_left = &said[..said.rfind("\x1b[?1049l").unwrap()];
        // A colour of the sixteen: 30 to 37, 40 to 47 and the bright ones, or by number.
        let coloured = ["\x1b[3", "\x1b[4", "\x1b[38;5;", "\x1b[48;5;"].iter().any(|begin| {
            until_left.match_indices(begin).any(|(at, _)| {
                let rest = &until_left[at + 2..];
                let code = rest.split('m').next().unwrap();
                !matches!(code, "39" | "49" | "4") && code.chars().all(|c| c.is_ascii_digit() || c == ';')
            })
        });
        assert_eq!((coloured, screen.is_ascii()), (colours, ascii), "{variables:?}");
        assert!(until_left.contains("\x1b[7m") || colours, "reverse is there without colours");
    }
}

#[test]
fn a_terminal_that_cannot_show_a_screen_gets_lines() {
    let place = two_steps();
    let mut pty = Pty::start(&place, &["run", "protocol.toml"], &[("TERM", "dumb")]);
    pty.shows("lines instead");
    pty.shows("GATE at step 1");
    pty.press("auto\n");
    let said = pty.end();
    assert!(!said.contains("\x1b[?1049h") && said.contains("concurrency 2"), "{said}");
    place.wait_for(|line| matches!(line.event, Event::RunEnded { end: RunEnd::Done }));
}

#[test]
fn a_storm_of_sizes_is_survived() {
    let place = two_steps();
    detached(&place, &[]);
    let mut pty = Pty::start(&place, &["attach"], &[]);
    pty.shows("GATE");
    for (rows, cols) in [(1, 1), (10, 40), (24, 80), (5, 300), (100, 20), (2, 2), (40, 120)] {
        let size = PtySize { rows, cols, pixel_width: 0, pixel_height: 0 };
        pty.master.as_ref().unwrap().resize(size).unwrap();
        pty.shown.lock().unwrap().screen_mut().set_size(sized(rows), sized(cols));
        std::thread::sleep(Duration::from_millis(30));
    }
    pty.shows("n next step");
    pty.press("q");
    left_as_it_was(&pty.end());
}
