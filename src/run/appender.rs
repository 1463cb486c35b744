//! A file that only grows, and whose end is always known: what is on the disk, and what still has to get there.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::folder::{FolderError, append_to};

/// A file that only grows. Lines stay in memory until the disk has acknowledged them, so that no failure loses one.
#[derive(Debug)]
pub(super) struct Appender {
    path: PathBuf,
    /// `None` until there is something to write.
    file: Option<File>,
    /// Length that the disk has acknowledged.
    synced: u64,
    /// What follows it.
    tail: Vec<u8>,
    /// True while the file may hold something after `synced` that could not be taken back.
    untidy: bool,
}

impl Appender {
    /// The file of this name, which is opened when there is something to write.
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, file: None, synced: 0, tail: Vec::new(), untidy: false }
    }

    /// The file of this name, opened now; refused when it does not have that length.
    pub(super) fn open(path: PathBuf, length: u64) -> Result<Self, FolderError> {
        let (file, synced) = opened(&path)?;
        let appender = Self { file: Some(file), synced, ..Self::new(path) };
        if synced == length {
            Ok(appender)
        } else {
            let text = format!("{synced} bytes long, where {length} were read");
            Err(appender.error(io::Error::other(text)))
        }
    }

    /// Bytes that the disk has acknowledged.
    pub(super) fn synced(&self) -> u64 {
        self.synced
    }

    /// Takes one line; nothing is written yet. On an error it is as if it had not been handed in.
    pub(super) fn push(&mut self, line: &impl Serialize) -> serde_json::Result<()> {
        let before = self.tail.len();
        let pushed = serde_json::to_writer(&mut self.tail, line);
        match pushed {
            Ok(()) => self.tail.push(b'\n'),
            Err(_) => self.tail.truncate(before),
        }
        pushed
    }

    /// Brings everything to the disk, or leaves the file as it was.
    ///
    /// After a failed sync the system may have dropped what it had taken and call the next sync a success: nothing
    /// counts as written before a sync of the very bytes has succeeded, and all the others are written again.
    pub(super) fn sync(&mut self) -> Result<(), FolderError> {
        if self.tail.is_empty() {
            return Ok(());
        }
        self.write().inspect_err(|_| {
            // A torn line must not stay in front of later ones, and readers should not meet it meanwhile. When the
            // disk does not even allow this, the next attempt begins with it.
            self.untidy = self.roll_back().is_err();
        })
    }

    fn write(&mut self) -> Result<(), FolderError> {
        if self.untidy {
            self.roll_back().map_err(|source| self.error(source))?;
            self.untidy = false;
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let (file, synced) = opened(&self.path)?;
                self.synced = synced;
                none.insert(file)
            }
        };
        let written = file.write_all(&self.tail).and_then(|()| file.sync_data());
        written.map_err(|source| self.error(source))?;
        self.synced += self.tail.len() as u64;
        // Not cleared: what a long trouble piled up is given back.
        self.tail = Vec::new();
        Ok(())
    }

    fn roll_back(&self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), |file| file.set_len(self.synced))
    }

    fn error(&self, source: io::Error) -> FolderError {
        FolderError { path: self.path.clone(), source }
    }
}

/// The file and its length.
fn opened(path: &Path) -> Result<(File, u64), FolderError> {
    let file = append_to(path)?;
    let length = file.metadata().map_err(|source| FolderError { path: path.to_owned(), source })?.len();
    Ok((file, length))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn appender() -> (tempfile::TempDir, Appender) {
        let folder = tempfile::tempdir().unwrap();
        let appender = Appender::open(folder.path().join("lines"), 0).unwrap();
        (folder, appender)
    }

    fn text(appender: &Appender) -> String {
        fs::read_to_string(&appender.path).unwrap()
    }

    #[test]
    fn nothing_is_in_the_file_before_a_sync_and_everything_once_after_it() {
        let (_folder, mut appender) = appender();
        appender.push(&1).unwrap();
        assert_eq!((text(&appender).as_str(), appender.synced()), ("", 0));
        appender.sync().unwrap();
        appender.sync().unwrap();
        appender.push(&2).unwrap();
        appender.sync().unwrap();
        assert_eq!((text(&appender).as_str(), appender.synced()), ("1\n2\n", 4));
    }

    /// `/dev/null` takes every write, keeps nothing, and cannot be synced: like a disk that fails while the system
    /// still holds what was written.
    #[test]
    fn what_a_failed_sync_may_have_dropped_is_written_again() {
        let (_folder, mut appender) = appender();
        appender.push(&1).unwrap();
        appender.sync().unwrap();
        let null = fs::OpenOptions::new().write(true).open("/dev/null").unwrap();
        let real = appender.file.replace(null);
        appender.push(&2).unwrap();
        appender.sync().unwrap_err();
        assert!(appender.untidy, "it cannot be rolled back either");
        appender.sync().unwrap_err();
        assert_eq!(appender.synced(), 2);
        appender.file = real;
        // What such a disk may have kept of it.
        fs::write(&appender.path, "1\n2").unwrap();
        appender.push(&3).unwrap();
        appender.sync().unwrap();
        assert_eq!((text(&appender).as_str(), appender.synced()), ("1\n2\n3\n", 6));
    }

    #[test]
    fn a_file_that_cannot_be_made_yet_loses_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut appender = Appender::new(folder.path().join("later").join("lines"));
        appender.push(&1).unwrap();
        appender.sync().unwrap_err();
        fs::create_dir(folder.path().join("later")).unwrap();
        appender.sync().unwrap();
        assert_eq!(text(&appender), "1\n");
    }

    #[test]
    fn a_file_that_changed_since_it_was_read_is_refused() {
        let (_folder, mut appender) = appender();
        appender.push(&1).unwrap();
        appender.sync().unwrap();
        let said = Appender::open(appender.path.clone(), 4).unwrap_err().to_string();
        assert!(said.contains("2 bytes long, where 4 were read"), "{said}");
    }
}
