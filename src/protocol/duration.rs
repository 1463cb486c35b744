//! Durations as a person writes them: a number and a unit, `"250us"`, `"1.5s"`, `"10m"`.

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;
use std::time::Duration;

/// The accepted texts, as a regular expression for the schema.
pub(super) const PATTERN: &str = "^[0-9]+(\\.[0-9]+)?(us|ms|s|m|h)$";

/// Units and their nanoseconds, longest first.
const UNITS: [(&str, u64); 5] =
    [("h", 3_600_000_000_000), ("m", 60_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];

/// Reads a duration; `None` when the text is not a number with a unit, or is not whole nanoseconds below 2^64.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(unit_at);
    let plain = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if !plain(whole) || !plain(fraction) {
        return None;
    }
    let (_, nanoseconds) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let total = number.parse::<Decimal>().ok()?.checked_mul(Decimal::from(*nanoseconds))?;
    if total.fract().is_zero() { total.to_u64().map(Duration::from_nanos) } else { None }
}

/// Writes a duration in the longest unit that divides it.
pub(super) fn written(duration: Duration) -> String {
    let nanoseconds = duration.as_nanos();
    if nanoseconds == 0 {
        return "0s".to_owned();
    }
    UNITS.iter().find(|(_, unit)| nanoseconds.is_multiple_of(u128::from(*unit))).map_or_else(
        || format!("{nanoseconds}ns"),
        |(name, unit)| format!("{}{name}", nanoseconds / u128::from(*unit)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read_and_written() {
        for (text, duration) in [
            ("250us", Duration::from_micros(250)),
            ("5ms", Duration::from_millis(5)),
            ("2s", Duration::from_secs(2)),
            ("10m", Duration::from_secs(600)),
            ("6h", Duration::from_secs(6 * 3600)),
        ] {
            assert_eq!(parse(text), Some(duration), "{text}");
            assert_eq!(written(duration), text);
        }
        assert_eq!(parse("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(written(Duration::from_millis(1500)), "1500ms");
        assert_eq!(parse("0us"), Some(Duration::ZERO));
    }

    #[test]
    fn anything_else_is_not_a_duration() {
        for text in ["", "5", "ms", ".5s", "5.s", "-1s", "1 s", "1e3s", "1d", "5S", "0.0000000001s", "1.2.3s"]
        {
            assert_eq!(parse(text), None, "{text:?}");
        }
        assert_eq!(parse("99999999999999999999999999999999h"), None);
    }
}
