//! The run folder: where everything of a run is kept.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;

use super::event::PassId;

/// A file or folder of a run could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct FolderError {
    /// Which.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// A run folder, readable by its owner only: outputs hold the documents' contents.
#[derive(Debug, Clone)]
pub struct RunFolder {
    path: PathBuf,
    name: String,
}

impl RunFolder {
    /// Makes the folder of a run that starts `at`, under `runs`.
    pub fn create(runs: &Path, protocol: &str, at: Timestamp) -> Result<Self, FolderError> {
        fs::create_dir_all(runs).map_err(|source| FolderError { path: runs.to_owned(), source })?;
        let stem = format!("{}-{protocol}", at.strftime("%Y-%m-%dT%H-%M-%SZ"));
        let mut name = stem.clone();
        // Two runs of one protocol can start in the same second.
        for number in 2.. {
            let path = runs.join(&name);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    let folder = Self { path, name };
                    folder.make("outputs")?;
                    sync_names(runs)?;
                    return Ok(folder);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 100 => {
                    name = format!("{stem}-{number}");
                }
                Err(source) => return Err(FolderError { path, source }),
            }
        }
        Err(FolderError { path: runs.join(stem), source: io::ErrorKind::AlreadyExists.into() })
    }

    /// An existing run folder.
    pub fn open(path: &Path) -> Self {
        // "." has a name too.
        let whole = fs::canonicalize(path);
        let name =
            whole.as_deref().unwrap_or(path).file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self { path: path.to_owned(), name }
    }

    fn make(&self, name: &str) -> Result<(), FolderError> {
        let path = self.path.join(name);
        DirBuilder::new().mode(0o700).create(&path).map_err(|source| FolderError { path, source })?;
        sync_names(&self.path)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its name, which is the run's.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `journal.jsonl`.
    pub fn journal(&self) -> PathBuf {
        self.path.join("journal.jsonl")
    }

    /// `protocol.toml`.
    pub fn protocol(&self) -> PathBuf {
        self.path.join("protocol.toml")
    }

    /// `results.csv`.
    pub fn results(&self) -> PathBuf {
        self.path.join("results.csv")
    }

    /// `aforo.log`.
    pub fn log(&self) -> PathBuf {
        self.path.join("aforo.log")
    }

    /// `runner.lock`.
    pub fn lock(&self) -> PathBuf {
        self.path.join("runner.lock")
    }

    /// `outputs/step-02-pass-1.jsonl`; the baseline is step 1.
    pub fn outputs(&self, id: PassId) -> PathBuf {
        self.path.join("outputs").join(outputs_name(id))
    }

    /// Passes that have an outputs file, in no order. A file of another name is nobody's.
    pub fn passes_with_outputs(&self) -> Result<Vec<PassId>, FolderError> {
        let path = self.path.join("outputs");
        let names = match fs::read_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            names => names.and_then(|entries| {
                entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()
            }),
        };
        let names = names.map_err(|source| FolderError { path, source })?;
        Ok(names.iter().filter_map(|name| pass_of(name.to_str()?)).collect())
    }

    /// Writes a whole file so that a reader sees the old one or the new one, never a part.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), FolderError> {
        write_atomically(&self.path.join(name), bytes)
    }

    /// Writes a value as indented JSON.
    pub fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), FolderError> {
        let path = self.path.join(name);
        let mut json = serde_json::to_vec_pretty(value)
            .map_err(|error| FolderError { path: path.clone(), source: error.into() })?;
        json.push(b'\n');
        write_atomically(&path, &json)
    }
}

fn outputs_name(id: PassId) -> String {
    format!("step-{:02}-pass-{}.jsonl", id.step + 1, id.pass)
}

/// The pass whose outputs file has this name.
fn pass_of(name: &str) -> Option<PassId> {
    let (step, pass) = name.strip_prefix("step-")?.strip_suffix(".jsonl")?.split_once("-pass-")?;
    let id = PassId { step: step.parse::<usize>().ok()?.checked_sub(1)?, pass: pass.parse().ok()? };
    // Numbers can be written in more than one way.
    (outputs_name(id) == name).then_some(id)
}

/// Opens a file that is only ever appended to. Its name is on the disk when this returns.
pub fn append_to(path: &Path) -> Result<File, FolderError> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
        .map_err(|source| FolderError { path: path.to_owned(), source })?;
    sync_names(folder_of(path))?;
    Ok(file)
}

/// Cuts the end of a file off. It is gone from the disk too when this returns.
pub fn cut(path: &Path, length: u64) -> Result<(), FolderError> {
    let cut = OpenOptions::new().write(true).open(path).and_then(|file| {
        file.set_len(length)?;
        file.sync_all()
    });
    cut.map_err(|source| FolderError { path: path.to_owned(), source })
}

/// Writes beside the file, syncs, and renames over it. When that fails nothing is left beside it.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), FolderError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let written = (|| {
        let mut file =
            OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(bytes)?;
        file.sync_data()?;
        fs::rename(&beside, path)
    })();
    if let Err(source) = written {
        // What counts is why it could not be written, not whether the attempt could be removed.
        let _ = fs::remove_file(&beside);
        return Err(FolderError { path: path.to_owned(), source });
    }
    sync_names(folder_of(path))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Brings a folder's names to the disk: without it a power loss can take a file whose contents were synced. Some
/// network file systems cannot, and keep names in order by themselves.
fn sync_names(folder: &Path) -> Result<(), FolderError> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    match synced {
        Err(source) if !matches!(source.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Err(FolderError { path: folder.to_owned(), source })
        }
        _ => Ok(()),
    }
}
