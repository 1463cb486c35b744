//! Decisions read as lines from standard input.

use std::io::BufRead as _;

use tokio::sync::mpsc;

use super::print::{say, say_aside};
use crate::protocol::Parameter;
use crate::run::decision::{Choice, Decision};
use crate::run::desk::Answer;

/// What a person may write at any time; what makes sense at a gate is said when it opens.
const ALLOWED: &str = "allowed: next, repeat, skip, continue, set VALUE, auto, auto off, pause, stop, stop after pass, \
    note TEXT (a reason may follow: \"repeat the card was busy\")";

/// Reads decisions until the input ends; `leaving` says what Ctrl-C does. The thread ends with the process: a blocking read cannot be called back.
pub(super) fn decisions(leaving: &'static str) -> mpsc::UnboundedReceiver<Decision> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            let Some(decision) = parse(&line) else {
                say(&format!("{ALLOWED}\n{leaving}"));
                continue;
            };
            if sender.send(decision).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Says what became of a decision, if it needs saying: one that was accepted shows in what follows.
pub(super) async fn tell(answer: Answer) {
    if let Answer::Refused { why } = answer {
        say_aside(format!("refused: {why}")).await;
    }
}

/// Words with what they mean, in the order in which a beginning of a word is given a meaning.
const WORDS: [(&str, Word); 9] = [
    ("next", Word::Is(Choice::Next)),
    ("repeat", Word::Is(Choice::Repeat)),
    ("continue", Word::Is(Choice::Continue)),
    ("auto", Word::Auto),
    ("pause", Word::Is(Choice::Pause)),
    ("skip", Word::Is(Choice::Skip)),
    ("stop", Word::Stop),
    ("set", Word::Set),
    ("note", Word::Is(Choice::Note)),
];

#[derive(Debug, Clone, Copy)]
enum Word {
    Is(Choice),
    /// May be followed by `off`.
    Auto,
    /// May be followed by `after pass`.
    Stop,
    /// Is followed by a value, with or without the parameter's name.
    Set,
}

/// A word, or as much of it as means one thing, and a reason.
fn parse(line: &str) -> Option<Decision> {
    let (word, rest) = first_word(line);
    let (choice, reason) = match meant(word)? {
        Word::Is(choice) => (choice, rest),
        Word::Auto => match first_word(rest) {
            ("off", reason) => (Choice::AutoOff, reason),
            _ => (Choice::Auto, rest),
        },
        Word::Stop => match first_word(rest) {
            ("--after-pass" | "after-pass", reason) => (Choice::StopAfterPass, reason),
            ("after", more) => match first_word(more) {
                ("pass", reason) => (Choice::StopAfterPass, reason),
                ("the" | "this", more) if first_word(more).0 == "pass" => {
                    (Choice::StopAfterPass, first_word(more).1)
                }
                // Whatever was meant, it was not now.
                _ => return None,
            },
            _ => (Choice::Stop, rest),
        },
        Word::Set => {
            let (name, more) = first_word(rest);
            let parameter = Parameter::Concurrency;
            let (value, reason) = first_word(if name == parameter.word() { more } else { rest });
            (Choice::Set { parameter, value: value.parse().ok()? }, reason)
        }
    };
    Some(Decision::new(choice, reason))
}

fn first_word(text: &str) -> (&str, &str) {
    let text = text.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim())
}

/// The meaning of a word or of its beginning. "s" could be skip, stop or set: what means several things means none. But
/// "n" is next, which is meant all day, and a note is spelt out.
fn meant(word: &str) -> Option<Word> {
    if let "n" | "ne" = word {
        return Some(Word::Is(Choice::Next));
    }
    let mut fitting = WORDS.iter().filter(|(whole, _)| !word.is_empty() && whole.starts_with(word));
    let (_, meaning) = fitting.next()?;
    fitting.next().is_none().then_some(*meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(line: &str) -> Option<(Choice, String)> {
        parse(line).map(|decision| (decision.choice, decision.reason))
    }

    /// What a line must mean.
    #[track_caller]
    fn means(line: &str, expected: Choice, reason: &str) {
        assert_eq!(choice(line), Some((expected, reason.to_owned())), "{line}");
    }

    #[test]
    fn words_letters_and_reasons_are_understood() {
        means(" repeat the card was busy ", Choice::Repeat, "the card was busy");
        means("n", Choice::Next, "");
        means("c", Choice::Continue, "");
        means("sto", Choice::Stop, "");
        means("st op", Choice::Stop, "op");
        means("note the fan is loud", Choice::Note, "the fan is loud");
        means("no sense", Choice::Note, "sense");
    }

    #[test]
    fn what_takes_more_words_takes_them() {
        let set = Choice::Set { parameter: Parameter::Concurrency, value: 6 };
        means("set 6 out of memory at 8", set, "out of memory at 8");
        means("set concurrency 6", set, "");
        assert_eq!(choice("set"), None);
        assert_eq!(choice("set six"), None);
        means("auto off going home", Choice::AutoOff, "going home");
        means("auto office hours", Choice::Auto, "office hours");
        means("stop after pass it is late", Choice::StopAfterPass, "it is late");
        for said in ["stop after the pass", "stop after this pass", "stop --after-pass", "sto after-pass"] {
            means(&format!("{said} late"), Choice::StopAfterPass, "late");
        }
        assert_eq!(choice("stop after lunch"), None);
    }

    #[test]
    fn what_is_ambiguous_or_unknown_is_asked_again() {
        for line in ["s", "", "yes", "  ", "nextt"] {
            assert_eq!(choice(line), None, "{line}");
        }
    }
}
