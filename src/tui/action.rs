//! What can be done, in one table: it gives the keys, the footer and the help.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::protocol::Parameter;
use crate::run::decision::{self, Choice, Decision};
use crate::run::state::State;

/// Something that a person can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// A decision about the run; [`Choice::Set`] stands for whatever value.
    Decide(Choice),
    /// Up in the list of steps.
    Up,
    /// Down in it.
    Down,
    /// Earlier messages.
    Earlier,
    /// Later messages.
    Later,
    /// What is known stays on the screen, or goes on.
    Freeze,
    /// The list of keys.
    Help,
    /// To the shell, as any program.
    Suspend,
    /// Leaves the screen; the run goes on.
    Leave,
}

/// A line of the table.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// What it is.
    pub action: Action,
    /// Its keys; the first is the one that is shown.
    pub keys: &'static [&'static str],
    /// Two or three words for the footer.
    pub short: &'static str,
    /// One line for the help.
    pub long: &'static str,
}

/// `set` with whatever value.
const SET: Choice = Choice::Set { parameter: Parameter::Concurrency, value: 0 };

const fn entry(
    action: Action,
    keys: &'static [&'static str],
    short: &'static str,
    long: &'static str,
) -> Entry {
    Entry { action, keys, short, long }
}

/// All actions, in the order in which they are offered.
pub const TABLE: [Entry; 19] = [
    entry(
        Action::Decide(Choice::Continue),
        &["c"],
        "continue",
        "at a gate: go on where the run was; a cut pass is completed, and marked",
    ),
    entry(
        Action::Decide(Choice::Next),
        &["n"],
        "next step",
        "at a gate: go on with the next step; a cut pass is given up",
    ),
    entry(
        Action::Decide(Choice::Repeat),
        &["r"],
        "repeat",
        "at a gate: take the step's passes once more; the earlier ones are kept",
    ),
    entry(Action::Decide(Choice::Skip), &["s"], "skip next", "at a gate: leave the next step out"),
    entry(Action::Decide(SET), &["v"], "set value", "at a gate: measure another value, in a step of its own"),
    entry(Action::Decide(Choice::Auto), &["a"], "run alone", "go from step to step without gates"),
    entry(Action::Decide(Choice::AutoOff), &["A"], "gates again", "wait at a gate after each step again"),
    entry(
        Action::Decide(Choice::Pause),
        &["p"],
        "pause",
        "send nothing new, let what is in flight end, and wait at a gate",
    ),
    entry(Action::Decide(Choice::Note), &["d"], "note", "keep a remark with the run; nothing else changes"),
    entry(Action::Decide(Choice::Stop), &["x"], "stop run", "end the run now, in order; it can be resumed"),
    entry(
        Action::Decide(Choice::StopAfterPass),
        &["X"],
        "stop after pass",
        "end the run when the pass that goes on is over",
    ),
    entry(Action::Up, &["up", "k"], "up", "the step before"),
    entry(Action::Down, &["down", "j"], "down", "the step after"),
    entry(Action::Earlier, &["pgup", "["], "earlier", "earlier messages"),
    entry(Action::Later, &["pgdn", "]"], "later", "later messages"),
    entry(Action::Freeze, &["f"], "freeze", "keep what is on the screen, with its age; again: go on"),
    entry(Action::Help, &["?"], "help", "this list; any key closes it"),
    entry(Action::Suspend, &["ctrl-z"], "suspend", "to the shell; fg comes back"),
    entry(Action::Leave, &["q", "ctrl-c"], "leave running", "leave the screen; the run goes on"),
];

/// The action of a key.
pub fn of_key(key: KeyEvent) -> Option<Action> {
    let name = name(key)?;
    TABLE.iter().find(|entry| entry.keys.contains(&name.as_str())).map(|entry| entry.action)
}

/// How a key is written in the table; `None` for one that no table has.
fn name(key: KeyEvent) -> Option<String> {
    let plain = match key.code {
        KeyCode::Char(c) => c.to_string(),
        KeyCode::Up => "up".to_owned(),
        KeyCode::Down => "down".to_owned(),
        KeyCode::PageUp => "pgup".to_owned(),
        KeyCode::PageDown => "pgdn".to_owned(),
        _ => return None,
    };
    if key.modifiers.contains(KeyModifiers::ALT) {
        return None;
    }
    Some(if key.modifiers.contains(KeyModifiers::CONTROL) { format!("ctrl-{plain}") } else { plain })
}

/// The decisions that are possible now, as lines of the table.
pub fn possible(run: &State) -> impl Iterator<Item = &'static Entry> {
    let offered = decision::choices(run);
    TABLE.iter().filter(move |entry| match entry.action {
        Action::Decide(Choice::Set { .. }) => {
            offered.iter().any(|choice| matches!(choice, Choice::Set { .. }))
        }
        Action::Decide(choice) if choice.closes_gate() => offered.contains(&choice),
        // Something to be kept always is.
        Action::Decide(Choice::Note) => run.end.is_none(),
        Action::Decide(choice) => decision::check(run, &Decision::new(choice, "")).is_ok(),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_key_means_two_things_and_each_is_one_that_can_be_pressed() {
        let mut seen = HashSet::new();
        for key in TABLE.iter().flat_map(|entry| entry.keys) {
            assert!(seen.insert(key), "{key} is there twice");
            let (modifiers, plain) = match key.strip_prefix("ctrl-") {
                Some(plain) => (KeyModifiers::CONTROL, plain),
                None => (KeyModifiers::NONE, *key),
            };
            let code = match plain {
                "up" => KeyCode::Up,
                "down" => KeyCode::Down,
                "pgup" => KeyCode::PageUp,
                "pgdn" => KeyCode::PageDown,
                other => KeyCode::Char(other.parse().unwrap()),
            };
            assert!(of_key(KeyEvent::new(code, modifiers)).is_some(), "{key}");
        }
        assert_eq!(of_key(KeyEvent::new(KeyCode::Char('n'), KeyModifiers::ALT)), None);
    }
}
