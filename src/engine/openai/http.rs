//! The HTTP/1.1 that a response needs (RFC 9112): its head, and where its body begins and ends.
//!
//! The body is cut out of the very buffer that was read from the socket. A general client would copy it, hand it on
//! between tasks and read on before it is looked at; here that would be most of what measuring costs.

use std::fmt;

/// Largest head of a response, in bytes.
const LARGEST_HEAD: usize = 64 * 1024;
/// Most header lines of a response.
const MOST_HEADERS: usize = 128;
/// Longest line of a chunk's size or of a trailer, in bytes.
const LONGEST_LINE: usize = 8 * 1024;

/// What came back is not HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NotHttp(String);

impl fmt::Display for NotHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "what came back is not HTTP: {}", self.0)
    }
}

impl From<httparse::Error> for NotHttp {
    fn from(error: httparse::Error) -> Self {
        Self(error.to_string())
    }
}

/// The head of a response, as far as it matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) content_type: Option<String>,
    pub(super) retry_after: Option<String>,
    pub(super) location: Option<String>,
    /// Whether the connection can take another request after the body.
    pub(super) keeps: bool,
    pub(super) body: Body,
}

/// Collects bytes until they hold a head.
#[derive(Debug, Default)]
pub(super) struct HeadReader(Vec<u8>);

impl HeadReader {
    /// Takes bytes; the head and what follows it, once it is complete. Interim responses are passed over.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Option<(Head, Vec<u8>)>, NotHttp> {
        self.0.extend_from_slice(bytes);
        loop {
            let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
            let mut response = httparse::Response::new(&mut headers);
            let httparse::Status::Complete(length) = response.parse(&self.0)? else {
                let full = self.0.len() > LARGEST_HEAD;
                return if full { Err(NotHttp("its head does not end".to_owned())) } else { Ok(None) };
            };
            let status = response.code.unwrap_or_default();
            if (100..200).contains(&status) && status != 101 {
                self.0.drain(..length);
                continue;
            }
            let head = Head::new(status, response.version == Some(1), response.headers)?;
            return Ok(Some((head, self.0.split_off(length))));
        }
    }
}

impl Head {
    fn new(status: u16, is_1_1: bool, headers: &[httparse::Header<'_>]) -> Result<Self, NotHttp> {
        let all = |name: &'static str| headers.iter().filter(move |h| h.name.eq_ignore_ascii_case(name));
        let text = |name| {
            all(name).next().map(|header| String::from_utf8_lossy(header.value.trim_ascii()).into_owned())
        };
        let listed = |name, word: &str| {
            all(name).any(|h| {
                h.value.split(|b| *b == b',').any(|v| v.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
            })
        };
        let body = if matches!(status, 101 | 204 | 304) {
            Body::Length(0)
        } else if let Some(coding) = text("transfer-encoding") {
            if !coding.eq_ignore_ascii_case("chunked") {
                return Err(NotHttp(format!("transfer coding {coding:?} was not asked for")));
            }
            Body::Chunked(Chunks::default())
        } else if all("content-length").next().is_some() {
            let mut lengths = all("content-length").map(|h| h.value.trim_ascii());
            let first = lengths.next().unwrap_or_default();
            let length = std::str::from_utf8(first).ok().filter(|t| t.bytes().all(|b| b.is_ascii_digit()));
            match length.and_then(|text| text.parse().ok()) {
                Some(length) if lengths.all(|other| other == first) => Body::Length(length),
                _ => return Err(NotHttp("its content length is no number".to_owned())),
            }
        } else {
            Body::UntilClose
        };
        let keeps = if is_1_1 { !listed("connection", "close") } else { listed("connection", "keep-alive") };
        Ok(Self {
            status,
            content_type: text("content-type"),
            retry_after: text("retry-after"),
            location: text("location"),
            keeps: keeps && !matches!(body, Body::UntilClose) && status != 101,
            body,
        })
    }
}

/// A body, and how much of it is still to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Body {
    /// So many bytes.
    Length(u64),
    /// Chunks.
    Chunked(Chunks),
    /// All that comes until the server closes.
    UntilClose,
}

impl Body {
    /// Whether all of it has come.
    pub(super) fn is_complete(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunked(chunks) => chunks.at == At::End,
            Self::UntilClose => false,
        }
    }

