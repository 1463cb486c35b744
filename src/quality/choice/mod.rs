//! The one label that an output names.
//!
//! In this order: the output is a label and nothing else (`d`, `**C**`, `yes.`); labels that the text calls its answer
//! (`the answer is C`, `Category: spam`, `C is correct`); every label that stands in the text as a word. Two different
//! labels at the level that decides are refused, and so is a label behind a negation: `not spam` is no answer.

mod mention;

use self::mention::Mention;
use super::refusal::Refusal;

/// The label of an output, as the rule spells it.
pub fn read<'l>(text: &str, labels: &'l [String]) -> Result<&'l str, Refusal> {
    let bare = text.trim_matches(|c: char| c.is_whitespace() || mention::is_markup(c) || ".,;:!".contains(c));
    let bare = bare.to_lowercase();
    if let Some(label) = labels.iter().find(|label| label.to_lowercase() == bare) {
        return Ok(label);
    }
    let mentions = mention::find(text, labels)?;
    if let Some(label) = the_one(&chosen(&mentions, Mention::is_declared))? {
        return Ok(&labels[label]);
    }
    let plain = chosen(&mentions, Mention::stands_for_itself);
    match the_one(&plain)? {
        Some(_) if plain.iter().any(|mention| mention.is_negated()) => {
            Err("a label stands behind a negation".into())
        }
        Some(label) => Ok(&labels[label]),
        None => Err("none of the labels is in the output".into()),
    }
}

/// The mentions that qualify, and those joined to one that does: `the answer is B or C` names two.
fn chosen<'m, 't>(mentions: &'m [Mention<'t>], qualifies: fn(&Mention<'t>) -> bool) -> Vec<&'m Mention<'t>> {
    let joined = mentions
        .windows(2)
        .filter(|pair| pair[0].is_joined_to(&pair[1]) && pair.iter().any(qualifies))
        .flatten();
    mentions.iter().filter(|mention| qualifies(mention)).chain(joined).collect()
}

/// The label that all mentions agree on.
fn the_one(mentions: &[&Mention<'_>]) -> Result<Option<usize>, Refusal> {
    let Some(first) = mentions.first() else { return Ok(None) };
    if mentions.iter().any(|mention| mention.label != first.label) {
        return Err("more than one label is in the output".into());
    }
    Ok(Some(first.label))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label_of(text: &str, labels: &str) -> Option<String> {
        let labels: Vec<String> = labels.split('|').map(str::to_owned).collect();
        read(text, &labels).ok().map(str::to_owned)
    }

    #[test]
    fn one_label_is_found() {
        let letters = "A|B|C|D|E|F|G|H|I|J";
        for (text, label) in [
            ("C", "C"),
            ("c", "C"),
            (" **C** ", "C"),
            ("(C).", "C"),
            ("C. 12", "C"),
            ("C) the third one", "C"),
            ("The answer is C because I computed it.", "C"),
            ("I think the answer is (C).", "C"),
            ("the answer is c", "C"),
            ("**Answer:** C", "C"),
            ("Answer: **C**", "C"),
            ("\\boxed{C}", "C"),
            ("A) 1 B) 2 C) 3. The correct option is C.", "C"),
            ("A is correct", "A"),
            ("I would say option C", "C"),
            ("The answer is C, not B.", "C"),
            ("Final answer: option C", "C"),
            ("So it must be C!", "C"),
            ("I'm sure it is C", "C"),
            ("e.g. C", "C"),
            ("answer = C", "C"),
            ("Answer: I", "I"),
        ] {
            assert_eq!(label_of(text, letters).as_deref(), Some(label), "{text}");
        }
        assert_eq!(label_of("This is SPAM.", "spam|ham").as_deref(), Some("spam"));
        assert_eq!(label_of("yes.", "yes|no").as_deref(), Some("yes"));
        assert_eq!(label_of("It is not spam", "spam|not spam").as_deref(), Some("not spam"));
        assert_eq!(label_of("in new york city", "York|New York").as_deref(), Some("New York"));
        assert_eq!(label_of("ÉTÉ, sans doute", "été|hiver").as_deref(), Some("été"));
        assert_eq!(
            label_of("Category: Sci/Tech", "World|Sports|Business|Sci/Tech").as_deref(),
            Some("Sci/Tech")
        );
        assert_eq!(label_of("spam, spam", "spam|ham").as_deref(), Some("spam"));
    }

    #[test]
    fn none_two_or_a_denied_one_are_refused() {
        let letters = "A|B|C|D|E|F|G|H|I|J";
        for text in [
            "",
            "I think this is a hard question",
            "A man walks into a bar",
            "A or B",
            "B and C are right",
            "The answer is B or C",
            "The answer is B. No, the answer is C.",
            "the answer is a bit unclear",
            "The answer is not C",
            "Answer: B/C",
            "I",
            "ABC",
            "e.g. this",
        ] {
            let expected = (text == "I").then(|| "I".to_owned());
            assert_eq!(label_of(text, letters), expected, "{text}");
        }
        assert_eq!(label_of("This is not spam", "spam|ham"), None);
        assert_eq!(label_of("hamster", "spam|ham"), None);
        assert_eq!(label_of("spam or ham", "spam|ham"), None);
        assert_eq!(label_of("It isn't a spam message", "spam|ham"), None);
    }
}
