//! Numbers as they are shown: with their unit, and never 0 for what is not known.

use crate::results::stats::{Percentile, Spread};
use crate::results::table::grouped;

pub(super) fn share(value: f64) -> String {
    format!("{:.1} %", value * 100.0)
}

pub(super) fn rate(value: f64) -> String {
    grouped(&format!("{value:.0}"))
}

/// Seconds with three decimals below ten, fewer above.
pub(super) fn seconds(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.3} s"),
        10.0..100.0 => format!("{value:.1} s"),
        _ => format!("{value:.0} s"),
    }
}

/// A percentile, or why there is none.
pub(super) fn percentile(value: Percentile) -> String {
    match value {
        Percentile::Value(value) => seconds(value),
        Percentile::TooSmall { n, needed } => format!("n/a ({n} of {needed})"),
    }
}

/// The middle of a spread.
pub(super) fn middle(spread: Option<Spread>, show: fn(f64) -> String) -> String {
    spread.map_or_else(|| "n/a".to_owned(), |spread| show(spread.median))
}

/// Hours, minutes and seconds.
pub(super) fn clock(time: std::time::Duration) -> String {
    let seconds = time.as_secs();
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
