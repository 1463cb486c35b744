//! One runner per run folder.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::folder::{FolderError, RunFolder};

/// A run folder cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// A runner that lives has it.
    #[error("a runner{} holds this run already: look at it with aforo attach", pid.map_or_else(String::new, |pid| format!(" (pid {pid})")))]
    Held {
        /// The runner's process; `None` when the file does not say.
        pid: Option<u32>,
    },
    /// The lock's file.
    #[error(transparent)]
    Folder(#[from] FolderError),
}

/// Holds a run folder for this process, until it is dropped or the process ends, however it ends.
///
/// The lock belongs to the open file, which processes started from here do not inherit: the standard library opens
/// every file close-on-exec. The file itself stays, for a lock on a file that was removed would keep nobody out.
#[derive(Debug)]
pub struct RunLock {
    _file: File,
}

impl RunLock {
    /// Takes the folder, without waiting.
    pub fn take(folder: &RunFolder) -> Result<Self, LockError> {
        let path = folder.lock();
        let fail = |source| FolderError { path: path.clone(), source };
        let mut options = OpenOptions::new();
        // Not truncated: it may be another runner's.
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path).map_err(fail)?;
        while !try_lock(&file, FlockOperation::NonBlockingLockExclusive).map_err(fail)? {
            if !try_lock(&file, FlockOperation::NonBlockingLockShared).map_err(fail)? {
                return Err(LockError::Held { pid: holder(&mut file) });
            }
            // Somebody only looks whether there is a runner.
            flock(&file, FlockOperation::Unlock).map_err(|errno| fail(errno.into()))?;
            std::thread::yield_now();
        }
        if let Err(error) = name_holder(&mut file) {
            // The lock holds all the same; only the message to a second runner says less.
            tracing::warn!(%error, "runner.lock does not name this process");
        }
        Ok(Self { _file: file })
    }
}

/// Whether a runner that lives has this folder. It may go away at any time.
///
/// Asked of the lock and not of the socket: a copy of the folder names the same socket, and the socket's file may be
/// cleaned away under a runner that lives.
pub fn is_held(folder: &RunFolder) -> bool {
    // A file that cannot be opened, or a file system without locks, has no holder: no runner would have begun.
    let Ok(file) = File::open(folder.lock()) else { return false };
    // Shared, so that those who look do not see each other.
    matches!(try_lock(&file, FlockOperation::NonBlockingLockShared), Ok(false))
}

/// Waits until no runner has this folder.
pub fn wait_until_free(folder: &RunFolder) -> Result<(), FolderError> {
    let path = folder.lock();
    let fail = |source| FolderError { path: path.clone(), source };
    let file = File::open(&path).map_err(fail)?;
    rustix::io::retry_on_intr(|| flock(&file, FlockOperation::LockShared))
        .map_err(|errno| fail(refused(errno)))
}

/// The process that has a folder, as far as its lock says.
pub fn held_by(folder: &RunFolder) -> Option<u32> {
    holder(&mut File::open(folder.lock()).ok()?)
}

/// False when somebody else's lock is in the way.
fn try_lock(file: &File, operation: FlockOperation) -> io::Result<bool> {
    match flock(file, operation) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(refused(errno)),
    }
}

fn name_holder(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn refused(errno: Errno) -> io::Error {
    if matches!(errno, Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) {
        let text = format!(
            "this file system keeps no locks ({errno}), so that nothing would keep two runners apart: put the runs on another"
        );
        return io::Error::new(io::ErrorKind::Unsupported, text);
    }
    errno.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_without_locks_is_named_as_the_reason() {
        for errno in [Errno::NOLCK, Errno::OPNOTSUPP, Errno::NOSYS] {
            let said = refused(errno).to_string();
            assert!(said.contains("keeps no locks") && said.contains("on another"), "{said}");
        }
        assert_eq!(refused(Errno::IO).raw_os_error(), Some(Errno::IO.raw_os_error()));
    }

    #[test]
    fn the_holder_is_named_where_it_is_known() {
        let said = |pid| LockError::Held { pid }.to_string();
        assert_eq!(said(Some(7)), "a runner (pid 7) holds this run already: look at it with aforo attach");
        assert_eq!(said(None), "a runner holds this run already: look at it with aforo attach");
    }
}
