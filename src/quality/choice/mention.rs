//! Where labels stand in a text, and what the words around them say.

use aho_corasick::AhoCorasick;

use super::super::refusal::Refusal;

/// Bytes before a label that are looked at.
const REACH: usize = 64;

/// Whether a mark may stand around a label.
pub(super) fn is_markup(c: char) -> bool {
    "*_`\"'“”‘’()[]{}<>$".contains(c)
}

/// A label in a text, as a word of its own.
pub(super) struct Mention<'t> {
    /// Position in the rule's list.
    pub(super) label: usize,
    text: &'t str,
    start: usize,
    end: usize,
    /// A single letter; it may be an ordinary word of the sentence.
    letter: bool,
    /// Written as the rule spells it.
    exact: bool,
}

/// All mentions in the order of the text; of overlapping ones the longest.
pub(super) fn find<'t>(text: &'t str, labels: &[String]) -> Result<Vec<Mention<'t>>, Refusal> {
    let (patterns, owners): (Vec<String>, Vec<usize>) = labels
        .iter()
        .enumerate()
        .filter(|(_, label)| !label.is_empty())
        .flat_map(|(at, label)| {
            [label.clone(), label.to_lowercase(), label.to_uppercase()].map(|form| (form, at))
        })
        .unzip();
    let finder = AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build(&patterns)
        .map_err(|_| Refusal::from("the labels cannot be searched for"))?;
    let mut mentions: Vec<Mention<'t>> = finder
        .find_overlapping_iter(text)
        .filter(|found| is_word(text, found.start(), found.end()))
        .map(|found| {
            let label = owners[found.pattern().as_usize()];
            let word = &text[found.range()];
            let letter = word.chars().count() == 1 && word.chars().all(char::is_alphabetic);
            Mention {
                label,
                text,
                start: found.start(),
                end: found.end(),
                letter,
                exact: word == labels[label],
            }
        })
        .collect();
    mentions.sort_by_key(|mention| (mention.start, std::cmp::Reverse(mention.end)));
    let mut covered = 0;
    mentions.retain(|mention| {
        let is_outermost = mention.end > covered;
        covered = covered.max(mention.end);
        is_outermost
    });
    Ok(mentions)
}

/// No letter or digit on either side, not even behind an apostrophe (`I'm`, `d'accord`).
fn is_word(text: &str, start: usize, end: usize) -> bool {
    let joins = |mut next: [Option<char>; 2]| {
        if next[0].is_some_and(|c| "'’".contains(c)) {
            next.swap(0, 1);
        }
        next[0].is_some_and(char::is_alphanumeric)
    };
    let mut before = text[..start].chars().rev();
    let mut after = text[end..].chars();
    !joins([before.next(), before.next()]) && !joins([after.next(), after.next()])
}

impl Mention<'_> {
    /// The text calls this label its answer.
    pub(super) fn is_declared(&self) -> bool {
        let is_word_of_sentence = self.letter && self.goes_on() && (!self.exact || self.word() == "I");
        !is_word_of_sentence && (self.is_announced() || self.is_confirmed())
    }

    /// Outside any announcement: whether this is a label rather than a word of the sentence.
    pub(super) fn stands_for_itself(&self) -> bool {
        !self.letter || (self.exact && !(matches!(self.word(), "A" | "I") && self.goes_on()))
    }

    /// One of the two words before is a negation.
    pub(super) fn is_negated(&self) -> bool {
        const NEGATIONS: [&str; 9] =
            ["not", "never", "neither", "nor", "cannot", "isn't", "isn’t", "wasn't", "wasn’t"];
        self.before()
            .rsplit(|c: char| c.is_whitespace() || "*_`\"“”()[]".contains(c))
            .filter(|word| !word.is_empty())
            .take(2)
            .any(|word| NEGATIONS.contains(&word))
    }

    /// Nothing but `or`, `and`, a comma or the like is between this mention and the next: `B or C`, but not `C, not B`.
    pub(super) fn is_joined_to(&self, next: &Self) -> bool {
        let Some(between) = self.text.get(self.end..next.start) else { return false };
        let between = between.trim_matches(|c: char| c.is_whitespace() || is_markup(c));
        ["or", "and", "and/or", "/", "&", ",", ", or", ", and"].contains(&between)
    }

    /// `the answer is C`, `Category: **spam**`, `\boxed{C}`.
    fn is_announced(&self) -> bool {
        const CUES: [&str; 8] =
            ["answer", "choice", "option", "label", "category", "class", "classification", "response"];
        let before = self.before();
        if before.ends_with("\\boxed{") {
            return true;
        }
        let before = bare_end(&before);
        let before = before.strip_suffix("option").map_or(before, bare_end);
        let cue = if let Some(linked) = before.strip_suffix([':', '=']).map(bare_end) {
            linked.strip_suffix(" is").unwrap_or(linked)
        } else if let Some(linked) = before.strip_suffix(" is") {
            linked
        } else {
            return false;
        };
        let cue = bare_end(cue);
        CUES.iter()
            .any(|word| cue.strip_suffix(word).is_some_and(|rest| !rest.ends_with(char::is_alphanumeric)))
    }

    /// `C is correct`.
    fn is_confirmed(&self) -> bool {
        const CONFIRMATIONS: [&str; 5] =
            [" is correct", " is right", " is the correct", " is the right", " is the answer"];
        let after = self.text[self.end..].trim_start_matches(is_markup);
        CONFIRMATIONS.iter().any(|words| after.starts_with(words))
    }

    /// The sentence goes on with a word in lower case.
    fn goes_on(&self) -> bool {
        self.text[self.end..]
            .strip_prefix([' ', '\u{a0}'])
            .is_some_and(|rest| rest.starts_with(char::is_lowercase))
    }

    fn word(&self) -> &str {
        &self.text[self.start..self.end]
    }

    /// What stands before, in lower case.
    fn before(&self) -> String {
        let far = self.start.saturating_sub(REACH);
        let near = (far..self.start).find(|at| self.text.is_char_boundary(*at)).unwrap_or(self.start);
        self.text[near..self.start].to_lowercase()
    }
}

fn bare_end(text: &str) -> &str {
    text.trim_end_matches(|c: char| c.is_whitespace() || is_markup(c))
}
