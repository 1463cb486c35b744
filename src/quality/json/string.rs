//! One quoted string of JSON, or of the nearby forms that are repaired.

use super::super::refusal::Refusal;
use super::super::repair::{Repair, Repairs};

/// A string that was not read.
pub(super) struct Unread {
    pub(super) why: Refusal,
    /// Bytes looked at.
    pub(super) read: usize,
}

/// Reads the string at the start of `text`: its value and its length in bytes, quotes included.
pub(super) fn read(text: &str, repairs: &mut Repairs) -> Result<(String, usize), Unread> {
    let (close, quotes) = match text.chars().next() {
        Some('"') => ('"', None),
        Some('\'') => ('\'', Some(Repair::SingleQuotes)),
        Some('“' | '”') => ('”', Some(Repair::CurlyQuotes)),
        Some(_) => return Err(Unread { why: "something other than a quoted text".into(), read: 0 }),
        None => return Err(Unread { why: "the text ends inside an object".into(), read: 0 }),
    };
    let mut scan = Scan { value: String::new(), repairs, odd_escape: false, letter_escape: false };
    let mut at = if close == '”' { '“'.len_utf8() } else { 1 };
    loop {
        let rest = &text[at..];
        let Some(stop) = rest.find(|c: char| c == close || c == '\\' || c < ' ') else {
            return Err(Unread { why: "the text ends inside a string".into(), read: text.len() });
        };
        scan.value.push_str(&rest[..stop]);
        at += stop;
        let rest = &text[at..];
        if rest.starts_with(close) {
            at += close.len_utf8();
            break;
        }
        at += if let Some(escape) = rest.strip_prefix('\\') {
            1 + scan.escape(escape, close).map_err(|why| Unread { why, read: at })?
        } else {
            scan.repairs.add(Repair::RawControl);
            scan.value.extend(rest.chars().next());
            1
        };
    }
    if scan.odd_escape && scan.letter_escape {
        // In `\(\nu\)` the `\n` is not a line break, in `a\_b\n` it is: there is no telling.
        return Err(Unread { why: "backslashes that are no escapes beside some that are".into(), read: at });
    }
    if scan.odd_escape {
        scan.repairs.add(Repair::BadEscape);
    }
    if let Some(quotes) = quotes {
        scan.repairs.add(quotes);
    }
    Ok((scan.value, at))
}

struct Scan<'r> {
    value: String,
    repairs: &'r mut Repairs,
    odd_escape: bool,
    letter_escape: bool,
}

impl Scan<'_> {
    /// Reads what follows a backslash and gives its length in bytes.
    fn escape(&mut self, rest: &str, close: char) -> Result<usize, Refusal> {
        let Some(mark) = rest.chars().next() else {
            return Err("the text ends inside a string".into());
        };
        match mark {
            '"' | '\\' | '/' => self.value.push(mark),
            '\'' if close == '\'' => self.value.push(mark),
            'b' => self.control('\u{8}'),
            'f' => self.control('\u{c}'),
            'n' => self.control('\n'),
            'r' => self.control('\r'),
            't' => self.control('\t'),
            'u' => return self.unicode(rest),
            // LaTeX: the backslash belongs to the text.
            '(' | ')' | '[' | ']' | 'A'..='Z' | 'a'..='z' => {
                self.odd_escape = true;
                self.value.push('\\');
                self.value.push(mark);
            }
            // Markdown: the backslash only shields the mark.
            _ if mark.is_ascii_punctuation() => {
                self.odd_escape = true;
                self.value.push(mark);
            }
            _ => return Err("a backslash that escapes nothing".into()),
        }
        Ok(mark.len_utf8())
    }

    fn control(&mut self, character: char) {
        self.letter_escape = true;
        self.value.push(character);
    }

    fn unicode(&mut self, rest: &str) -> Result<usize, Refusal> {
        const BROKEN: &str = "a broken \\u escape";
        self.letter_escape = true;
        let first = code_unit(rest).ok_or(BROKEN)?;
        if let Some(character) = char::from_u32(u32::from(first)) {
            self.value.push(character);
            return Ok(5);
        }
        let second = rest[5..].strip_prefix('\\').and_then(code_unit).ok_or(BROKEN)?;
        let pair = char::decode_utf16([first, second]).next();
        self.value.push(pair.and_then(Result::ok).ok_or(BROKEN)?);
        Ok(11)
    }
}

/// The code unit of `uXXXX`.
fn code_unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix('u')?.get(..4)?;
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u16::from_str_radix(digits, 16).ok()
}
