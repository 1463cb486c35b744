//! A decimal number with separators, a sign and a currency.
//!
//! - With both `.` and `,` the last kind separates the decimals. A mark that occurs more than once groups thousands.
//! - A single mark with exactly three digits after it and one to three before it (`1,234`) can be read two ways: the
//!   declared mark decides, without it the number is refused. `0,123` and `1234,567` have one reading.
//! - Spaces and apostrophes group thousands. Indian grouping (`1,23,456.00`) is read.
//! - A sign before or behind, or parentheses, make the number negative.
//! - A number that does not fit 28 digits is refused, never rounded.

mod currency;

use rust_decimal::Decimal;

use super::refusal::Refusal;
use crate::protocol::DecimalMark;

/// Longest text that is looked at, in bytes.
const LONGEST: usize = 100;

/// Reads a decimal number from a written amount.
pub fn read(text: &str, mark: Option<DecimalMark>) -> Result<Decimal, Refusal> {
    if text.len() > LONGEST {
        return Err("too long for a number".into());
    }
    let (negative, unsigned) = sign(text.trim())?;
    let plain = plain(unsigned, mark)?;
    let value =
        Decimal::from_str_exact(&plain).map_err(|_| Refusal::from("more digits than can be compared"))?;
    Ok(if negative { -value } else { value })
}

/// Reads the text of a JSON number, where a point is always the decimal mark.
pub(super) fn read_json_number(text: &str) -> Result<Decimal, Refusal> {
    let (significand, exponent) = text.split_once(['e', 'E']).unwrap_or((text, ""));
    let exact = Decimal::from_str_exact(significand);
    // `from_scientific` rounds a long significand, so that one is checked by itself first.
    let parsed = if exponent.is_empty() { exact } else { exact.and_then(|_| Decimal::from_scientific(text)) };
    parsed.map_err(|_| "more digits than can be compared".into())
}

fn is_minus(character: char) -> bool {
    matches!(character, '-' | '−' | '–')
}

/// Whether the amount is negative, and its text without sign and currency.
fn sign(text: &str) -> Result<(bool, &str), Refusal> {
    let unknown = || Refusal::from("a mark that is neither a digit nor a currency");
    let mut signs = 0;
    let mut negative = false;
    let mut body = text;
    if let Some(inside) = body.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        (signs, negative, body) = (1, true, inside.trim());
    }
    // A sign may stand outside or inside the currency mark: `-$8`, `$-8`, `8-`, `8 € -`.
    for stripped_currency in [false, true] {
        if stripped_currency {
            body = currency::strip(body).ok_or_else(unknown)?;
        }
        if let Some(rest) = body.strip_prefix(|c| is_minus(c) || c == '+') {
            signs += 1;
            negative |= !body.starts_with('+');
            body = rest.trim_start();
        }
        if let Some(rest) = body.strip_suffix(is_minus) {
            signs += 1;
            negative = true;
            body = rest.trim_end();
        }
    }
    if signs > 1 { Err("more than one sign".into()) } else { Ok((negative, body)) }
}

/// The digits with at most one point, from an unsigned amount.
fn plain(text: &str, mark: Option<DecimalMark>) -> Result<String, Refusal> {
    let (whole, fraction) = split(text, mark)?;
    let whole = ungroup(whole)?;
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("not a number".into());
    }
    let whole = if whole.is_empty() { "0" } else { whole.as_str() };
    Ok(if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") })
}

/// The part before the decimals, still grouped, and the decimals.
fn split(text: &str, mark: Option<DecimalMark>) -> Result<(&str, &str), Refusal> {
    let Some(last) = text.rfind(['.', ',']) else {
        return if text.is_empty() { Err("no number".into()) } else { Ok((text, "")) };
    };
    let separator = text.as_bytes()[last];
    let (whole, fraction) = (&text[..last], &text[last + 1..]);
    if fraction.is_empty() {
        return Err("a number that ends in a separator".into());
    }
    if whole.bytes().any(|byte| byte == separator) {
        // More than once: it groups. With the other kind too, neither can be the decimal mark.
        let other = if separator == b'.' { ',' } else { '.' };
        return if whole.contains(other) { Err("separators in disorder".into()) } else { Ok((text, "")) };
    }
    let groups = !whole.is_empty()
        && whole.len() <= 3
        && !whole.starts_with('0')
        && whole.bytes().all(|byte| byte.is_ascii_digit())
        && fraction.len() == 3;
    if !groups {
        return Ok((whole, fraction));
    }
    match mark {
        None => Err("can be read with thousands or with decimals, and the rule declares no mark".into()),
        Some(DecimalMark::Point) if separator == b'.' => Ok((whole, fraction)),
        Some(DecimalMark::Comma) if separator == b',' => Ok((whole, fraction)),
        Some(_) => Ok((text, "")),
    }
}

