//! What the engine itself saw of each stream, to check a client's times against.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// One streamed response. Times are nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamRecord {
    /// The client's `x-request-id` header.
    pub request_id: Option<String>,
    /// When the request's body had been read.
    pub arrived_ns: u64,
    /// When the first event with text was handed to the connection; `None` when there was none.
    pub first_content_ns: Option<u64>,
    /// When the last event with text was handed to the connection.
    pub last_content_ns: Option<u64>,
    /// Events with text.
    pub content_events: u32,
    /// Tokens in them.
    pub content_tokens: u32,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
}

/// Nanoseconds of `CLOCK_MONOTONIC`, which is the same for all processes of a machine.
pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

#[derive(Debug)]
struct Kept {
    records: VecDeque<StreamRecord>,
    limit: usize,
}

/// The last records of an engine, once it was asked to keep them.
#[derive(Debug, Clone, Default)]
pub(super) struct Recorder(Arc<Mutex<Option<Kept>>>);

impl Recorder {
    fn with<T>(&self, action: impl FnOnce(&mut Option<Kept>) -> T) -> T {
        action(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps the last `limit` records from now on; what was kept is dropped.
    pub(super) fn start(&self, limit: usize) {
        self.with(|kept| *kept = Some(Kept { records: VecDeque::new(), limit }));
    }

    /// What was kept, oldest first; `None` before [`Self::start`].
    pub(super) fn read(&self) -> Option<Vec<StreamRecord>> {
        self.with(|kept| kept.as_ref().map(|kept| kept.records.iter().cloned().collect()))
    }

    /// Keeps a record, if asked to.
    pub(super) fn keep(&self, record: StreamRecord) {
        self.with(|kept| {
            if let Some(kept) = kept {
                kept.records.push_back(record);
                if kept.records.len() > kept.limit {
                    kept.records.pop_front();
                }
            }
        });
    }
}

/// The record of a stream that is being sent; kept when it is dropped.
pub(super) struct Stamps {
    recorder: Recorder,
    record: StreamRecord,
}

impl Stamps {
    /// Starts a record.
    pub(super) fn new(
        recorder: Recorder,
        request_id: Option<String>,
        arrived_ns: u64,
        prompt_tokens: u32,
    ) -> Self {
        let record = StreamRecord {
            request_id,
            arrived_ns,
            first_content_ns: None,
            last_content_ns: None,
            content_events: 0,
            content_tokens: 0,
            prompt_tokens,
        };
        Self { recorder, record }
    }

    /// An event with so many tokens of text goes to the connection now.
    pub(super) fn content(&mut self, tokens: u32) {
        let now = now_ns();
        self.record.first_content_ns.get_or_insert(now);
        self.record.last_content_ns = Some(now);
        self.record.content_events += 1;
        self.record.content_tokens += tokens;
    }
}

impl Drop for Stamps {
    fn drop(&mut self) {
        self.recorder.keep(self.record.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_records_are_kept_and_only_on_request() {
        let recorder = Recorder::default();
        let stamp = |id: &str| drop(Stamps::new(recorder.clone(), Some(id.to_owned()), 1, 2));
        stamp("a");
        assert_eq!(recorder.read(), None);
        recorder.start(2);
        for id in ["b", "c", "d"] {
            stamp(id);
        }
        let ids: Vec<_> = recorder.read().unwrap().into_iter().filter_map(|r| r.request_id).collect();
        assert_eq!(ids, ["c", "d"]);
    }
}
