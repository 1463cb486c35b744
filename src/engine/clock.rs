//! The one clock that every measured time comes from.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A moment on the monotonic clock of this machine, in nanoseconds. Comparable with stamps of other processes of
/// the same boot, meaningless on another machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Stamp(u64);

impl Stamp {
    /// The current moment.
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::Monotonic);
        // The monotonic clock counts up from the boot: both parts are never negative.
        let part = |value: i64| u64::try_from(value).unwrap_or(0);
        Self(part(time.tv_sec).saturating_mul(1_000_000_000).saturating_add(part(time.tv_nsec)))
    }

    /// The stamp at this count of nanoseconds.
    pub fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds of the monotonic clock.
    pub fn nanos(self) -> u64 {
        self.0
    }

    /// Time passed since `earlier`; zero when `earlier` is the later one.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// What the clocks did over some time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// Seconds that the machine slept.
    pub slept_s: f64,
    /// Seconds by which the wall clock was set forward; negative when it was set back.
    pub wall_step_s: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_forward_and_never_below_zero() {
        let first = Stamp::now();
        let second = Stamp::now();
        assert!(second >= first);
        assert_eq!(first.since(Stamp::from_nanos(u64::MAX)), Duration::ZERO);
        assert_eq!(Stamp::from_nanos(1_500).since(Stamp::from_nanos(500)), Duration::from_micros(1));
    }

    #[test]
    fn is_a_number_in_files() {
        assert_eq!(serde_json::to_string(&Stamp::from_nanos(42)).unwrap(), "42");
        assert_eq!(serde_json::from_str::<Stamp>("42").unwrap(), Stamp::from_nanos(42));
    }
}
