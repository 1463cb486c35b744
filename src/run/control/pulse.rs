//! The live lines of one viewer.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::server::Sources;
use super::wire::Live;
use crate::measure::LiveCounts;

/// Shortest time between two live lines of a viewer.
const PERIOD: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Look {
    counts: Option<LiveCounts>,
    trouble: Option<String>,
}

/// Looks at what is not stored, as often as a viewer may hear of it.
pub(super) struct Pulse {
    sources: Arc<Sources>,
    ticks: Interval,
    /// What the viewer was told. At first it knows that nothing runs and nothing is wrong.
    told: Look,
    /// What was seen last, whether the viewer was told or not.
    seen: Look,
    dropped: u64,
}

impl Pulse {
    pub(super) fn new(sources: Arc<Sources>) -> Self {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { sources, ticks, told: Look::default(), seen: Look::default(), dropped: 0 }
    }

    /// Waits until the viewer may hear again. Nothing is lost when the future is dropped.
    pub(super) async fn tick(&mut self) {
        self.ticks.tick().await;
    }

    fn look(&self) -> Look {
        Look { counts: (self.sources.live)(), trouble: self.sources.trouble.borrow().clone() }
    }

    /// The viewer has everything: what it is told, if there is something new.
    pub(super) fn due(&mut self) -> Option<Live> {
        let now = self.look();
        self.seen = now.clone();
        if now == self.told {
            return None;
        }
        self.told = now.clone();
        let Look { counts, trouble } = now;
        Some(Live { at: Timestamp::now(), counts, trouble, dropped: self.dropped })
    }

    /// The viewer is behind: what it would have been told is counted.
    pub(super) fn drop_one(&mut self) {
        let now = self.look();
        if now != self.seen {
            self.seen = now;
            self.dropped += 1;
        }
    }
}
