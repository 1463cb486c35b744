//! Foldings of text: differences that a rule declares unimportant.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Which differences are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Folding {
    pub(super) case: bool,
    pub(super) accents: bool,
    pub(super) spaces: bool,
}

impl Folding {
    /// The text with the ignored differences removed. Two encodings of the same letters are always made one.
    pub(super) fn apply(self, text: &str) -> String {
        // ASCII has one encoding and no accents; normalising it anyway would be most of what a comparison costs.
        let is_ascii = text.is_ascii();
        let mut folded: String = if is_ascii { text.to_owned() } else { text.nfc().collect() };
        if self.accents && !is_ascii {
            folded = folded.nfd().filter(|c| !is_combining_mark(*c)).collect::<String>().nfc().collect();
            folded = folded.chars().fold(String::with_capacity(folded.len()), plain_letter);
        }
        if self.case {
            // Upper case first: it takes ß to SS and both small sigmas to one.
            folded = folded.to_uppercase().to_lowercase();
        }
        if self.spaces {
            folded = folded.split_whitespace().collect::<Vec<_>>().join(" ");
        }
        folded
    }
}

/// Appends a letter; those whose stroke or ligature Unicode does not take apart become plain.
fn plain_letter(mut text: String, letter: char) -> String {
    match letter {
        'ł' => text.push('l'),
        'Ł' => text.push('L'),
        'ø' => text.push('o'),
        'Ø' => text.push('O'),
        'đ' => text.push('d'),
        'Đ' => text.push('D'),
        'ı' => text.push('i'),
        'æ' => text.push_str("ae"),
        'Æ' => text.push_str("AE"),
        'œ' => text.push_str("oe"),
        'Œ' => text.push_str("OE"),
        _ => text.push(letter),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Folding = Folding { case: true, accents: true, spaces: true };
    const NONE: Folding = Folding { case: false, accents: false, spaces: false };

    #[test]
    fn ignores_only_what_is_declared() {
        assert_eq!(ALL.apply("  Café \u{a0}ŁÓDŹ\n"), "cafe lodz");
        assert_eq!(NONE.apply(" Café "), " Café ");
        assert_eq!(Folding { case: true, ..NONE }.apply("Straße É"), "strasse é");
        assert_eq!(Folding { accents: true, ..NONE }.apply("Ærø Œuvre"), "AEro OEuvre");
    }

    #[test]
    fn composed_and_decomposed_letters_are_one() {
        assert_eq!(NONE.apply("Caf\u{e9}"), NONE.apply("Cafe\u{301}"));
    }
}
