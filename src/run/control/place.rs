//! Where the control socket is, and who may reach it.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::run::folder::{FolderError, RunFolder};

/// Name in the run folder of the file that says where the socket is.
const RUNNER: &str = "runner.json";

/// Longest path of a socket in bytes, without the zero that ends it.
const LONGEST_PATH: usize = 107;

/// The runner cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The folder for sockets could be used by somebody else.
    #[error("{} {why}", path.display())]
    Unsafe {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it and what to do.
        why: String,
    },
    /// The system refused.
    #[error("the socket that viewers attach to cannot be made: {}: {source}; set TMPDIR to a folder of your own", path.display())]
    System {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// `runner.json` could not be written.
    #[error(transparent)]
    Folder(#[from] FolderError),
}

/// What `runner.json` says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Runner {
    /// Process id of the runner.
    pub(super) pid: u32,
    /// Path of its socket.
    pub(super) socket: PathBuf,
}

impl Runner {
    /// Reads it; an error of kind `NotFound` when no runner left one.
    pub(super) fn read(run_folder: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(Self::path(run_folder))?)?)
    }

    /// Where it is.
    pub(super) fn path(run_folder: &Path) -> PathBuf {
        run_folder.join(RUNNER)
    }
}

/// A control socket that is listened to. Dropped, it and `runner.json` are gone.
#[derive(Debug)]
pub struct Listener {
    pub(super) socket: UnixListener,
    pub(super) files: Files,
}

impl Listener {
    /// Listens for viewers of this run. The caller holds the run's lock: what another runner left is replaced.
    pub fn bind(folder: &RunFolder) -> Result<Self, ListenError> {
        let (temp, usual) = (std::env::temp_dir(), Path::new("/tmp"));
        let bound = Self::bind_under(&temp, folder);
        if let Err(ListenError::System { source, .. }) = &bound
            && matches!(source.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
            && temp != usual
        {
            // A `TMPDIR` that cannot be written must not keep a run from being taken.
            return Self::bind_under(usual, folder);
        }
        bound
    }

    fn bind_under(temp: &Path, folder: &RunFolder) -> Result<Self, ListenError> {
        let run = fs::canonicalize(folder.path())
            .map_err(|source| ListenError::System { path: folder.path().to_owned(), source })?;
        let path = socket_path(temp, &run);
        let fail = |source| ListenError::System { path: path.clone(), source };
        if let Some(sockets) = path.parent() {
            private(sockets)?;
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
            _ => {}
        }
        let socket = UnixListener::bind(&path).map_err(fail)?;
        let files = Files { socket: path.clone(), runner: Runner::path(&run) };
        // Until here the folder alone keeps others out.
        fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(fail)?;
        socket.set_nonblocking(true).map_err(fail)?;
        folder.write_json(RUNNER, &Runner { pid: std::process::id(), socket: path })?;
        Ok(Self { socket, files })
    }
}

/// The files of a socket, removed with it.
#[derive(Debug)]
pub(super) struct Files {
    socket: PathBuf,
    runner: PathBuf,
}

impl Drop for Files {
    fn drop(&mut self) {
        for path in [&self.runner, &self.socket] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(path = %path.display(), %error, "not removed");
                }
                _ => {}
            }
        }
    }
}

/// Path of a run's socket: short whatever the run folder's is. Not under `$XDG_RUNTIME_DIR`, which is deleted when
/// the user's last session ends: just when somebody will want to come back.
fn socket_path(temp: &Path, run: &Path) -> PathBuf {
    let digest = Sha256::digest(run.as_os_str().as_bytes());
    let name = digest.iter().take(8).fold(0_u64, |name, byte| name << 8 | u64::from(*byte));
    let file = format!("aforo-{}/{name:016x}.sock", geteuid().as_raw());
    let path = temp.join(&file);
    // `runner.json` can only name it when it is text, and must name it for any working folder. A `TMPDIR` that was
    // never made must not keep a run from being taken.
    let fits = path.as_os_str().len() <= LONGEST_PATH && path.is_absolute() && path.to_str().is_some();
    if fits && temp.is_dir() { path } else { Path::new("/tmp").join(file) }
}

