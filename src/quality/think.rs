//! Reasoning that an engine left in the answer's text.

use super::refusal::Refusal;

const OPEN: [&str; 3] = ["<think>", "<thinking>", "<reasoning>"];
const CLOSE: [&str; 3] = ["</think>", "</thinking>", "</reasoning>"];

/// Length of the opening mark at the start of the text.
pub(super) fn open(text: &str) -> Option<usize> {
    OPEN.iter().find(|mark| text.starts_with(**mark)).map(|mark| mark.len())
}

/// Length of the closing mark at the start of the text.
pub(super) fn close(text: &str) -> Option<usize> {
    CLOSE.iter().find(|mark| text.starts_with(**mark)).map(|mark| mark.len())
}

/// Position just after the first closing mark.
pub(super) fn next_close(text: &str) -> Option<usize> {
    text.match_indices("</").find_map(|(at, _)| close(&text[at..]).map(|length| at + length))
}

/// What follows the reasoning, and whether there was any; the opening mark may be missing, as some chat templates
/// write it into the prompt. Refused when the reasoning has no end.
pub(super) fn answer(text: &str) -> Result<(&str, bool), Refusal> {
    let last = text.rmatch_indices("</").find_map(|(at, _)| close(&text[at..]).map(|length| at + length));
    match last {
        Some(end) => Ok((&text[end..], true)),
        None if open(text.trim_start()).is_some() => Err("the reasoning has no end".into()),
        None => Ok((text, false)),
    }
}
