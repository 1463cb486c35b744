//! What is wrong with a protocol: where, what, what is allowed, and the nearest name.

use serde::Serialize;
use std::fmt;
use std::path::Path;

/// How bad a [`Problem`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The protocol is refused.
    Error,
    /// The protocol is accepted; the person should know.
    Caution,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Caution => "caution",
        })
    }
}

/// One mistake, or one thing to know, about a protocol.
///
/// Its `Display` is `12:5: error: engine.model: …`; [`Problem::at`] puts the file's name before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Whether the protocol is refused because of it.
    pub severity: Severity,
    /// Line in the file, from 1; 0 when the value comes from `--set`.
    pub line: usize,
    /// Column in characters, from 1; 0 when the value comes from `--set`.
    pub column: usize,
    /// Dotted path of the key; empty when the text is not TOML there.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// What is allowed.
    pub allowed: String,
    /// The known name nearest to an unknown one.
    pub nearest: Option<String>,
}

impl Problem {
    /// The problem with the name of its file before it, as editors and terminals recognise it.
    pub fn at<'a>(&'a self, file: &'a Path) -> impl fmt::Display + 'a {
        struct At<'a>(&'a Problem, &'a Path);
        impl fmt::Display for At<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let separator = if self.0.line == 0 { " " } else { "" };
                write!(f, "{}:{separator}{}", self.1.display(), self.0)
            }
        }
        At(self, file)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str("--set: ")?,
            line => write!(f, "{line}:{}: ", self.column)?,
        }
        write!(f, "{}: ", self.severity)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)?;
        if !self.allowed.is_empty() {
            write!(f, "; allowed: {}", self.allowed)?;
        }
        if let Some(nearest) = &self.nearest {
            write!(f, "; nearest: {nearest}")?;
        }
        Ok(())
    }
}

/// A problem whose place in the text is not looked up yet.
#[derive(Debug, Clone)]
pub(super) struct Finding {
    pub severity: Severity,
    pub key: String,
    /// Whether the key itself is at fault, rather than its value.
    pub at_key: bool,
    pub message: String,
    pub allowed: String,
    pub nearest: Option<String>,
}

impl Finding {
    /// A value that is refused.
    pub(super) fn value(
        key: impl Into<String>,
        message: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        Self {
            severity: Severity::Error,
            key: key.into(),
            at_key: false,
            message: message.into(),
            allowed: allowed.into(),
            nearest: None,
        }
    }

    /// A key that is refused, or is not there.
    pub(super) fn key(
        key: impl Into<String>,
        message: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        Self { at_key: true, ..Self::value(key, message, allowed) }
    }

    /// Something to know about a value.
    pub(super) fn caution(
        key: impl Into<String>,
        message: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        Self { severity: Severity::Caution, ..Self::value(key, message, allowed) }
    }

    #[must_use]
    pub(super) fn nearest(self, nearest: Option<String>) -> Self {
        Self { nearest, ..self }
    }
}

/// The name nearest to a misspelt one, if one is near.
pub(super) fn nearest<'a>(name: &str, among: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const LONGEST: usize = 64;
    if name.len() > LONGEST {
        return None;
    }
    let folded = name.to_lowercase().replace('-', "_");
    among
        .into_iter()
        .map(|candidate| {
            (strsim::damerau_levenshtein(&folded, &candidate.to_lowercase().replace('-', "_")), candidate)
        })
        .filter(|(distance, candidate)| *distance <= (candidate.chars().count() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// A text from outside inside a message: short, on one line, in back quotes.
pub(super) fn shown(text: &str) -> String {
    const MOST: usize = 60;
    let mut short: String = text.chars().take(MOST).flat_map(printable).collect();
    if text.chars().nth(MOST).is_some() {
        short.push('…');
    }
    format!("`{short}`")
}

fn printable(c: char) -> impl Iterator<Item = char> {
    let escape = c.is_control().then(|| c.escape_default());
    let plain = escape.is_none().then_some(c);
    escape.into_iter().flatten().chain(plain)
}

/// Names in back quotes, separated by commas.
pub(super) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(shown).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_name_is_offered_and_a_far_one_is_not() {
        let names = ["concurrency", "base_url", "max_tokens", "user"];
        assert_eq!(nearest("concurency", names), Some("concurrency"));
        assert_eq!(nearest("max-tokens", names), Some("max_tokens"));
        assert_eq!(nearest("BaseURL", names), Some("base_url"));
        assert_eq!(nearest("usre", names), Some("user"));
        assert_eq!(nearest("colour", names), None);
        assert_eq!(nearest(&"x".repeat(1 << 20), names), None);
    }

    #[test]
    fn outside_text_stays_short_and_on_one_line() {
        assert_eq!(shown("a\nb\u{1b}[0m"), "`a\\nb\\u{1b}[0m`");
        assert_eq!(shown(&"é".repeat(61)).chars().count(), 63);
    }
}