    /// Whether the server's closing is its end.
    pub(super) fn ends_with_close(&self) -> bool {
        matches!(self, Self::UntilClose)
    }

    /// Cuts the body's own bytes out of what was read, in order; the number of bytes that belonged to the response.
    pub(super) fn push(&mut self, bytes: &[u8], mut part: impl FnMut(&[u8])) -> Result<usize, NotHttp> {
        match self {
            Self::Length(left) => {
                let taken = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                if taken > 0 {
                    part(&bytes[..taken]);
                }
                *left -= taken as u64;
                Ok(taken)
            }
            Self::Chunked(chunks) => chunks.push(bytes, part),
            Self::UntilClose => {
                part(bytes);
                Ok(bytes.len())
            }
        }
    }
}

/// Where in a chunked body the next byte stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Chunks {
    at: At,
    /// Bytes of the current line, without its end, to bound it.
    line: usize,
    /// Size of the chunk being announced, or bytes of it still to come.
    size: u64,
    digits: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum At {
    #[default]
    Size,
    /// After the size, up to the end of its line.
    Extension,
    Data,
    /// The line end after a chunk's data.
    DataEnd,
    /// A trailer line, or the empty line that ends the body.
    Trailer,
    End,
}

impl Chunks {
    fn push(&mut self, bytes: &[u8], mut part: impl FnMut(&[u8])) -> Result<usize, NotHttp> {
        let mut rest = bytes;
        while self.at != At::End
            && let Some((&byte, after)) = rest.split_first()
        {
            if self.at == At::Data {
                let taken = usize::try_from(self.size).map_or(rest.len(), |size| size.min(rest.len()));
                part(&rest[..taken]);
                rest = &rest[taken..];
                self.size -= taken as u64;
                if self.size == 0 {
                    self.at = At::DataEnd;
                }
                continue;
            }
            rest = after;
            self.step(byte)?;
        }
        Ok(bytes.len() - rest.len())
    }

