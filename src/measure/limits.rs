//! The open-file limit: each request in flight holds a connection.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that aforo needs besides its connections.
const OTHER_FILES: u64 = 64;

/// The open-file limit is too low and cannot be raised far enough.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "concurrency {concurrency} needs {needed} open files, but this process may have at most {allowed}; \
     raise the limit (ulimit -Hn {needed}, or LimitNOFILE= of the service) or lower the concurrency"
)]
pub struct OpenFilesError {
    concurrency: u32,
    needed: u64,
    allowed: u64,
}

/// Raises the soft limit of open files as far as `concurrency` connections need, or says what is missing.
pub fn raise_open_files(concurrency: u32) -> Result<(), OpenFilesError> {
    let needed = u64::from(concurrency) + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let refuse = |allowed| OpenFilesError { concurrency, needed, allowed };
    if let Some(maximum) = limit.maximum
        && maximum < needed
    {
        return Err(refuse(maximum));
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: limit.maximum })
        .map_err(|_| refuse(limit.current.unwrap_or_default()))
}
