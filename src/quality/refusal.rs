//! Why a text was not read.

use std::borrow::Cow;

/// A text, or a value, that was not read; says why in a few words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(Cow<'static, str>);

impl From<&'static str> for Refusal {
    fn from(why: &'static str) -> Self {
        Self(Cow::Borrowed(why))
    }
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self(Cow::Owned(why))
    }
}

/// At most `limit` characters of a text; a longer one ends in an ellipsis.
pub(super) fn clip(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => text.to_owned(),
        Some(_) => text.chars().take(limit.saturating_sub(1)).chain(['…']).collect(),
    }
}
