//! The one clock that every measured time comes from.

use std::fmt;
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

/// Three clocks of the machine, read together: what they do differently tells what happened to the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    /// Stands still while the machine sleeps. Every duration is taken from it.
    monotonic: i128,
    /// The same, but goes on while the machine sleeps.
    boot: i128,
    /// What people set.
    wall: i128,
}

impl Clocks {
    /// Reads them.
    pub fn now() -> Self {
        let nanos = |id| {
            let time = clock_gettime(id);
            i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
        };
        Self {
            monotonic: nanos(ClockId::Monotonic),
            boot: nanos(ClockId::Boottime),
            wall: nanos(ClockId::Realtime),
        }
    }

    /// What they did since an earlier reading; `None` when they agree as well as clocks that are kept on time do.
    pub fn drift_since(&self, earlier: &Self) -> Option<Drift> {
        let awake = self.monotonic - earlier.monotonic;
        let passed = self.boot - earlier.boot;
        let seconds = |nanos: i128| nanos as f64 / 1e9;
        let drift = Drift {
            slept_s: seconds((passed - awake).max(0)),
            wall_step_s: seconds(self.wall - earlier.wall - passed),
        };
        let step_that_counts = LEAST_STEP_S + MOST_SLEW * seconds(passed);
        let is_notable = drift.slept_s >= LEAST_SLEEP_S || drift.wall_step_s.abs() >= step_that_counts;
        is_notable.then_some(drift)
    }
}

/// Less sleep is the time between two readings.
const LEAST_SLEEP_S: f64 = 0.5;
/// A smaller step disturbs nobody who reads times of day.
const LEAST_STEP_S: f64 = 1.0;
/// A time service may speed the wall clock up or slow it down by so much, in seconds per second.
const MOST_SLEW: f64 = 500e-6;

/// What the clocks did over some time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// Seconds that the machine slept.
    pub slept_s: f64,
    /// Seconds by which the wall clock was set forward; negative when it was set back.
    pub wall_step_s: f64,
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slept =
            (self.slept_s >= LEAST_SLEEP_S).then(|| format!("the machine slept for {:.1} s", self.slept_s));
        let way = if self.wall_step_s < 0.0 { "back" } else { "forward" };
        let step = (self.wall_step_s.abs() >= LEAST_STEP_S)
            .then(|| format!("the wall clock was set {way} by {:.1} s", self.wall_step_s.abs()));
        let both: Vec<_> = [slept, step].into_iter().flatten().collect();
        write!(f, "{}, which is in no duration", both.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i128 = 1_000_000_000;

    /// What is seen after a minute awake, a sleep, and a step of the wall clock, all in nanoseconds.
    fn seen(slept: i128, step: i128) -> Option<Drift> {
        let before = Clocks { monotonic: 5 * SECOND, boot: 7 * SECOND, wall: 1_700_000_000 * SECOND };
        let minute = 60 * SECOND;
        let after = Clocks {
            monotonic: before.monotonic + minute,
            boot: before.boot + minute + slept,
            wall: before.wall + minute + slept + step,
        };
        after.drift_since(&before)
    }

    #[test]
    fn sleep_and_steps_of_the_wall_clock_are_told_apart() {
        let told = |slept, step| seen(slept, step).map(|drift| (drift.slept_s, drift.wall_step_s));
        assert_eq!(told(0, 0), None);
        assert_eq!(told(SECOND / 10, SECOND / 2), None, "a time service at work");
        assert_eq!(told(3600 * SECOND, 0), Some((3600.0, 0.0)), "a lid that was closed for an hour");
        assert_eq!(told(0, -7200 * SECOND), Some((0.0, -7200.0)));
        assert_eq!(told(2 * SECOND, 5 * SECOND), Some((2.0, 5.0)));
    }

    #[test]
    fn what_happened_is_said_in_words() {
        let said = |slept, step| seen(slept, step).unwrap().to_string();
        assert_eq!(said(90 * SECOND, 0), "the machine slept for 90.0 s, which is in no duration");
        assert_eq!(
            said(2 * SECOND, -5 * SECOND),
            "the machine slept for 2.0 s and the wall clock was set back by 5.0 s, which is in no duration"
        );
    }

    #[test]
    fn clocks_that_nobody_touches_agree() {
        let before = Clocks::now();
        assert_eq!(Clocks::now().drift_since(&before), None);
    }

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
