//! The time of day behind a date, which is not compared.

/// The part before a time of day (`17:34`, `17h34`, `5:34:20.5 PM`, `17:34Z`, `17:34+02:00`). `None` when something
/// else follows the time.
pub(super) fn without_time(text: &str) -> Option<&str> {
    let Some(start) = clock_start(text) else { return Some(text) };
    is_clock(&text[start..]).then_some(&text[..start])
}

/// Where the hour starts: one or two digits, `:` or `h`, two digits.
fn clock_start(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mark = (1..bytes.len()).find(|&at| {
        matches!(bytes[at], b':' | b'h' | b'H')
            && bytes[at - 1].is_ascii_digit()
            && bytes.get(at + 1).is_some_and(u8::is_ascii_digit)
    })?;
    let digits = bytes[..mark].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    Some(mark - digits)
}

fn is_clock(text: &str) -> bool {
    clock_rest(text).is_some_and(|rest| rest.trim().is_empty())
}

/// What follows the time of day.
fn clock_rest(text: &str) -> Option<&str> {
    let rest = digits(text, 1..=2)?;
    let mut rest = digits(rest.strip_prefix([':', 'h', 'H'])?, 2..=2)?;
    if let Some(seconds) = rest.strip_prefix(':') {
        rest = digits(seconds, 2..=2)?;
        if let Some(fraction) = rest.strip_prefix(['.', ',']) {
            rest = digits(fraction, 1..=9)?;
        }
    }
    rest = word(rest, &["a.m.", "p.m.", "am", "pm", "uhr", "hrs", "hs", "h"]);
    rest = word(rest, &["utc", "gmt", "z"]);
    match rest.strip_prefix(['+', '-', '−']) {
        None => Some(rest),
        Some(offset) => {
            let minutes = digits(offset, 2..=2)?;
            digits(minutes.strip_prefix(':').unwrap_or(minutes), 2..=2)
        }
    }
}

/// What follows the digits, when there are as many as wanted.
fn digits(text: &str, wanted: std::ops::RangeInclusive<usize>) -> Option<&str> {
    let count = text.bytes().take_while(u8::is_ascii_digit).count();
    wanted.contains(&count).then(|| &text[count..])
}

/// What follows one of the words, if one is there.
fn word<'a>(text: &'a str, words: &[&str]) -> &'a str {
    let trimmed = text.trim_start();
    words
        .iter()
        .find(|word| trimmed.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word)))
        .map_or(text, |word| &trimmed[word.len()..])
}
