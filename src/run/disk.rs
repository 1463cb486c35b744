//! Whether the disk takes what is recorded, and what a person is told when it does not.

use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::folder::FolderError;

/// Time after which a disk that neither takes a write nor refuses it is in trouble.
const HANGS: Duration = Duration::from_secs(10);

/// Whether the disk takes what is recorded.
#[derive(Debug)]
pub(super) struct Disk {
    /// When the attempt that goes on began.
    attempt: Mutex<Option<Instant>>,
    trouble: watch::Sender<Option<String>>,
}

impl Disk {
    pub(super) fn new() -> Self {
        Self { attempt: Mutex::new(None), trouble: watch::Sender::new(None) }
    }

    /// One sentence while it takes nothing.
    pub(super) fn trouble(&self) -> watch::Receiver<Option<String>> {
        self.trouble.subscribe()
    }

    pub(super) fn in_trouble(&self) -> bool {
        self.trouble.borrow().is_some()
    }

    /// An attempt to write begins.
    pub(super) fn begin(&self) {
        *self.attempt() = Some(Instant::now());
    }

    /// An attempt ended, perhaps with an error.
    pub(super) fn end(&self, error: Option<&FolderError>) {
        // Before the trouble is told, so that nobody tells of this attempt any more.
        *self.attempt() = None;
        self.tell(error.map(sentence));
    }

    /// Tells of an attempt that hangs. Asked by whoever hands something over or waits: the thread that writes cannot.
    pub(super) fn look(&self, now: Instant) {
        let attempt = self.attempt();
        if attempt.is_some_and(|begun| now.duration_since(begun) >= HANGS) && !self.in_trouble() {
            let seconds = HANGS.as_secs();
            self.tell(Some(format!("the disk of the run folder has not taken a write for {seconds} s")));
        }
    }

    fn attempt(&self) -> MutexGuard<'_, Option<Instant>> {
        self.attempt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, text: Option<String>) {
        self.trouble.send_if_modified(|told| {
            let is_news = *told != text;
            *told = text;
            is_news
        });
    }
}

/// Which file, what the system said, how much is free, and what to do.
fn sentence(error: &FolderError) -> String {
    let FolderError { path, source } = error;
    let advice = match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free space on it",
        // A limit that is raised in a shell is not this process's.
        io::ErrorKind::FileTooLarge => &format!(
            "raise its limit on the size of files: prlimit --pid {} --fsize=unlimited",
            std::process::id()
        ),
        _ => "make it writable again",
    };
    let free = free(path).map_or_else(String::new, |free| format!(" ({free} free on its file system)"));
    format!("{} cannot be written: {source}{free}: {advice}", path.display())
}

/// Space that is left for the file, as text. `None` when the system does not say.
fn free(path: &Path) -> Option<String> {
    let of = rustix::fs::statvfs(path.parent()?).ok()?;
    let bytes = of.f_bavail.saturating_mul(of.f_frsize);
    Some(match bytes {
        0..1_000_000 => format!("{} kB", bytes / 1_000),
        1_000_000..10_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{} GB", bytes / 1_000_000_000),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: io::ErrorKind) -> FolderError {
        FolderError { path: "/tmp/journal.jsonl".into(), source: kind.into() }
    }

    #[test]
    fn trouble_is_told_once_and_taken_back() {
        let disk = Disk::new();
        let mut told = disk.trouble();
        for _ in 0..2 {
            disk.begin();
            disk.end(Some(&error(io::ErrorKind::PermissionDenied)));
        }
        let text = told.borrow_and_update().clone().unwrap();
        assert!(text.starts_with("/tmp/journal.jsonl cannot be written: "), "{text}");
        assert!(
            text.contains(" free on its file system)") && text.ends_with("make it writable again"),
            "{text}"
        );
        disk.begin();
        disk.end(None);
        assert_eq!(*told.borrow_and_update(), None);
        disk.end(None);
        assert!(!told.has_changed().unwrap());
    }

    #[test]
    fn the_advice_is_about_what_the_system_said() {
        let said = |kind| sentence(&error(kind));
        assert!(said(io::ErrorKind::StorageFull).contains("free space on it"));
        assert!(said(io::ErrorKind::QuotaExceeded).contains("free space on it"));
        assert!(said(io::ErrorKind::FileTooLarge).contains("prlimit --pid"));
        assert!(said(io::ErrorKind::ReadOnlyFilesystem).contains("make it writable again"));
    }

    #[test]
    fn a_disk_that_hangs_is_in_trouble_until_it_takes_something() {
        let disk = Disk::new();
        let now = Instant::now;
        disk.look(now() + HANGS);
        assert!(!disk.in_trouble(), "nothing was to be written");
        disk.begin();
        disk.look(now());
        assert!(!disk.in_trouble(), "it has only begun");
        disk.look(now() + HANGS);
        let text = disk.trouble().borrow().clone().unwrap();
        assert!(text.contains("has not taken a write for 10 s"), "{text}");
        disk.end(None);
        disk.look(now() + HANGS);
        assert!(!disk.in_trouble());
    }
}
