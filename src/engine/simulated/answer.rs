//! What the engine answers: the reference of the document that the prompt holds, sometimes spoilt.

use std::collections::HashMap;

use aho_corasick::AhoCorasick;
use serde_json::{Map, Value};

use super::hash;
use crate::protocol::Simulated;

/// Bytes of a document that are searched for; the rest is compared where they are found.
const KEY: usize = 32;

/// How the engine "knows" an answer: the text of each document, and its reference.
///
/// A prompt is taken to ask about the longest text that it contains. Documents with an empty text are never found;
/// of two with the same text the first counts.
#[derive(Debug, Default)]
pub struct Answers {
    entries: Vec<(String, Map<String, Value>)>,
    /// Searches for the first [`KEY`] bytes of every text, each once.
    keys: Option<AhoCorasick>,
    /// Entries that start with a key, longest text first.
    by_key: Vec<Vec<usize>>,
    plain: bool,
}

/// How an answer departs from the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Correct,
    WrongField,
    BrokenJson,
    /// The answer stops half-way with an error.
    ErrorInStream,
}

/// A text and how it came about.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) outcome: Outcome,
}

impl Answers {
    /// Takes pairs of a document's text, as it stands in the prompt, and the reference's fields, as they should be
    /// answered: leave out what no answer should contain.
    pub fn new(entries: impl IntoIterator<Item = (String, Map<String, Value>)>) -> Self {
        let entries: Vec<_> = entries.into_iter().filter(|(text, _)| !text.is_empty()).collect();
        let mut keys: Vec<&[u8]> = Vec::new();
        let mut by_key: Vec<Vec<usize>> = Vec::new();
        let mut known: HashMap<&[u8], usize> = HashMap::new();
        for (index, (text, _)) in entries.iter().enumerate() {
            let key = &text.as_bytes()[..text.len().min(KEY)];
            let group = *known.entry(key).or_insert_with(|| {
                keys.push(key);
                by_key.push(Vec::new());
                by_key.len() - 1
            });
            by_key[group].push(index);
        }
        for group in &mut by_key {
            group.sort_by_key(|index| std::cmp::Reverse(entries[*index].0.len()));
        }
        // The automaton refuses only more than 2^31 states. Then no document is known.
        let keys = AhoCorasick::new(keys).ok();
        Self { entries, keys, by_key, plain: false }
    }

    /// Answers with the bare value of the reference's first field instead of a JSON object, for protocols whose
    /// output is read as a text or a choice.
    #[must_use]
    pub fn plain(self) -> Self {
        Self { plain: true, ..self }
    }

    fn find(&self, prompt: &str) -> Option<&(String, Map<String, Value>)> {
        let keys = self.keys.as_ref()?;
        let mut best: Option<&(String, Map<String, Value>)> = None;
        for found in keys.find_overlapping_iter(prompt) {
            let rest = &prompt.as_bytes()[found.start()..];
            let group = &self.by_key[found.pattern().as_usize()];
            let entry = group
                .iter()
                .map(|index| &self.entries[*index])
                .find(|(text, _)| rest.starts_with(text.as_bytes()));
            if let Some(entry) = entry
                && best.is_none_or(|(text, _)| text.len() < entry.0.len())
            {
                best = Some(entry);
            }
        }
        best
    }

    /// The answer to a prompt: the same for the same seed, rates and document, whatever surrounds the document. A
    /// prompt without a known document gets a filler, as JSON when `json` is asked for.
    pub(super) fn answer(&self, prompt: &str, json: bool, config: &Simulated) -> Answer {
        let Some((text, reference)) = self.find(prompt) else {
            let words = filler(hash::of(config.seed, prompt.as_bytes()), 24 + prompt.len() % 16);
            let text =
                if json { serde_json::json!({ "answer": words.trim_end() }).to_string() } else { words };
            return Answer { text, outcome: Outcome::Correct };
        };
        let draw = hash::of(config.seed, text.as_bytes());
        let outcome = outcome(hash::unit(draw), config);
        let mut fields = reference.clone();
        if outcome == Outcome::WrongField || (self.plain && outcome == Outcome::BrokenJson) {
            self.spoil(&mut fields, hash::mix(draw));
        }
        let mut text = if self.plain { bare(&fields) } else { Value::Object(fields).to_string() };
        if outcome == Outcome::BrokenJson && !self.plain {
            let half = (0..=text.len() / 2).rev().find(|at| text.is_char_boundary(*at));
            text.truncate(half.unwrap_or(0));
        }
        Answer { text, outcome }
    }

    /// Gives one field another value: with another digit where there is one, else one that another document has.
    fn spoil(&self, fields: &mut Map<String, Value>, draw: u64) {
        let fields_that_can = if self.plain { fields.len().min(1) } else { fields.len() };
        let at = hash::below(draw, fields_that_can);
        let Some((name, value)) = fields.iter_mut().nth(at) else { return };
        *value = match &*value {
            Value::Bool(truth) => Value::Bool(!truth),
            Value::Number(number) => Value::from(number.as_f64().unwrap_or(0.0) * 2.0 + 1.0),
            Value::String(text) => Value::String(
                other_digit(text)
                    .or_else(|| self.other_text(name, text, hash::mix(draw)))
                    .unwrap_or_else(|| format!("not {text}")),
            ),
            Value::Null | Value::Array(_) | Value::Object(_) => Value::from("unknown"),
        };
    }