/// Makes the folder of this user's sockets, or makes sure that nobody else can use the one that is there.
fn private(path: &Path) -> Result<(), ListenError> {
    let system = |source| ListenError::System { path: path.to_owned(), source };
    let refuse = |why: String| Err(ListenError::Unsafe { path: path.to_owned(), why });
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(system(error)),
        _ => {}
    }
    let found = fs::symlink_metadata(path).map_err(system)?;
    let (me, owner) = (geteuid().as_raw(), found.uid());
    if found.is_symlink() {
        return refuse("is a symbolic link, where the socket's own folder must be: remove it".to_owned());
    }
    if !found.is_dir() {
        return refuse("is no folder, where the socket's own folder must be: remove it".to_owned());
    }
    if owner != me {
        return refuse(format!(
            "belongs to user {owner}, not to you ({me}): somebody took its place; set TMPDIR to a folder of your own"
        ));
    }
    let mode = found.mode() & 0o777;
    if mode & 0o077 != 0 {
        return refuse(format!("may be entered by others (mode {mode:03o}): chmod 700 it"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn why(path: &Path) -> String {
        private(path).unwrap_err().to_string()
    }

    #[test]
    fn a_socket_has_a_short_path_whatever_the_folders_are_called() {
        let folder = tempfile::tempdir().unwrap();
        let (short, long) = (folder.path(), folder.path().join("t".repeat(100)));
        fs::create_dir(&long).unwrap();
        let run = PathBuf::from(format!("/{}", "r/".repeat(200)));
        assert!(socket_path(short, &run).starts_with(short));
        assert!(!socket_path(&long, &run).starts_with(short));
        assert!(!socket_path(&short.join("never made"), &run).starts_with(short));
        assert!(socket_path(Path::new("relative"), &run).starts_with("/tmp"));
        assert!(socket_path(&long, &run).as_os_str().len() <= LONGEST_PATH);
        assert_ne!(socket_path(short, &run), socket_path(short, Path::new("/r")));
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn only_its_user_can_reach_a_socket() {
        let temp = tempfile::tempdir().unwrap();
        let run = tempfile::tempdir().unwrap();
        let listener = Listener::bind_under(temp.path(), &RunFolder::open(run.path())).unwrap();
        let socket = Runner::read(run.path()).unwrap().socket;
        assert_eq!(socket.parent().and_then(Path::parent), Some(temp.path()));
        assert_eq!((mode(&socket), mode(socket.parent().unwrap())), (0o600, 0o700));
        assert_eq!(mode(&Runner::path(run.path())), 0o600);
        drop(listener);
        assert!(!socket.exists() && !Runner::path(run.path()).exists());
    }

    #[test]
    fn nothing_is_left_where_nobody_can_listen() {
        let temp = tempfile::tempdir().unwrap();
        let run = tempfile::tempdir().unwrap();
        let sockets = temp.path().join(format!("aforo-{}", geteuid().as_raw()));
        fs::create_dir(&sockets).unwrap();
        fs::set_permissions(&sockets, Permissions::from_mode(0o755)).unwrap();
        let error = Listener::bind_under(temp.path(), &RunFolder::open(run.path())).unwrap_err();
        assert!(matches!(&error, ListenError::Unsafe { path, .. } if *path == sockets), "{error}");
        assert!(error.to_string().contains("chmod 700"), "{error}");
        assert_eq!(fs::read_dir(&sockets).unwrap().count() + fs::read_dir(run.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_others_could_use_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        private(&at("new")).unwrap();
        assert_eq!(mode(&at("new")), 0o700);
        private(&at("new")).unwrap();

        fs::set_permissions(at("new"), Permissions::from_mode(0o710)).unwrap();
        assert!(why(&at("new")).contains("mode 710"), "{}", why(&at("new")));

        fs::create_dir(at("other")).unwrap();
        symlink(at("other"), at("link")).unwrap();
        assert!(why(&at("link")).contains("symbolic link"));

        fs::write(at("file"), "").unwrap();
        assert!(why(&at("file")).contains("no folder"));
    }
}
