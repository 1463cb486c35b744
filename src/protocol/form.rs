//! Forms of text: what a name, an address or the name of a variable may look like.

use regex::Regex;
use rust_decimal::Decimal;
use url::Url;

/// What a text must look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One line with at least one visible character and no control characters.
    Line,
    /// Any text with at least one visible character.
    Prose,
    /// Letters, digits, `-`, `_` and `.`, starting with a letter or digit.
    Name,
    /// A path, relative to the folder of the protocol file or absolute.
    Path,
    /// An http or https address that carries no secret.
    Url,
    /// The same, below which `/chat/completions` is.
    BaseUrl,
    /// The name of an environment variable.
    Variable,
    /// A decimal number of 0 or more.
    Decimal,
    /// A regular expression.
    Regex,
}

impl Form {
    /// What is allowed, as a noun phrase.
    pub(super) fn allowed(self) -> &'static str {
        match self {
            Self::Line => "one line of text",
            Self::Prose => "text",
            Self::Name => "letters, digits, `-`, `_` and `.`, starting with a letter or digit",
            Self::Path => "a path, absolute or relative to the protocol file's folder",
            Self::Url => "an http:// or https:// address without user, password, query and fragment",
            Self::BaseUrl => {
                "an http:// or https:// address without user, password, query and fragment, for example http://127.0.0.1:8000/v1"
            }
            Self::Variable => {
                "the name of an environment variable, for example ENGINE_API_KEY; never the key"
            }
            Self::Decimal => "a decimal number of 0 or more, in quotes",
            Self::Regex => "a regular expression in the syntax of the Rust regex crate",
        }
    }

    /// The same as a regular expression for the schema, where one says most of it.
    pub(super) fn pattern(self) -> Option<&'static str> {
        match self {
            Self::Line | Self::Path => Some("^[^\\u0000-\\u001f\\u007f]*\\S[^\\u0000-\\u001f\\u007f]*$"),
            Self::Prose => Some("\\S"),
            Self::Name => Some("^[A-Za-z0-9][A-Za-z0-9._-]*$"),
            Self::Url | Self::BaseUrl => Some("^https?://[^@?#]+$"),
            Self::Variable => Some("^[A-Za-z_][A-Za-z0-9_]*$"),
            Self::Decimal => Some("^[0-9]+(\\.[0-9]+)?$"),
            Self::Regex => None,
        }
    }

    /// What is wrong with a text, or nothing. A text that may hold a secret is never repeated.
    pub(super) fn fault(self, text: &str) -> Option<String> {
        if text.trim().is_empty() {
            return Some("is empty".to_owned());
        }
        if self != Self::Prose && text.chars().any(char::is_control) {
            return Some("holds a line break or a control character".to_owned());
        }
        match self {
            Self::Line | Self::Prose | Self::Path => None,
            Self::Name => {
                let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
                let good = text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(inner);
                (!good).then(|| "holds a character that a name cannot have".to_owned())
            }
            Self::Url => address_fault(text),
            Self::BaseUrl => address_fault(text).or_else(|| {
                let doubled = ["/chat/completions", "/completions"]
                    .into_iter()
                    .find(|end| text.trim_end_matches('/').ends_with(end))?;
                Some(format!("ends in {doubled}, which aforo adds by itself"))
            }),
            Self::Variable => variable_fault(text),
            Self::Decimal => match text.parse::<Decimal>() {
                Ok(number) if number.is_sign_negative() && !number.is_zero() => Some("is below 0".to_owned()),
                Ok(_) if text.bytes().all(|b| b.is_ascii_digit() || b == b'.') => None,
                _ => Some("is not a decimal number".to_owned()),
            },
            Self::Regex => Regex::new(text).err().map(|error| {
                let reason = error.to_string();
                let last = reason.lines().last().unwrap_or_default().trim();
                format!("is not a regular expression: {}", last.trim_start_matches("error: "))
            }),
        }
    }
}

fn address_fault(text: &str) -> Option<String> {
    let Ok(address) = Url::parse(text) else {
        return Some("is not an address".to_owned());
    };
    if !matches!(address.scheme(), "http" | "https") {
        return Some("is neither http nor https".to_owned());
    }
    if !address.username().is_empty() || address.password().is_some() {
        return Some(
            "carries a user or a password; a key belongs in the variable that api_key_env names".to_owned(),
        );
    }
    if address.query().is_some() || address.fragment().is_some() {
        return Some("carries a query or a fragment".to_owned());
    }
    None
}

fn variable_fault(text: &str) -> Option<String> {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_name = !text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(inner);
    if !is_name {
        return Some(
            "is not the name of a variable; if it is the key itself, take it out of the file".to_owned(),
        );
    }
    let prefixed =
        ["hf_", "gsk_", "sk_", "pk_", "xai_", "nvapi_", "r8_"].iter().any(|start| text.starts_with(start));
    let lower = text.bytes().any(|b| b.is_ascii_lowercase());
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    if text.len() >= 20 && (prefixed || (lower && digits >= 4)) {
        return Some("looks like a key, not like the name of a variable; take it out of the file".to_owned());
    }
    None
}