/// The digits of a whole number whose groups are in order.
fn ungroup(text: &str) -> Result<String, Refusal> {
    let mut marks = text.chars().filter(|c| !c.is_ascii_digit());
    let Some(mark) = marks.next() else { return Ok(text.to_owned()) };
    let is_group_mark =
        matches!(mark, '.' | ',' | '\'' | '’' | ' ' | '\u{a0}' | '\u{2007}' | '\u{2009}' | '\u{202f}');
    if !is_group_mark || marks.any(|other| other != mark) {
        return Err("not a number".into());
    }
    let groups: Vec<&str> = text.split(mark).collect();
    let (Some((first, rest)), Some(last)) = (groups.split_first(), groups.last()) else {
        return Err("not a number".into());
    };
    let middle = &rest[..rest.len().saturating_sub(1)];
    let western = (1..=3).contains(&first.len()) && rest.iter().all(|group| group.len() == 3);
    let indian = mark == ','
        && !middle.is_empty()
        && (1..=2).contains(&first.len())
        && middle.iter().all(|group| group.len() == 2)
        && last.len() == 3;
    if (western || indian) && !first.starts_with('0') {
        Ok(groups.concat())
    } else {
        Err("thousands that are not grouped by three".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plainly(text: &str, mark: Option<DecimalMark>) -> Option<String> {
        read(text, mark).ok().map(|value| value.to_string())
    }

    #[test]
    fn separators_by_position() {
        for (text, value) in [
            ("8", "8"),
            ("8.00", "8.00"),
            ("8,00", "8.00"),
            ("2,34", "2.34"),
            ("10.000,50", "10000.50"),
            ("10,000.50", "10000.50"),
            ("1.234.567", "1234567"),
            ("1,234,567.89", "1234567.89"),
            ("1.234.567,89", "1234567.89"),
            ("1 234,50", "1234.50"),
            ("1\u{202f}234\u{202f}567,5", "1234567.5"),
            ("1\u{a0}234.50", "1234.50"),
            ("12'345.60", "12345.60"),
            ("12’345", "12345"),
            ("0,123", "0.123"),
            ("1234.567", "1234.567"),
            (".50", "0.50"),
            ("1 234,567", "1234.567"),
            ("1,23,456", "123456"),
            ("12,34,567.00", "1234567.00"),
            ("007", "7"),
            ("1.5", "1.5"),
            ("1.2345", "1.2345"),
        ] {
            assert_eq!(plainly(text, None).as_deref(), Some(value), "{text}");
        }
    }

    #[test]
    fn the_declared_mark_decides_only_what_is_ambiguous() {
        use DecimalMark::{Comma, Point};
        assert_eq!(plainly("1,234", None), None);
        assert_eq!(plainly("1.234", None), None);
        assert_eq!(plainly("1,234", Some(Point)).as_deref(), Some("1234"));
        assert_eq!(plainly("1,234", Some(Comma)).as_deref(), Some("1.234"));
        assert_eq!(plainly("1.234", Some(Point)).as_deref(), Some("1.234"));
        assert_eq!(plainly("1.234", Some(Comma)).as_deref(), Some("1234"));
        assert_eq!(plainly("10.000,50", Some(Point)).as_deref(), Some("10000.50"));
        assert_eq!(plainly("$1,234", Some(Point)).as_deref(), Some("1234"));
    }

    #[test]
    fn currencies_and_signs() {
        for (text, value) in [
            ("$8.00", "8.00"),
            ("8,00 €", "8.00"),
            ("RM 8.00", "8.00"),
            ("RM8.00", "8.00"),
            ("EUR 8.00", "8.00"),
            ("8.00 usd", "8.00"),
            ("US$8.00", "8.00"),
            ("R$ 8,00", "8.00"),
            ("Rs. 500", "500"),
            ("8.00 kr.", "8.00"),
            ("8,00 zł", "8.00"),
            ("CHF 1'234.50", "1234.50"),
            ("$.50", "0.50"),
            ("₹1,23,456.00", "123456.00"),
            ("-8.00", "-8.00"),
            ("−8.00", "-8.00"),
            ("8.00-", "-8.00"),
            ("-$8.00", "-8.00"),
            ("$-8.00", "-8.00"),
            ("($8.00)", "-8.00"),
            ("$(8.00)", ""),
            ("+8.00", "8.00"),
            ("8.00 EUR-", "-8.00"),
            ("R 8.00", "8.00"),
        ] {
            assert_eq!(plainly(text, None).unwrap_or_default(), value, "{text}");
        }
    }

    #[test]
    fn what_is_no_single_number_is_refused() {
        for text in [
            "",
            " ",
            "-",
            "$",
            "abc",
            "8.",
            "8,",
            "8,-",
            "1,2,3",
            "1.2.3",
            "12,34",
            "1,23.456.789",
            "1.234,567.89",
            "1 23",
            "12 34 567",
            "8.00 9.00",
            "8%",
            "8k",
            "12 kg",
            "12 pcs",
            "1e3",
            "--8",
            "(-8)",
            "-8-",
            "8¢",
            "1 234'567",
            "0,123,456",
            "NaN",
            "٨",
            "8.00 CR",
            "99999999999999999999999999999999",
            "0.00000000000000000000000000000001",
        ] {
            let expected = (text == "12,34").then(|| "12.34".to_owned());
            assert_eq!(plainly(text, None), expected, "{text}");
        }
    }

    #[test]
    fn json_numbers_are_exact() {
        assert_eq!(read_json_number("8.10").unwrap().to_string(), "8.10");
        assert_eq!(read_json_number("1.234").unwrap().to_string(), "1.234");
        assert_eq!(read_json_number("1.5e3").unwrap().to_string(), "1500");
        assert!(read_json_number("1e400").is_err());
        assert!(read_json_number("1e40").is_err());
    }
}
