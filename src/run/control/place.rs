//! Where a runner listens: a socket with a short path, whatever the length of the run folder's.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::run::folder::{FolderError, RunFolder};

/// Longest path that the address of a Unix socket holds, in bytes.
const LONGEST_PATH: usize = 107;

/// Viewers cannot be listened for.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The folder of sockets is not this user's alone.
    #[error("{}: {why}; remove it, so that aforo can make one that is yours alone", path.display())]
    NotPrivate {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The system refuses.
    #[error("no socket for viewers at {}: {source}", path.display())]
    System {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Its path cannot be left in the run folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
}

/// What leads to a runner: `runner.json` in its run folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pointer {
    /// The runner's process.
    pub(super) pid: u32,
    /// Path of its socket.
    pub(super) socket: PathBuf,
}

impl Pointer {
    pub(super) fn read(run: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(run.join(FILE)).ok()?).ok()
    }
}

const FILE: &str = "runner.json";

/// A socket that listens. Whoever makes one holds the run's lock.
#[derive(Debug)]
pub struct Listener {
    pub(super) socket: UnixListener,
    /// Removes what leads to it when it is dropped.
    pub(super) place: Place,
}

/// The files of a listener.
#[derive(Debug)]
pub(super) struct Place {
    socket: PathBuf,
    pointer: PathBuf,
}

impl Listener {
    /// Listens for the viewers of a run, and leaves the way to it in the run folder.
    pub fn bind(folder: &RunFolder) -> Result<Self, ListenError> {
        let path = socket_path(folder)?;
        let system = |source| ListenError::System { path: path.clone(), source };
        match fs::remove_file(&path) {
            // The lock is held, so whoever left it is dead.
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(system(error)),
        }
        let socket = UnixListener::bind(&path).map_err(system)?;
        let place = Place { socket: path.clone(), pointer: folder.path().join(FILE) };
        // Nobody else can come this far: the folder is private since before the socket was there.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(system)?;
        socket.set_nonblocking(true).map_err(system)?;
        folder.write_json(FILE, &Pointer { pid: std::process::id(), socket: path.clone() })?;
        Ok(Self { socket, place })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What cannot be removed leads to nobody, which is noticed when it is followed.
        let _ = fs::remove_file(&self.pointer);
        let _ = fs::remove_file(&self.socket);
    }
}

/// A path that is short, the same for the same run, and in a folder that is the user's alone.
fn socket_path(folder: &RunFolder) -> Result<PathBuf, ListenError> {
    let run = fs::canonicalize(folder.path())
        .map_err(|source| ListenError::System { path: folder.path().to_owned(), source })?;
    let digest = Sha256::digest(run.as_os_str().as_bytes());
    let name = digest.iter().take(8).fold(String::new(), |name, byte| format!("{name}{byte:02x}"));
    let uid = rustix::process::geteuid().as_raw();
    // Not the user's runtime folder: it goes with the user's last session, which is when the way back is needed.
    let in_temporary =
        |temporary: PathBuf| temporary.join(format!("aforo-{uid}")).join(format!("{name}.sock"));
    let mut path = in_temporary(std::env::temp_dir());
    if path.as_os_str().len() > LONGEST_PATH {
        path = in_temporary(PathBuf::from("/tmp"));
    }
    if let Some(sockets) = path.parent() {
        make_private(sockets, uid)?;
    }
    Ok(path)
}

/// Makes the folder of sockets, or makes sure that one that is there is the user's alone.
fn make_private(path: &Path, uid: u32) -> Result<(), ListenError> {
    let system = |source| ListenError::System { path: path.to_owned(), source };
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(system(error)),
    }
    let found = fs::symlink_metadata(path).map_err(system)?;
    let why = if !found.is_dir() {
        "it is not a folder"
    } else if found.uid() != uid {
        "it belongs to another user"
    } else if found.mode() & 0o077 != 0 {
        "others may enter it"
    } else {
        return Ok(());
    };
    Err(ListenError::NotPrivate { path: path.to_owned(), why })
}