    fn other_text(&self, name: &str, text: &str, draw: u64) -> Option<String> {
        let start = hash::below(draw, self.entries.len());
        (self.entries[start..].iter().chain(&self.entries[..start]))
            .take(64)
            .filter_map(|(_, fields)| fields.get(name)?.as_str())
            .find(|other| !other.is_empty() && other.to_lowercase() != text.to_lowercase())
            .map(str::to_owned)
    }
}

/// One draw decides: the rates are shares of the unit interval, errors first.
fn outcome(draw: f64, config: &Simulated) -> Outcome {
    let broken = config.error_rate + config.broken_rate;
    if draw < config.error_rate {
        Outcome::ErrorInStream
    } else if draw < broken {
        Outcome::BrokenJson
    } else if draw < broken + config.wrong_rate {
        Outcome::WrongField
    } else {
        Outcome::Correct
    }
}

fn other_digit(text: &str) -> Option<String> {
    let at = text.find(|c: char| c.is_ascii_digit())?;
    let digit = match text.as_bytes()[at] {
        b'9' => '8',
        digit => char::from(digit + 1),
    };
    Some(format!("{}{digit}{}", &text[..at], &text[at + 1..]))
}

fn bare(fields: &Map<String, Value>) -> String {
    match fields.values().next() {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

/// So many words of four bytes, space included.
pub(super) fn filler(draw: u64, words: usize) -> String {
    const WORDS: [&str; 16] = [
        "and ", "the ", "for ", "sum ", "bar ", "cup ", "tea ", "net ", "day ", "fee ", "tax ", "box ",
        "one ", "two ", "ten ", "our ",
    ];
    let mut state = draw;
    (0..words)
        .map(|_| {
            state = hash::mix(state);
            WORDS[hash::below(state, WORDS.len())]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn config(wrong: f64, broken: f64, error: f64) -> Simulated {
        Simulated {
            seed: 7,
            wrong_rate: wrong,
            broken_rate: broken,
            error_rate: error,
            slots: 1,
            kv_tokens: 1024,
            context: 1024,
            prefill_tokens_per_second: 1.0,
            iteration: Duration::ZERO,
            iteration_per_sequence: Duration::ZERO,
            tokens_per_event: 1,
            prefix_cache: false,
        }
    }

    fn answers(count: usize) -> Answers {
        Answers::new((0..count).map(|n| {
            let mut fields = Map::new();
            fields.insert("date".to_owned(), Value::from(format!("2024-03-{:02}", n % 28 + 1)));
            fields.insert("shop".to_owned(), Value::from(if n % 2 == 0 { "Café" } else { "Bakery" }));
            fields.insert("tip".to_owned(), Value::Null);
            (format!("A receipt from the shop at the corner, number {n}, thank you"), fields)
        }))
    }

    #[test]
    fn the_reference_is_the_answer_with_nulls() {
        let prompt = "Read: A receipt from the shop at the corner, number 11, thank you. Give JSON.";
        let answer = answers(20).answer(prompt, true, &config(0.0, 0.0, 0.0));
        assert_eq!(answer.text, r#"{"date":"2024-03-12","shop":"Bakery","tip":null}"#);
    }

    #[test]
    fn the_longest_text_wins_over_one_that_it_contains() {
        let entry = |text: &str| (text.to_owned(), Map::from_iter([("is".to_owned(), Value::from(text))]));
        let answers = Answers::new([entry("pay"), entry("please pay now"), entry("please pay")]).plain();
        let config = config(0.0, 0.0, 0.0);
        assert_eq!(answers.answer("who must pay? please pay now", false, &config).text, "please pay now");
        assert_eq!(answers.answer("they pay", false, &config).text, "pay");
    }

    #[test]
    fn rates_are_kept_and_the_choice_is_stable() {
        let (answers, config) = (answers(2_000), config(0.2, 0.1, 0.05));
        let reference = config.clone();
        let mut counts = [0; 4];
        for (text, fields) in &answers.entries {
            let answer = answers.answer(text, true, &config);
            assert_eq!(answer, answers.answer(&format!("again {text}"), true, &reference));
            counts[answer.outcome as usize] += 1;
            let parsed: Option<Map<String, Value>> = serde_json::from_str(&answer.text).ok();
            match answer.outcome {
                Outcome::Correct | Outcome::ErrorInStream => assert_eq!(parsed.as_ref(), Some(fields)),
                Outcome::BrokenJson => assert_eq!(parsed, None),
                Outcome::WrongField => {
                    let parsed = parsed.unwrap();
                    assert_eq!(
                        fields.iter().filter(|(name, value)| parsed.get(*name) != Some(*value)).count(),
                        1
                    );
                }
            }
        }
        let [_, wrong, broken, error] = counts;
        assert!((320..480).contains(&wrong), "{wrong}");
        assert!((140..260).contains(&broken), "{broken}");
        assert!((60..140).contains(&error), "{error}");
    }

    #[test]
    fn an_unknown_prompt_gets_a_stable_filler() {
        let (answers, config) = (answers(3), config(1.0, 0.0, 0.0));
        let text = answers.answer("hello", false, &config).text;
        assert_eq!(text, answers.answer("hello", false, &config).text);
        assert!(!text.is_empty() && !text.starts_with('{'));
        let json = answers.answer("hello", true, &config).text;
        assert!(serde_json::from_str::<Map<String, Value>>(&json).is_ok());
    }
}
