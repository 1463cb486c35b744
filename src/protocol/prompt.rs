//! The prompt: fixed text around a document.

use super::Prompt;

/// The placeholders that a user message can hold.
pub(super) const PLACEHOLDERS: [&str; 2] = ["{{text}}", "{{id}}"];

/// A part of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece<'t> {
    /// As written.
    Plain(&'t str),
    /// `{{text}}`.
    Text,
    /// `{{id}}`.
    Id,
    /// `{{` a word `}}`, as written.
    Unknown(&'t str),
}

impl<'t> Piece<'t> {
    /// An unknown placeholder, as written.
    pub(super) fn unknown(self) -> Option<&'t str> {
        if let Self::Unknown(written) = self { Some(written) } else { None }
    }
}

/// The parts of a message, in order. Double braces around anything but a word, such as nested JSON, are plain text.
pub(super) fn pieces(message: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = message;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, length) = first(rest);
        rest = &rest[length..];
        Some(piece)
    })
}

/// The first part of a text that is not empty, and its length in bytes.
fn first(text: &str) -> (Piece<'_>, usize) {
    if let Some(length) = placeholder(text) {
        let written = &text[..length];
        let piece = match written {
            "{{text}}" => Piece::Text,
            "{{id}}" => Piece::Id,
            _ => Piece::Unknown(written),
        };
        return (piece, length);
    }
    let next = text.match_indices("{{").map(|(at, _)| at).find(|at| placeholder(&text[*at..]).is_some());
    let end = next.unwrap_or(text.len());
    (Piece::Plain(&text[..end]), end)
}

/// The length of the placeholder at the start of a text.
fn placeholder(text: &str) -> Option<usize> {
    const LONGEST: usize = 64;
    let inner = text.strip_prefix("{{")?;
    let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ');
    let length = inner.find(|c: char| !word(c))?;
    let is_word = inner[..length].trim().chars().next().is_some_and(char::is_alphabetic);
    (is_word && length <= LONGEST && inner[length..].starts_with("}}")).then_some(length + 4)
}

impl Prompt {
    /// The user message for one document. What the document holds is never read as a placeholder.
    pub fn user_message(&self, id: &str, text: &str) -> String {
        let mut message = String::with_capacity(self.user.len() + text.len());
        for piece in pieces(&self.user) {
            message.push_str(match piece {
                Piece::Plain(plain) | Piece::Unknown(plain) => plain,
                Piece::Text => text,
                Piece::Id => id,
            });
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(user: &str) -> String {
        Prompt { system: None, user: user.to_owned() }.user_message("d-1", "a {{id}} b")
    }

    #[test]
    fn a_document_that_holds_a_placeholder_stays_as_it_is() {
        assert_eq!(message("{{id}}: {{text}}!"), "d-1: a {{id}} b!");
    }

    #[test]
    fn braces_of_json_are_plain_text() {
        let user = r#"Answer {"a": {"b": 1}} or {{"a": 1}} or {{{ or {{ }}"#;
        assert_eq!(message(user), user);
        assert!(pieces(user).all(|piece| matches!(piece, Piece::Plain(_))));
    }

    #[test]
    fn an_unknown_word_is_found_as_written() {
        let found: Vec<_> = pieces("{{{{txt}} {{ text }} {{text}}").filter_map(Piece::unknown).collect();
        assert_eq!(found, ["{{txt}}", "{{ text }}"]);
    }
}
