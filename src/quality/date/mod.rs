//! A calendar date in any usual written form.
//!
//! Read are ISO dates, dates of three numbers, `20180315`, and dates with a month's name in eight languages. Weekdays,
//! ordinal endings and a time of day behind the date are passed over.
//!
//! - A number of four digits is the year, and a date that starts with the year goes on with the month.
//! - Two digits of a year: 00 to 68 are 2000 to 2068, 69 to 99 are 1969 to 1999.
//! - Of day and month as numbers, the reading that exists is taken (03/15/2025 has one). Where both exist and differ,
//!   the declared order decides; without it the date is refused.
//! - `18-03-15`, with hyphens and two digits each, may also start with the year: without a declared order it is
//!   refused unless one reading exists.

mod names;
mod time;

use jiff::civil::Date;
use unicode_normalization::UnicodeNormalization;

use super::fold::Folding;
use super::refusal::Refusal;
use crate::protocol::DateOrder;

/// Longest text that is looked at, in bytes; a date with a weekday and a time is far below.
const LONGEST: usize = 100;

/// Reads a date.
pub fn read(text: &str, order: Option<DateOrder>) -> Result<Date, Refusal> {
    if text.len() > LONGEST {
        return Err("too long for a date".into());
    }
    let text: String = text.nfc().collect();
    let tokens = tokens(time::without_time(&text).ok_or("more than a date and a time")?)?;
    let numbers: Vec<&Number<'_>> = tokens.iter().filter_map(Token::number).collect();
    match (month(&tokens)?, numbers.as_slice()) {
        (Some(month), [first, second]) => named(month, first, second),
        (None, [one]) => compact(one),
        (None, [first, second, third]) => numeric([first, second, third], separator(&tokens)?, order),
        _ => Err("not a complete date".into()),
    }
}

/// Digits as they are written.
struct Number<'a>(&'a str);

impl Number<'_> {
    fn is_year(&self) -> bool {
        self.0.len() == 4
    }

    fn year(&self) -> Option<i16> {
        let value: i16 = self.0.parse().ok()?;
        match self.0.len() {
            4 if value >= 1000 => Some(value),
            2 if value <= 68 => Some(2000 + value),
            2 => Some(1900 + value),
            _ => None,
        }
    }

    fn day_or_month(&self) -> Option<i8> {
        if self.0.len() > 2 { None } else { self.0.parse().ok() }
    }
}

enum Token<'a> {
    Number(Number<'a>),
    Month { month: i8, word: String },
    Mark(char),
}

impl<'a> Token<'a> {
    fn number(&self) -> Option<&Number<'a>> {
        if let Self::Number(number) = self { Some(number) } else { None }
    }
}

