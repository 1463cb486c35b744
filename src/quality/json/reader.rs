//! A reader of JSON that also reads a few common departures from it, and notes each one.
//!
//! It never guesses a value: a departure that has two readings is refused. Without repairs it accepts exactly RFC 8259
//! with two more limits: no key twice in an object, no nesting deeper than [`DEPTH`].

use serde_json::{Map, Value};

use super::super::refusal::Refusal;
use super::super::repair::{Repair, Repairs};
use super::string;

/// Deepest nesting that is read; it bounds the stack.
const DEPTH: usize = 64;

/// Digits that a double always gives back as they were written.
const EXACT_DIGITS: usize = 15;

/// A position in a text, and what was repaired up to it.
pub(super) struct Reader<'a> {
    text: &'a str,
    at: usize,
    repairs: Repairs,
    keys: usize,
}

impl<'a> Reader<'a> {
    /// A reader that stands at a byte of the text.
    pub(super) fn new(text: &'a str, at: usize) -> Self {
        Self { text, at, repairs: Repairs::default(), keys: 0 }
    }

    /// The byte that is read next.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Whether what was read is an object beyond doubt, or the text ended in the middle of it. Braces in prose are
    /// neither.
    pub(super) fn committed(&self) -> bool {
        self.keys > 0 || self.at >= self.text.len()
    }

    pub(super) fn into_repairs(self) -> Repairs {
        self.repairs
    }

    /// Reads one value that must be the whole text.
    pub(super) fn whole(&mut self) -> Result<Value, Refusal> {
        self.space()?;
        let value = self.value(0)?;
        self.space()?;
        if self.at < self.text.len() { Err("text after the value".into()) } else { Ok(value) }
    }

    /// Reads one value; the position must be on its first byte.
    pub(super) fn value(&mut self, depth: usize) -> Result<Value, Refusal> {
        if depth >= DEPTH {
            return Err("nested too deep".into());
        }
        match self.peek() {
            Some(b'{') => self.object(depth).map(Value::Object),
            Some(b'[') => self.array(depth),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'A'..=b'Z' | b'a'..=b'z') => self.literal(),
            Some(_) => self.string().map(Value::String),
            None => Err("the text ends inside an object".into()),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Map<String, Value>, Refusal> {
        self.at += 1;
        self.space()?;
        if self.peek() == Some(b'{') {
            return self.doubled(depth);
        }
        let mut members = Map::new();
        while !self.take(b'}') {
            let key = self.string()?;
            self.space()?;
            if !self.take(b':') {
                return Err("a key without a colon".into());
            }
            self.keys += 1;
            self.space()?;
            let closed = !matches!(self.peek(), Some(b'-' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z'));
            let value = self.value(depth + 1)?;
            if members.contains_key(&key) {
                return Err("a key appears twice".into());
            }
            members.insert(key, value);
            self.space()?;
            // Only what ends in a mark of its own is known to be whole at the end of a text: `12` may be `1234` cut.
            if depth == 0 && closed && self.peek().is_none() {
                self.repairs.add(Repair::MissingCloser);
                return Ok(members);
            }
            self.separator(b'}')?;
        }
        Ok(members)
    }

    /// The inner object of `{{ … }}`; the outer brace is read.
    fn doubled(&mut self, depth: usize) -> Result<Map<String, Value>, Refusal> {
        if depth + 1 >= DEPTH {
            return Err("nested too deep".into());
        }
        let members = self.object(depth + 1)?;
        self.space()?;
        if !self.take(b'}') {
            return Err("doubled braces that do not close twice".into());
        }
        self.repairs.add(Repair::DoubledBraces);
        Ok(members)
    }

    fn array(&mut self, depth: usize) -> Result<Value, Refusal> {
        self.at += 1;
        self.space()?;
        let mut elements = Vec::new();
        while !self.take(b']') {
            elements.push(self.value(depth + 1)?);
            self.space()?;
            self.separator(b']')?;
        }
        Ok(Value::Array(elements))
    }

    /// After an element: a comma and what follows it, or nothing when the closer is next.
    fn separator(&mut self, closer: u8) -> Result<(), Refusal> {
        if self.take(b',') {
            self.space()?;
            if self.peek() == Some(closer) {
                self.repairs.add(Repair::TrailingComma);
            }
            return Ok(());
        }
        match self.peek() {
            Some(next) if next == closer => Ok(()),
            Some(_) => Err("a value is not followed by a comma or a closing mark".into()),
            None => Err("the text ends inside an object".into()),
        }
    }

    fn string(&mut self) -> Result<String, Refusal> {
        let (value, length) = string::read(&self.text[self.at..], &mut self.repairs).map_err(|cut| {
            self.at = self.at.saturating_add(cut.read).min(self.text.len());
            cut.why
        })?;
        self.at += length;
        Ok(value)
    }

    fn literal(&mut self) -> Result<Value, Refusal> {
        let rest = &self.text[self.at..];
        let word = &rest[..rest.bytes().take_while(u8::is_ascii_alphanumeric).count()];
        let (value, python) = match word {
            "true" => (Value::Bool(true), false),
            "false" => (Value::Bool(false), false),
            "null" => (Value::Null, false),
            "True" => (Value::Bool(true), true),
            "False" => (Value::Bool(false), true),
            "None" => (Value::Null, true),
            "NaN" | "nan" | "Infinity" | "inf" => return Err("NaN and infinities are not values".into()),
            _ => return Err("a value without quotes".into()),
        };
        if python {
            self.repairs.add(Repair::PythonLiteral);
        }
        self.at += word.len();
        Ok(value)
    }

    fn number(&mut self) -> Result<Value, Refusal> {
        let start = self.at;
        self.take(b'-');
        let whole = self.digits();
        let leading_zero = whole.len() > 1 && whole.starts_with('0');
        let fraction = if self.take(b'.') { Some(self.digits()) } else { None };
        let exponent = if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            Some(self.digits())
        } else {
            None
        };
        if whole.is_empty() || leading_zero || fraction == Some("") || exponent == Some("") {
            return Err("a number that JSON does not have".into());
        }
        Ok(exact_number(&self.text[start..self.at]))
    }

    fn digits(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let digits = &rest[..rest.bytes().take_while(u8::is_ascii_digit).count()];
        self.at += digits.len();
        digits
    }

    /// Skips white space and comments.
    fn space(&mut self) -> Result<(), Refusal> {
        loop {
            while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
                self.at += 1;
            }
            let rest = &self.text[self.at..];
            let end = if let Some(comment) = rest.strip_prefix("/*") {
                comment.find("*/").map(|end| end + 4)
            } else if rest.starts_with("//") || rest.starts_with('#') {
                // A comment up to the end of the text may have swallowed the closing brace and more.
                rest.find('\n').map(|end| end + 1)
            } else {
                return Ok(());
            };
            let Some(end) = end else {
                self.at = self.text.len();
                return Err("a comment without an end".into());
            };
            self.repairs.add(Repair::Comments);
            self.at += end;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        if is_next {
            self.at += 1;
        }
        is_next
    }
}

/// The number, or its text where a double would round it: comparisons read the text exactly.
fn exact_number(literal: &str) -> Value {
    let significand = literal.split(['e', 'E']).next().unwrap_or(literal);
    let digits = significand.bytes().filter(u8::is_ascii_digit).count();
    match literal.parse::<serde_json::Number>() {
        Ok(number) if digits <= EXACT_DIGITS || number.is_i64() || number.is_u64() => Value::Number(number),
        _ => Value::String(literal.to_owned()),
    }
}
