//! Decisions at a gate, read as lines from standard input.

use std::io::BufRead as _;

use tokio::sync::mpsc;

use super::run::say;
use crate::run::decision::{Choice, Decision};

/// What a person may answer.
pub(super) const QUESTION: &str =
    "next, repeat, skip, auto or stop? (a reason may follow: \"repeat the card was busy\")";

/// Reads decisions until the input ends. The thread ends with the process: a blocking read cannot be called back.
pub(super) fn decisions() -> mpsc::UnboundedReceiver<Decision> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            let Some(decision) = parse(&line) else {
                say(QUESTION);
                continue;
            };
            if sender.send(decision).is_err() {
                return;
            }
        }
    });
    receiver
}

/// A word or its first letter, and a reason.
fn parse(line: &str) -> Option<Decision> {
    let line = line.trim();
    let (word, reason) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let choices = [Choice::Next, Choice::Repeat, Choice::Skip, Choice::Auto, Choice::Stop];
    // "s" could be skip or stop: a letter that means two things means none.
    let mut meant = choices.into_iter().filter(|choice| !word.is_empty() && choice.word().starts_with(word));
    let choice = meant.next().filter(|_| meant.next().is_none())?;
    Some(Decision::new(choice, reason.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_letters_and_reasons_are_understood() {
        let parsed = parse(" repeat the card was busy ").unwrap();
        assert_eq!((parsed.choice, parsed.reason.as_str()), (Choice::Repeat, "the card was busy"));
        assert_eq!(parse("n").unwrap().choice, Choice::Next);
        assert_eq!(parse("sto").unwrap().choice, Choice::Stop);
    }

    #[test]
    fn what_is_ambiguous_or_unknown_is_asked_again() {
        for line in ["s", "st op", "", "yes", "  "] {
            assert!(line == "st op" || parse(line).is_none(), "{line}");
        }
        assert_eq!(parse("st op").unwrap().choice, Choice::Stop);
    }
}
