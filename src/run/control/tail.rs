//! The journal as one viewer reads it: from a line on, and no further than what is synced.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use memchr::{memchr_iter, memrchr};
use tokio::task::spawn_blocking;

use crate::run::recorder::Committed;

/// Most bytes that are read, and held for a viewer, at once.
const CHUNK: u64 = 64 * 1024;

/// Bytes of the journal to be sent.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) bytes: Bytes,
    /// Whether something else may be said after it. A line longer than a chunk comes in several pieces.
    pub(super) ends_line: bool,
}

/// A place in the journal.
#[derive(Debug)]
pub(super) struct Tail {
    file: Arc<File>,
    offset: u64,
    /// Lines from `offset` on that are not wanted.
    skip: u64,
}

impl Tail {
    /// Opens the journal at a line, which may be still to come.
    pub(super) async fn open(path: PathBuf, from: u64, committed: Committed) -> io::Result<Self> {
        let file = Arc::new(blocking(move || File::open(path)).await?);
        // Most viewers have read the file and go on from its end.
        Ok(match from.checked_sub(committed.next_seq) {
            Some(skip) => Self { file, offset: committed.bytes, skip },
            None => Self { file, offset: 0, skip: from },
        })
    }

    /// Whether there is something to be read.
    pub(super) fn is_behind(&self, committed: Committed) -> bool {
        self.offset < committed.bytes
    }

    /// The next piece. It has no bytes where lines were skipped.
    pub(super) async fn read(&mut self, committed: Committed) -> io::Result<Piece> {
        let bytes = self.chunk(committed).await?;
        let start = self.skip(&bytes);
        let (end, ends_line) = match memrchr(b'\n', &bytes[start..]) {
            Some(last) => (start + last + 1, true),
            // Lines end before it: it is read again, from its start.
            None if start > 0 || bytes.is_empty() => (start, true),
            None => (bytes.len(), false),
        };
        self.offset += end as u64;
        Ok(Piece { bytes: bytes.slice(start..end), ends_line })
    }

    async fn chunk(&self, committed: Committed) -> io::Result<Bytes> {
        let (file, offset) = (Arc::clone(&self.file), self.offset);
        let length = committed.bytes.saturating_sub(offset).min(CHUNK);
        let length = usize::try_from(length).map_err(io::Error::other)?;
        blocking(move || {
            let mut chunk = vec![0; length];
            file.read_exact_at(&mut chunk, offset)?;
            Ok(chunk.into())
        })
        .await
    }

    /// Where the wanted lines begin in a chunk.
    fn skip(&mut self, chunk: &[u8]) -> usize {
        let mut ends = memchr_iter(b'\n', chunk);
        while self.skip > 0 {
            let Some(end) = ends.next() else { return chunk.len() };
            self.skip -= 1;
            if self.skip == 0 {
                return end + 1;
            }
        }
        0
    }
}

/// Does on a thread of its own what can wait for the disk.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    spawn_blocking(work).await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const LONG: usize = 150_000;

    /// A journal with a line that takes several chunks, and the bytes of each line.
    fn journal() -> (tempfile::TempDir, PathBuf, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let line = |number: usize| match number {
            700 => format!("{}\n", "x".repeat(LONG)),
            _ => format!("line {number} {}\n", "-".repeat(number % 300)),
        };
        let lines: Vec<_> = (0..1500).map(line).collect();
        fs::write(&path, lines.concat()).unwrap();
        (folder, path, lines)
    }

    fn committed(lines: &[String]) -> Committed {
        Committed { bytes: lines.concat().len() as u64, next_seq: lines.len() as u64 }
    }

    async fn rest(tail: &mut Tail, committed: Committed) -> String {
        let mut read = Vec::new();
        while tail.is_behind(committed) {
            let piece = tail.read(committed).await.unwrap();
            assert!(piece.bytes.len() as u64 <= CHUNK);
            read.extend_from_slice(&piece.bytes);
            assert_eq!(piece.ends_line, read.last().is_none_or(|last| *last == b'\n'));
        }
        String::from_utf8(read).unwrap()
    }

    #[tokio::test]
    async fn every_line_from_any_line_on_is_read_once() {
        let (_folder, path, lines) = journal();
        let end = committed(&lines);
        for from in [0, 1, 2, 699, 700, 701, 1499, 1500] {
            let mut tail = Tail::open(path.clone(), from as u64, end).await.unwrap();
            assert!(rest(&mut tail, end).await == lines[from..].concat(), "from {from}");
        }
    }

    #[tokio::test]
    async fn nothing_is_read_before_it_is_committed() {
        let (_folder, path, lines) = journal();
        for from in [0, 10, 20, 701, 900] {
            let mut tail = Tail::open(path.clone(), from as u64, committed(&lines[..20])).await.unwrap();
            let mut read = String::new();
            for until in [20, 21, 700, 701, 702, 1500] {
                read += &rest(&mut tail, committed(&lines[..until])).await;
                assert!(read == lines[from.min(until)..until].concat(), "from {from} until {until}");
            }
        }
    }

    #[tokio::test]
    async fn a_journal_that_lost_bytes_is_an_error() {
        let (_folder, path, lines) = journal();
        let more = Committed { bytes: committed(&lines).bytes + 1, ..committed(&lines) };
        let mut tail = Tail::open(path, 1500, committed(&lines)).await.unwrap();
        assert!(tail.is_behind(more));
        assert_eq!(tail.read(more).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
