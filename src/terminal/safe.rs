//! Text from outside on its way to a terminal: models, engines, documents and file names must not steer it.

use std::fmt::Write as _;

/// The text with every character that a terminal would act on replaced by its escape. Line ends stay.
pub fn safe(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut safe, c| {
        if c == '\n' || !steers(c) {
            safe.push(c);
        } else {
            safe.extend(c.escape_unicode());
        }
        safe
    })
}

/// The same for JSON, which stays JSON: such characters can stand only inside its texts.
pub fn json_safe(json: &str) -> String {
    json.chars().fold(String::with_capacity(json.len()), |mut safe, c| {
        if c == '\n' || !steers(c) {
            safe.push(c);
        } else {
            // Writing to a string cannot fail.
            let _ = write!(safe, "\\u{:04x}", u32::from(c));
        }
        safe
    })
}

/// Whether a terminal would act on it: control characters, and the marks that reorder or hide what follows them.
pub fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_reordering_marks_lose_their_power() {
        assert_eq!(safe("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(safe("x\u{202e}txt.exe"), "x\\u{202e}txt.exe");
        assert_eq!(safe("línea 1\nline 2 数据"), "línea 1\nline 2 数据");
    }

    #[test]
    fn json_keeps_its_values_without_a_character_that_steers() {
        let value = serde_json::json!({ "a": "x\u{9b}2J\u{7f}\u{202e}\u{1b}]0;é" });
        let shown = json_safe(&format!("{value:#}\n"));
        assert!(shown.chars().all(|c| c == '\n' || !steers(c)), "{shown:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
