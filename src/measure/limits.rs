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

/// Raises the soft limit of open files as far as `concurrency` connections need, or says what is missing. Where the
/// hard limit allows it, there is room for the other end of each connection as well: the simulated engine is part of
/// this process.
pub fn raise_open_files(concurrency: u32) -> Result<(), OpenFilesError> {
    let needed = u64::from(concurrency) + OTHER_FILES;
    let wanted = needed + u64::from(concurrency);
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let refuse = |allowed| OpenFilesError { concurrency, needed, allowed };
    let current = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    if current < needed {
        return Err(refuse(current));
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: limit.maximum })
        .map_err(|_| refuse(limit.current.unwrap_or_default()))
}
