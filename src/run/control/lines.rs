//! Lines out of a byte stream, none longer than a limit.

use std::io;

use bytes::{Bytes, BytesMut};
use memchr::memchr;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Room that is made for one read, in bytes.
const READ: usize = 8 * 1024;

/// No further line can be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum LineError {
    /// A line longer than the limit.
    #[error("a line is longer than {0} bytes")]
    TooLong(usize),
    /// What the system said.
    #[error(transparent)]
    Read(#[from] io::Error),
}

/// Reads lines.
#[derive(Debug)]
pub(super) struct Lines<R> {
    from: R,
    buffer: BytesMut,
    /// Bytes of the buffer that are known to hold no end of a line.
    scanned: usize,
    limit: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Lines of at most `limit` bytes without their end.
    pub(super) fn new(from: R, limit: usize) -> Self {
        Self { from, buffer: BytesMut::new(), scanned: 0, limit }
    }

    /// The next line without its end; `None` at the end of the stream, where a last line without its end never
    /// happened. Nothing is lost when the future is dropped.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, LineError> {
        loop {
            let end = memchr(b'\n', &self.buffer[self.scanned..]).map(|at| self.scanned + at);
            if end.unwrap_or(self.buffer.len()) > self.limit {
                return Err(LineError::TooLong(self.limit));
            }
            if let Some(end) = end {
                self.scanned = 0;
                return Ok(Some(self.buffer.split_to(end + 1).freeze().slice(..end)));
            }
            self.scanned = self.buffer.len();
            self.buffer.reserve(READ);
            if self.from.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn next(lines: &mut Lines<&[u8]>) -> Option<String> {
        lines.next().await.unwrap().map(|line| String::from_utf8(line.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_line_without_its_end_never_happened() {
        let mut lines = Lines::new(&b"one\n\ntwo\nthr"[..], 3);
        assert_eq!(next(&mut lines).await.as_deref(), Some("one"));
        assert_eq!(next(&mut lines).await.as_deref(), Some(""));
        assert_eq!(next(&mut lines).await.as_deref(), Some("two"));
        assert_eq!(next(&mut lines).await, None);
    }

    #[tokio::test]
    async fn a_line_over_the_limit_is_an_error_with_or_without_its_end() {
        for text in ["four", "four\n"] {
            let mut lines = Lines::new(text.as_bytes(), 3);
            assert!(matches!(lines.next().await, Err(LineError::TooLong(3))));
        }
    }
}
