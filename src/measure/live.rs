//! Counts that a viewer may look at while a phase runs. They are not stored; the journal is.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

/// Shared counters of the running phase.
#[derive(Debug, Default)]
pub struct Live {
    in_flight: AtomicU32,
    in_flight_peak: AtomicU32,
    sent: AtomicU64,
    ended: AtomicU64,
}

/// A look at [`Live`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveCounts {
    /// Requests handed to a connection and not ended.
    pub in_flight: u32,
    /// The highest `in_flight` of the phase.
    pub in_flight_peak: u32,
    /// Requests begun in the phase.
    pub sent: u64,
    /// Requests ended in the phase, whatever their outcome.
    pub ended: u64,
}

impl Live {
    /// The counts now.
    pub fn counts(&self) -> LiveCounts {
        LiveCounts {
            in_flight: self.in_flight.load(Relaxed),
            in_flight_peak: self.in_flight_peak.load(Relaxed),
            sent: self.sent.load(Relaxed),
            ended: self.ended.load(Relaxed),
        }
    }

    /// Back to zero, for the next phase.
    pub(super) fn reset(&self) {
        self.in_flight.store(0, Relaxed);
        self.in_flight_peak.store(0, Relaxed);
        self.sent.store(0, Relaxed);
        self.ended.store(0, Relaxed);
    }

    pub(super) fn begin(&self) {
        let now = self.in_flight.fetch_add(1, Relaxed) + 1;
        self.in_flight_peak.fetch_max(now, Relaxed);
        self.sent.fetch_add(1, Relaxed);
    }

    pub(super) fn end(&self) {
        self.in_flight.fetch_sub(1, Relaxed);
        self.ended.fetch_add(1, Relaxed);
    }
}