/// Numbers, months and marks; white space and words that say nothing are left out.
fn tokens(text: &str) -> Result<Vec<Token<'_>>, Refusal> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let same = |kind: fn(char) -> bool| rest.find(|c| !kind(c)).unwrap_or(rest.len());
        let length = if first.is_ascii_digit() {
            let length = same(|c| c.is_ascii_digit());
            tokens.push(Token::Number(Number(&rest[..length])));
            length
        } else if first.is_alphabetic() {
            let length = same(char::is_alphabetic);
            let word = Folding { case: true, accents: true, spaces: false }.apply(&rest[..length]);
            if let Some(month) = names::month(&word) {
                tokens.push(Token::Month { month, word });
            } else if !names::is_silent(&word) {
                return Err("a word that is not part of a date".into());
            }
            length
        } else {
            match first {
                '-' | '/' | '.' | ',' | '\'' | '’' => tokens.push(Token::Mark(first)),
                '°' => {}
                _ if first.is_whitespace() => {}
                _ => return Err("a mark that is not part of a date".into()),
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    Ok(tokens)
}

/// The one month that is named, if any. `mar` is also Tuesday: it gives way to another month.
fn month(tokens: &[Token<'_>]) -> Result<Option<i8>, Refusal> {
    let named: Vec<(i8, &str)> = tokens
        .iter()
        .filter_map(|token| {
            if let Token::Month { month, word } = token { Some((*month, word.as_str())) } else { None }
        })
        .collect();
    match named.as_slice() {
        [] => Ok(None),
        [(month, _)] | [(_, "mar"), (month, _)] | [(month, _), (_, "mar")] => Ok(Some(*month)),
        _ => Err("more than one month".into()),
    }
}

/// The mark between three numbers, the same twice; `None` when only white space is between them.
fn separator(tokens: &[Token<'_>]) -> Result<Option<char>, Refusal> {
    let numbers: Vec<usize> = (0..tokens.len()).filter(|&at| tokens[at].number().is_some()).collect();
    let [first, second, third] = numbers[..] else { return Err("not a complete date".into()) };
    let outside = tokens[..first].iter().chain(&tokens[third + 1..]);
    if outside.into_iter().any(|token| !matches!(token, Token::Mark('.' | ','))) {
        return Err("a mark outside the date".into());
    }
    match (&tokens[first + 1..second], &tokens[second + 1..third]) {
        ([], []) => Ok(None),
        ([Token::Mark(one)], [Token::Mark(other)]) if one == other && "-/.".contains(*one) => Ok(Some(*one)),
        _ => Err("three numbers that are not set apart like a date".into()),
    }
}

fn named(month: i8, first: &Number<'_>, second: &Number<'_>) -> Result<Date, Refusal> {
    let (year, day) = if first.is_year() { (first, second) } else { (second, first) };
    date(year, Some(month), day.day_or_month()).ok_or_else(no_such_day)
}

/// `20180315`.
fn compact(number: &Number<'_>) -> Result<Date, Refusal> {
    if number.0.len() != 8 {
        return Err("not a complete date".into());
    }
    let (year, rest) = number.0.split_at(4);
    let (month, day) = rest.split_at(2);
    date(&Number(year), Number(month).day_or_month(), Number(day).day_or_month()).ok_or_else(no_such_day)
}

fn numeric(
    [first, second, third]: [&Number<'_>; 3],
    separator: Option<char>,
    order: Option<DateOrder>,
) -> Result<Date, Refusal> {
    let year_first = || date(first, second.day_or_month(), third.day_or_month());
    if first.is_year() {
        return year_first().ok_or_else(no_such_day);
    }
    let day_first = date(third, second.day_or_month(), first.day_or_month());
    let month_first = date(third, first.day_or_month(), second.day_or_month());
    let short = [first, second, third].iter().all(|number| number.0.len() == 2);
    let year_first = if short && separator == Some('-') { year_first() } else { None };
    match order {
        Some(DateOrder::DayFirst) => day_first.or(month_first).or(year_first).ok_or_else(no_such_day),
        Some(DateOrder::MonthFirst) => month_first.or(day_first).or(year_first).ok_or_else(no_such_day),
        None => {
            let mut readings = [day_first, month_first, year_first].into_iter().flatten();
            let one = readings.next().ok_or_else(no_such_day)?;
            if readings.any(|other| other != one) {
                return Err("day and month can be read either way, and the rule declares no order".into());
            }
            Ok(one)
        }
    }
}

fn date(year: &Number<'_>, month: Option<i8>, day: Option<i8>) -> Option<Date> {
    Date::new(year.year()?, month?, day?).ok()
}

fn no_such_day() -> Refusal {
    "no such day in the calendar".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iso(text: &str, order: Option<DateOrder>) -> Option<String> {
        read(text, order).ok().map(|date| date.to_string())
    }

    #[test]
    fn written_forms_of_one_day() {
        for text in [
            "2018-03-15",
            "2018/03/15",
            "2018.03.15",
            "2018.3.15.",
            "20180315",
            "15/03/2018",
            "15.03.2018",
            "15-3-2018",
            "15 03 2018",
            "15 / 03 / 2018",
            "03/15/2018",
            "15/03/18",
            "15.3.18",
            "Thu, 15/03/2018",
            "2018-03-15T17:34:00Z",
            "2018-03-15 17:34:00.123+02:00",
            "15/03/2018 5:34 PM",
            "15/03/2018 17h34",
            "15.03.2018, 17:34 Uhr",
            "15/03/2018 at 5:34 p.m.",
            "15 March 2018",
            "March 15, 2018",
            "March 15th, 2018",
            "the 15th of March 2018",
            "Mar. 15, 2018",
            "15-Mar-2018",
            "15-MAR-18",
            "15 Mar '18",
            "15Mar2018",
            "2018 March 15",
            "2018-Mar-15",
            "Thursday, 15 March 2018",
            "15 de marzo de 2018",
            "jueves 15 de marzo del 2018",
            "le 15 mars 2018",
            "jeudi 15 mars 2018",
            "15. März 2018",
            "Donnerstag, den 15. März 2018",
            "15. Maerz 2018",
            "giovedì 15 marzo 2018",
            "15 de março de 2018",
            "quinta-feira, 15 de março de 2018",
            "15 maart 2018",
            "15 mrt. 2018",
            "15 marca 2018 r.",
            "15º de março de 2018",
            "mar 15 mars 2018",
            "15 Ma\u{301}rz 2018",
        ] {
            assert_eq!(iso(text, None).as_deref(), Some("2018-03-15"), "{text}");
        }
        assert_eq!(iso("1er février 2020", None).as_deref(), Some("2020-02-01"));
        assert_eq!(iso("31 grudnia 1999", None).as_deref(), Some("1999-12-31"));
    }

    #[test]
    fn the_order_decides_only_where_both_readings_exist() {
        use DateOrder::{DayFirst, MonthFirst};
        assert_eq!(iso("03/04/2025", Some(DayFirst)).as_deref(), Some("2025-04-03"));
        assert_eq!(iso("03/04/2025", Some(MonthFirst)).as_deref(), Some("2025-03-04"));
        assert_eq!(iso("03/04/2025", None), None);
        assert_eq!(iso("03.04.2025", None), None);
        assert_eq!(iso("03/03/2025", None).as_deref(), Some("2025-03-03"));
        assert_eq!(iso("03/15/2025", Some(DayFirst)).as_deref(), Some("2025-03-15"));
        assert_eq!(iso("15/03/2025", Some(MonthFirst)).as_deref(), Some("2025-03-15"));
        assert_eq!(iso("18-03-15", None), None);
        assert_eq!(iso("18-03-15", Some(DayFirst)).as_deref(), Some("2015-03-18"));
        assert_eq!(iso("99-03-15", None).as_deref(), Some("1999-03-15"));
        assert_eq!(iso("2025-04-03", Some(MonthFirst)).as_deref(), Some("2025-04-03"));
    }

    #[test]
    fn two_digit_years_turn_at_69() {
        assert_eq!(iso("15/03/68", None).as_deref(), Some("2068-03-15"));
        assert_eq!(iso("15/03/69", None).as_deref(), Some("1969-03-15"));
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for text in [
            "",
            " ",
            "yyyy-02-04",
            "2018-02-30",
            "31/04/2018",
            "2018-13-01",
            "2018-15-03",
            "00/00/2018",
            "March 2018",
            "2018",
            "15 March",
            "32 March 2018",
            "12/03.2025",
            "2018-03-15 to 2018-03-20",
            "2018-03-15 17:34 - 2018-03-20 10:00",
            "15/03/2018 16/03/2018",
            "-2018-03-15",
            "15/3/8",
            "150/03/2018",
            "15 March April 2018",
            "today",
            "17:34",
            "null",
            "15:03:2018",
            "٢٠١٨-٠٣-١٥",
            "15/03/12018",
            "0018-03-15",
        ] {
            assert_eq!(iso(text, None), None, "{text}");
            assert_eq!(iso(text, Some(DateOrder::DayFirst)), None, "{text}");
        }
    }
}
