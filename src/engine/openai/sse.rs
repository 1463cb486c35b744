//! Server-sent events by the WHATWG rules, from bytes cut anywhere.

use std::fmt;

use memchr::memchr2;

/// One event. Both parts are bytes as received: what the engine writes is not always UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// Value of the last `event:` line; empty means `message`.
    pub kind: &'a [u8],
    /// Values of the `data:` lines, joined by line feeds.
    pub data: &'a [u8],
}

/// A line or an event is larger than the limit. The reader is of no use afterwards, until [`EventReader::clear`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge {
    /// The limit, in bytes.
    pub limit: usize,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an event is larger than {} bytes", self.limit)
    }
}

impl std::error::Error for TooLarge {}

/// Cuts a byte stream into events. Its result does not depend on where the reads cut the stream.
///
/// An event whose only data line lies within one read is handed out without a copy.
#[derive(Debug)]
pub struct EventReader {
    limit: usize,
    /// Start of a line whose end has not arrived.
    line: Vec<u8>,
    /// Data of the event being read, from earlier reads or of several lines.
    data: Vec<u8>,
    /// Whether `data` holds a data line, which may be empty.
    has_data: bool,
    kind: Vec<u8>,
    /// The last byte was a CR: a LF that follows belongs to it.
    after_cr: bool,
    /// No line has ended yet: a byte order mark may be in front.
    at_start: bool,
}

impl Default for EventReader {
    fn default() -> Self {
        Self::new()
    }
}

impl EventReader {
    /// Largest line and largest event, in bytes.
    pub const LIMIT: usize = 64 << 20;

    /// A reader at the start of a stream.
    pub fn new() -> Self {
        Self::with_limit(Self::LIMIT)
    }

    /// A reader that refuses lines and events of more than `limit` bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            kind: Vec::new(),
            after_cr: false,
            at_start: true,
        }
    }

    /// Takes the next bytes of the stream and hands out every event that they complete, in order.
    pub fn push(&mut self, bytes: &[u8], mut on_event: impl FnMut(Event<'_>)) -> Result<(), TooLarge> {
        let mut rest = bytes;
        if self.after_cr && !rest.is_empty() {
            self.after_cr = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        if !self.line.is_empty() {
            let Some((tail, after)) = self.split_line(rest) else {
                return self.keep_line(rest);
            };
            self.keep_line(tail)?;
            rest = after;
            let line = std::mem::take(&mut self.line);
            match self.field(&line) {
                Field::Data(value) => self.keep_data(value)?,
                Field::Kind(value) => self.keep_kind(value),
                Field::Blank => self.dispatch(None, &mut on_event),
                Field::Other => {}
            }
            self.line = line;
            self.line.clear();
        }
        // The first data line of an event stays where it is until the event ends, another follows, or the read ends.
        let mut in_place: Option<&[u8]> = None;
        while let Some((line, after)) = self.split_line(rest) {
            rest = after;
            self.check(line.len())?;
            match self.field(line) {
                Field::Data(value) if in_place.is_none() && !self.has_data => in_place = Some(value),
                Field::Data(value) => {
                    if let Some(first) = in_place.take() {
                        self.keep_data(first)?;
                    }
                    self.keep_data(value)?;
                }
                Field::Kind(value) => self.keep_kind(value),
                Field::Blank => self.dispatch(in_place.take(), &mut on_event),
                Field::Other => {}
            }
        }
        if let Some(value) = in_place {
            self.keep_data(value)?;
        }
        self.keep_line(rest)
    }

    /// Ends the stream. An event that no blank line ended is not an event; its data so far is returned, so that the
    /// caller can tell a stream that was cut from one that was complete. Comments do not count.
    pub fn finish(&mut self) -> Option<&[u8]> {
        let line = std::mem::take(&mut self.line);
        let mut partial = self.has_data || !self.kind.is_empty();
        if !line.is_empty() && !line.starts_with(b":") {
            partial = true;
            if let Field::Data(value) = self.field(&line) {
                // What does not fit the limit is not worth more than the fact that it was cut.
                let _ = self.keep_data(value);
            }
        }
        partial.then_some(&self.data)
    }

    /// Back to the start of a stream; the buffers stay.
    pub fn clear(&mut self) {
        self.line.clear();
        self.data.clear();
        self.has_data = false;
        self.kind.clear();
        self.after_cr = false;
        self.at_start = true;
    }

    /// The first line of `rest`, without its end, and what follows it; `None` when no line ends in `rest`.
    fn split_line<'a>(&mut self, rest: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let end = memchr2(b'\n', b'\r', rest)?;
        let (line, after) = (&rest[..end], &rest[end + 1..]);
        if rest[end] == b'\n' {
            return Some((line, after));
        }
        // A CR ends the line at once, so that an event is not held back until the byte after it arrives.
        self.after_cr = after.is_empty();
        Some((line, after.strip_prefix(b"\n").unwrap_or(after)))
    }

    fn field<'a>(&mut self, line: &'a [u8]) -> Field<'a> {
        let line = if std::mem::take(&mut self.at_start) {
            line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line)
        } else {
            line
        };
        Field::of(line)
    }

    fn dispatch(&mut self, in_place: Option<&[u8]>, on_event: &mut impl FnMut(Event<'_>)) {
        if in_place.is_some() || self.has_data {
            on_event(Event { kind: &self.kind, data: in_place.unwrap_or(&self.data) });
        }
        self.data.clear();
        self.has_data = false;
        self.kind.clear();
    }

    fn keep_data(&mut self, value: &[u8]) -> Result<(), TooLarge> {
        self.check(self.data.len() + value.len())?;
        if self.has_data {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(value);
        self.has_data = true;
        Ok(())
    }

    fn keep_kind(&mut self, value: &[u8]) {
        self.kind.clear();
        self.kind.extend_from_slice(value);
    }

    fn keep_line(&mut self, part: &[u8]) -> Result<(), TooLarge> {
        self.check(self.line.len() + part.len())?;
        self.line.extend_from_slice(part);
        Ok(())
    }

    fn check(&self, size: usize) -> Result<(), TooLarge> {
        if size > self.limit { Err(TooLarge { limit: self.limit }) } else { Ok(()) }
    }
}

/// What a line means. `id` and `retry` serve reconnection, which an answer cannot have.
enum Field<'a> {
    Blank,
    Data(&'a [u8]),
    Kind(&'a [u8]),
    Other,
}

impl<'a> Field<'a> {
    fn of(line: &'a [u8]) -> Self {
        let value = |name: &[u8]| {
            let rest = line.strip_prefix(name)?;
            match rest {
                [] => Some(rest),
                [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
                _ => None,
            }
        };
        if line.is_empty() {
            Self::Blank
        } else if let Some(value) = value(b"data") {
            Self::Data(value)
        } else if let Some(value) = value(b"event") {
            Self::Kind(value)
        } else {
            Self::Other
        }
    }
}
