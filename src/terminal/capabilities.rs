//! What a terminal can show, by the environment alone: nothing is asked of it, for an answer may come late or never.

/// Which colours may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colours {
    /// None: bold, dim and reverse carry what colours would.
    None,
    /// The sixteen that the person chose for their terminal.
    Sixteen,
}

/// What a terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Which colours.
    pub colours: Colours,
    /// Whether more than ASCII.
    pub unicode: bool,
}

/// A terminal that cannot show screens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this terminal cannot show a screen (TERM is dumb)")]
pub struct Dumb;

impl Capabilities {
    /// By the variables of this process.
    pub fn of_environment() -> Result<Self, Dumb> {
        Self::of(|name| std::env::var(name).ok())
    }

    /// By these variables. `COLORTERM` is not among them: it does not cross an SSH connection, so that what is here may
    /// be another terminal's.
    fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Self, Dumb> {
        // An empty variable counts as unset, as the conventions of locales and NO_COLOR want it.
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let term = set("TERM").unwrap_or_default();
        if term == "dumb" {
            return Err(Dumb);
        }
        let monochrome = set("NO_COLOR").is_some() || term.starts_with("vt1") || term.ends_with("-m");
        let colours = if monochrome { Colours::None } else { Colours::Sixteen };
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
        let locale = locale.to_ascii_lowercase().replace('-', "");
        // The console of Linux has a font of 256 or 512 characters.
        let unicode = locale.contains("utf8") && term != "linux";
        Ok(Self { colours, unicode })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Capabilities, Dumb> {
        Capabilities::of(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_locale_is_the_first_variable_that_is_set() {
        for (variables, unicode) in [
            (&[("LANG", "en_US.UTF-8")][..], true),
            (&[("LANG", "en_us.utf8")], true),
            (&[("LANG", "C")], false),
            (&[], false),
            (&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")], false),
            (&[("LC_ALL", ""), ("LC_CTYPE", "C.UTF-8"), ("LANG", "C")], true),
            (&[("TERM", "linux"), ("LANG", "en_US.UTF-8")], false),
        ] {
            assert_eq!(of(variables).unwrap().unicode, unicode, "{variables:?}");
        }
    }

    #[test]
    fn colours_are_left_out_where_the_person_or_the_terminal_says_so() {
        for (variables, colours) in [
            (&[("TERM", "xterm-256color")][..], Colours::Sixteen),
            (&[("TERM", "never-heard-of")], Colours::Sixteen),
            (&[("TERM", "xterm"), ("NO_COLOR", "1")], Colours::None),
            (&[("TERM", "xterm"), ("NO_COLOR", "")], Colours::Sixteen),
            (&[("TERM", "vt100")], Colours::None),
            (&[("TERM", "xterm-m")], Colours::None),
        ] {
            assert_eq!(of(variables).unwrap().colours, colours, "{variables:?}");
        }
        assert_eq!(of(&[("TERM", "dumb")]), Err(Dumb));
    }
}
