//! Styles by meaning. A theme is a TOML file: a table per role, with `fg`, `bg` and modifiers; roles that it leaves out
//! are its parent's.

use std::collections::BTreeMap;
use std::str::FromStr as _;

use ratatui::style::{Color, Modifier, Style};
use serde::Deserialize;

/// What something means on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Plain text.
    Text,
    /// What is there, and rarely read.
    Dim,
    /// Titles of panes.
    Title,
    /// Lines around panes.
    Border,
    /// The line at the top.
    Header,
    /// Numbers that are looked for.
    Number,
    /// What is not known.
    Unknown,
    /// Going well.
    Good,
    /// To be looked at.
    Caution,
    /// Gone wrong.
    Bad,
    /// The run waits for a decision.
    Gate,
    /// Nothing was measured on a model.
    Simulated,
    /// The part of a bar that is full.
    Bar,
    /// The rest of it.
    Track,
    /// The line that is chosen.
    Selected,
    /// The step that is taken.
    Current,
    /// Keys.
    Key,
    /// What keys do.
    Hint,
    /// Decisions among the messages.
    Decision,
    /// A line in which something is written.
    Prompt,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 20] = [
        Self::Text,
        Self::Dim,
        Self::Title,
        Self::Border,
        Self::Header,
        Self::Number,
        Self::Unknown,
        Self::Good,
        Self::Caution,
        Self::Bad,
        Self::Gate,
        Self::Simulated,
        Self::Bar,
        Self::Track,
        Self::Selected,
        Self::Current,
        Self::Key,
        Self::Hint,
        Self::Decision,
        Self::Prompt,
    ];
}

/// A style for each role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Theme(BTreeMap<Role, Style>);

/// A theme's file is not a theme.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ThemeError {
    /// It is no TOML, or has keys that no theme has.
    #[error("{0}")]
    File(String),
    /// A colour that is none.
    #[error(
        "{role}.{key}: {value:?} is no colour; allowed: a name such as \"green\" or \"lightblue\", a number from 0 to 255, \"#rrggbb\", \"reset\""
    )]
    Colour {
        /// The role, as its `Debug`.
        role: String,
        /// `fg` or `bg`.
        key: &'static str,
        /// What stands there.
        value: String,
    },
    /// The parent is not known.
    #[error("parent {0:?} is not known; known: {known}", known = NAMES.join(", "))]
    Parent(String),
    /// A role that neither the theme nor its parents have.
    #[error("the role {0} is missing, and there is no parent to have it")]
    Missing(String),
}

/// What a file says of a role.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools, reason = "they are modifiers that a file names")]
struct Written {
    fg: Option<String>,
    bg: Option<String>,
    #[serde(default)]
    bold: bool,
    #[serde(default)]
    dim: bool,
    #[serde(default)]
    italic: bool,
    #[serde(default)]
    underlined: bool,
    #[serde(default)]
    reversed: bool,
}

#[derive(Debug, Deserialize)]
struct File {
    parent: Option<String>,
    #[serde(flatten)]
    roles: BTreeMap<Role, Written>,
}

/// Names of the themes that come with aforo.
pub const NAMES: [&str; 3] = ["default", "mono", "high-contrast"];

fn built_in(name: &str) -> Option<&'static str> {
    Some(match name {
        "default" => include_str!("../../themes/default.toml"),
        "mono" => include_str!("../../themes/mono.toml"),
        "high-contrast" => include_str!("../../themes/high-contrast.toml"),
        _ => return None,
    })
}

impl Theme {
    /// A theme that comes with aforo.
    pub fn named(name: &str) -> Result<Self, ThemeError> {
        Self::parse(built_in(name).ok_or_else(|| ThemeError::Parent(name.to_owned()))?)
    }

    /// Reads a theme.
    pub fn parse(text: &str) -> Result<Self, ThemeError> {
        let file: File = toml::from_str(text).map_err(|error| ThemeError::File(error.to_string()))?;
        let mut styles = match &file.parent {
            Some(parent) => Self::named(parent)?.0,
            None => BTreeMap::new(),
        };
        for (role, written) in &file.roles {
            styles.insert(*role, style(*role, written)?);
        }
        match Role::ALL.into_iter().find(|role| !styles.contains_key(role)) {
            Some(missing) => Err(ThemeError::Missing(format!("{missing:?}").to_lowercase())),
            None => Ok(Self(styles)),
        }
    }

    /// The style of a role.
    pub fn style(&self, role: Role) -> Style {
        // A theme that was read has all roles.
        self.0.get(&role).copied().unwrap_or_default()
    }
}

fn style(role: Role, written: &Written) -> Result<Style, ThemeError> {
    let colour = |key, value: &Option<String>| match value {
        None => Ok(None),
        Some(value) => Color::from_str(value).map(Some).map_err(|_| ThemeError::Colour {
            role: format!("{role:?}").to_lowercase(),
            key,
            value: value.clone(),
        }),
    };
    let mut modifiers = Modifier::empty();
    for (is_set, modifier) in [
        (written.bold, Modifier::BOLD),
        (written.dim, Modifier::DIM),
        (written.italic, Modifier::ITALIC),
        (written.underlined, Modifier::UNDERLINED),
        (written.reversed, Modifier::REVERSED),
    ] {
        modifiers.set(modifier, is_set);
    }
    let style = Style { fg: colour("fg", &written.fg)?, bg: colour("bg", &written.bg)?, ..Style::default() };
    Ok(style.add_modifier(modifiers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_theme_that_comes_along_has_every_role() {
        for name in NAMES {
            assert!(Theme::named(name).is_ok(), "{name}: {:?}", Theme::named(name));
        }
    }

    #[test]
    fn mono_carries_meaning_without_colours() {
        let mono = Theme::named("mono").unwrap();
        for role in Role::ALL {
            let style = mono.style(role);
            assert_eq!((style.fg, style.bg), (None, None), "{role:?}");
        }
        let told_apart = [Role::Good, Role::Bad, Role::Gate, Role::Selected].map(|role| mono.style(role));
        assert!(told_apart[1..].iter().all(|style| *style != told_apart[0]));
    }

    #[test]
    fn a_theme_takes_over_what_it_does_not_say() {
        let theme = Theme::parse("parent = \"default\"\n[good]\nfg = \"#00ff00\"\nbold = true").unwrap();
        assert_eq!(theme.style(Role::Good).fg, Some(Color::Rgb(0, 255, 0)));
        assert_eq!(theme.style(Role::Bad), Theme::named("default").unwrap().style(Role::Bad));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, said) in [
            ("parent = \"nope\"", "parent \"nope\" is not known; known: default"),
            ("parent = \"default\"\n[good]\nfg = \"gren\"", "good.fg: \"gren\" is no colour"),
            ("[good]\nfg = \"green\"", "the role text is missing"),
            ("parent = \"default\"\n[goood]\nfg = \"green\"", "goood"),
            ("parent = \"default\"\n[good]\ncolor = \"green\"", "color"),
        ] {
            let error = Theme::parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
