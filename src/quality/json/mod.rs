//! The one JSON object of an output, wherever it stands in it.
//!
//! An output that is strict JSON as a whole is taken as it is. Otherwise the text is walked once: reasoning, fences,
//! tags and prose are stepped over and noted, and each object is read by a [`Reader`] that notes its repairs. Refused
//! are: an object that is broken in a way that has no single reading, and two objects that differ.

mod reader;
mod string;

use serde_json::Value;

use self::reader::Reader;
use super::refusal::Refusal;
use super::repair::{Repair, Repairs};
use super::think;

/// Bytes that failed attempts may look at, per byte of text, so that reading stays linear.
const EFFORT: usize = 16;

/// A value and what was repaired to read it.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonReading {
    /// An object or an array with an object as its first element; any value when the output is strict JSON.
    pub value: Value,
    /// Empty when the output is strict JSON.
    pub repairs: Vec<Repair>,
}

/// Reads the JSON value of an output.
pub fn read(text: &str) -> Result<JsonReading, Refusal> {
    if let Some(value) = strict(text) {
        return Ok(JsonReading { value, repairs: Vec::new() });
    }
    let mut walk = Walk { text, at: 0, spent: 0, found: None, broken: None, repairs: Repairs::default() };
    walk.run()?;
    match (walk.broken, walk.found) {
        (Some(why), _) => Err(why),
        (None, Some(value)) => Ok(JsonReading { value, repairs: walk.repairs.into_vec() }),
        (None, None) => Err("no JSON object in the output".into()),
    }
}

/// The value of a text that is strict JSON.
pub(super) fn strict(text: &str) -> Option<Value> {
    let mut reader = Reader::new(text, 0);
    let value = reader.whole().ok()?;
    reader.into_repairs().is_empty().then_some(value)
}

struct Walk<'a> {
    text: &'a str,
    at: usize,
    /// Bytes looked at by attempts that failed.
    spent: usize,
    found: Option<Value>,
    /// Why the output is refused, unless it turns out that all of it up to here was reasoning.
    broken: Option<Refusal>,
    repairs: Repairs,
}

impl Walk<'_> {
    fn run(&mut self) -> Result<(), Refusal> {
        while self.at < self.text.len() {
            if self.broken.is_some() {
                let Some(end) = think::next_close(&self.text[self.at..]) else { return Ok(()) };
                self.forget(end);
                continue;
            }
            let rest = &self.text[self.at..];
            let stop = rest.find(['{', '[', '<', '`']).unwrap_or(rest.len());
            if !rest[..stop].bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {
                self.repairs.add(Repair::Prose);
            }
            self.at += stop;
            match rest.as_bytes().get(stop) {
                Some(b'<') => self.angle()?,
                Some(b'`') => self.tick(),
                Some(_) => self.candidate()?,
                None => {}
            }
        }
        Ok(())
    }

    /// At `<`: reasoning, a tag, or prose.
    fn angle(&mut self) -> Result<(), Refusal> {
        let rest = &self.text[self.at..];
        if let Some(body) = think::open(rest) {
            let Some(end) = think::next_close(&rest[body..]) else {
                return Err("the reasoning has no end".into());
            };
            self.repairs.add(Repair::Think);
            self.at += body + end;
        } else if let Some(end) = think::close(rest) {
            self.forget(end);
        } else if let Some(length) = tag(rest) {
            self.repairs.add(Repair::Tags);
            self.at += length;
        } else {
            self.prose();
        }
        Ok(())
    }

    /// Steps over the end of a reasoning block whose start the engine kept: all before it was reasoning.
    fn forget(&mut self, bytes: usize) {
        self.at += bytes;
        self.found = None;
        self.broken = None;
        self.repairs = Repairs::default();
        self.repairs.add(Repair::Think);
    }

    /// At a backtick: a fence with its language, or prose.
    fn tick(&mut self) {
        let rest = &self.text[self.at..];
        let Some(info) = rest.strip_prefix("```") else { return self.prose() };
        let word =
            info.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte)).count();
        self.repairs.add(Repair::Fence);
        self.at += 3 + word;
    }

    fn prose(&mut self) {
        self.repairs.add(Repair::Prose);
        self.at += 1;
    }

    /// At a brace or bracket: an object, an array of objects, or prose.
    fn candidate(&mut self) -> Result<(), Refusal> {
        let rest = &self.text[self.at..];
        let in_array = rest.strip_prefix('[').is_some_and(|inside| inside.trim_start().starts_with('{'));
        if rest.starts_with('[') && !in_array {
            self.prose();
            return Ok(());
        }
        let mut reader = Reader::new(self.text, self.at);
        match reader.value(0) {
            Ok(Value::Object(members)) if members.is_empty() => {
                self.repairs.add(Repair::Prose);
                self.at = reader.at();
            }
            Ok(value) => {
                self.at = reader.at();
                match &self.found {
                    Some(found) if *found == value => self.repairs.add(Repair::Repeated),
                    Some(_) => self.broken = Some("two different JSON objects".into()),
                    None => self.found = Some(value),
                }
                self.repairs.extend(reader.into_repairs());
            }
            Err(why) => {
                self.spent += reader.at() - self.at;
                if self.spent > EFFORT * self.text.len() {
                    return Err("too many braces that belong to no object".into());
                }
                if reader.committed() {
                    self.broken = Some(why);
                }
                self.prose();
            }
        }
        Ok(())
    }
}

/// Length of a tag or special token: `<name …>`, `</name>`, `<|name|>`.
fn tag(text: &str) -> Option<usize> {
    const LONGEST: usize = 80;
    let name = text.strip_prefix("</").or_else(|| text.strip_prefix('<'))?;
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '|' || c == '_') {
        return None;
    }
    let end =
        text.bytes().take(LONGEST).skip(1).position(|byte| matches!(byte, b'<' | b'>' | b'{' | b'\n'))? + 1;
    (text.as_bytes()[end] == b'>').then_some(end + 1)
}