    /// Takes one byte that is no data.
    fn step(&mut self, byte: u8) -> Result<(), NotHttp> {
        let refuse = |what: &str| Err(NotHttp(format!("a chunk {what}")));
        self.line += 1;
        if self.line > LONGEST_LINE {
            return refuse("is announced by a line that does not end");
        }
        match (self.at, byte) {
            (At::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = char::from(byte).to_digit(16).map_or(0, u64::from);
                self.digits += 1;
                match self.size.checked_mul(16).and_then(|size| size.checked_add(digit)) {
                    Some(size) => self.size = size,
                    None => return refuse("is larger than can be counted"),
                }
            }
            (At::Size | At::Extension, b'\n') if self.digits > 0 => {
                self.at = if self.size == 0 { At::Trailer } else { At::Data };
                (self.line, self.digits) = (0, 0);
            }
            (At::Size, b'\r' | b';' | b' ' | b'\t') if self.digits > 0 => self.at = At::Extension,
            (At::Size, _) => return refuse("has no size"),
            (At::DataEnd, b'\r') if self.line == 1 => {}
            (At::DataEnd, b'\n') => (self.at, self.line) = (At::Size, 0),
            (At::DataEnd, _) => return refuse("is longer than announced"),
            (At::Trailer, b'\r') => self.line -= 1,
            (At::Trailer, b'\n') => {
                self.at = if self.line == 1 { At::End } else { At::Trailer };
                self.line = 0;
            }
            (At::Extension | At::Trailer | At::Data | At::End, _) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(head: &str, bytes: &[u8], cut: usize) -> Result<(Vec<u8>, bool, usize), NotHttp> {
        let mut reader = HeadReader::default();
        let (mut head, rest) = reader.push(format!("HTTP/1.1 200 OK\r\n{head}\r\n").as_bytes())?.unwrap();
        assert!(rest.is_empty());
        let (mut data, mut taken) = (Vec::new(), 0);
        for piece in [&bytes[..cut], &bytes[cut..]] {
            taken += head.body.push(piece, |part| data.extend_from_slice(part))?;
        }
        Ok((data, head.body.is_complete(), taken))
    }

    const CHUNKED: &str = "transfer-encoding: chunked\r\n";

    #[test]
    fn a_chunked_body_is_the_same_at_every_cut() {
        let bytes = b"5\r\nhello\r\n00A;x=\"1\"\r\n, world 12\r\n1 \n!\n0\r\nx-time: 3\r\ny: z\r\n\r\nnext";
        for cut in 0..=bytes.len() {
            let (data, complete, taken) = body(CHUNKED, bytes, cut).unwrap();
            assert_eq!(data, b"hello, world 12!", "cut at {cut}");
            assert!(complete);
            assert_eq!(taken, bytes.len() - 4, "cut at {cut}");
        }
    }

    #[test]
    fn a_cut_chunked_body_is_never_complete() {
        let bytes = b"5\r\nhello\r\n0\r\nx: y\r\n\r\n";
        for end in 0..bytes.len() {
            assert!(!body(CHUNKED, &bytes[..end], 0).unwrap().1, "ends at {end}");
        }
    }

    #[test]
    fn chunks_that_are_none_are_refused() {
        let wrong: [&[u8]; 6] =
            [b"\r\n", b"x\r\n", b"-1\r\n", b"fffffffffffffffff\r\n", b"1\r\nab\r\n", b"1;\r\na\rb"];
        for bytes in wrong {
            assert!(body(CHUNKED, bytes, 0).is_err(), "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn a_line_without_end_is_bounded() {
        let endless = [b"1;".as_slice(), &[b'x'; LONGEST_LINE]].concat();
        assert!(body(CHUNKED, &endless, 0).is_err());
    }

    #[test]
    fn lengths_that_disagree_or_are_no_numbers_are_refused() {
        assert_eq!(
            body("content-length: 3\r\ncontent-length: 3\r\n", b"abcd", 1).unwrap(),
            (b"abc".to_vec(), true, 3)
        );
        for head in
            ["content-length: 3\r\ncontent-length: 4\r\n", "content-length: +3\r\n", "content-length: \r\n"]
        {
            assert!(body(head, b"", 0).is_err(), "{head}");
        }
    }

    #[test]
    fn a_head_is_the_same_at_every_cut_and_interim_responses_are_passed_over() {
        let bytes = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                      connection: x, Close\r\n\r\nrest";
        for cut in 0..bytes.len() {
            let mut reader = HeadReader::default();
            let (head, rest) = match reader.push(&bytes[..cut]).unwrap() {
                Some((head, rest)) => (head, [rest, bytes[cut..].to_vec()].concat()),
                None => reader.push(&bytes[cut..]).unwrap().unwrap(),
            };
            assert_eq!(
                (head.status, head.keeps, rest.as_slice()),
                (200, false, b"rest".as_slice()),
                "cut at {cut}"
            );
            assert_eq!(head.content_type.as_deref(), Some("text/event-stream"));
            assert!(head.body.ends_with_close());
        }
    }

    #[test]
    fn keeping_follows_the_version_and_the_header() {
        let keeps = |text: &str| HeadReader::default().push(text.as_bytes()).unwrap().unwrap().0.keeps;
        assert!(keeps("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"));
        assert!(!keeps("HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n"));
        assert!(keeps("HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\ncontent-length: 0\r\n\r\n"));
        assert!(!keeps("HTTP/1.1 200 OK\r\n\r\n"), "the body ends with the connection");
    }

    #[test]
    fn what_is_no_http_is_refused() {
        for bytes in ["SSH-2.0-OpenSSH_9\r\n\r\n", "\u{16}\u{3}\u{1}", "HTTP/1.1 2x0 OK\r\n\r\n"] {
            assert!(HeadReader::default().push(bytes.as_bytes()).is_err(), "{bytes:?}");
        }
        assert!(HeadReader::default().push(&[b'\n'; 10]).unwrap().is_none(), "empty lines may come before");
    }
}
