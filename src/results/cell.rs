//! A value of the results table: typed, or missing with a reason.

use serde_json::Value;

use super::stats::Percentile;

/// A value with its kind, so that each output prints it in its own way.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// A word of aforo's own vocabulary; never text from outside.
    Word(String),
    /// A whole number.
    Count(u64),
    /// A number in the column's unit.
    Number(f64),
    /// Yes or no.
    Flag(bool),
    /// Unknown, and why.
    Missing(&'static str),
}

/// What begins a formula in a spreadsheet. No word of aforo's does; one in a journal that something else wrote could.
const FORMULA: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

impl Cell {
    /// A number, or the reason why there is none. A value that is no finite number is missing too.
    pub fn number(value: Option<f64>, why_not: &'static str) -> Self {
        value.filter(|value| value.is_finite()).map_or(Self::Missing(why_not), Self::Number)
    }

    /// A count, or the reason why there is none.
    pub fn count(value: Option<u64>, why_not: &'static str) -> Self {
        value.map_or(Self::Missing(why_not), Self::Count)
    }

    /// For CSV: empty when missing, a point as decimal mark, no separators.
    pub fn csv(&self) -> String {
        match self {
            Self::Word(word) if word.starts_with(FORMULA) => format!("'{word}"),
            Self::Word(word) => word.clone(),
            Self::Count(count) => count.to_string(),
            Self::Number(number) => rounded(*number).to_string(),
            Self::Flag(flag) => flag.to_string(),
            Self::Missing(_) => String::new(),
        }
    }

    /// For JSON: `null` when missing.
    pub fn json(&self) -> Value {
        match self {
            Self::Word(word) => word.as_str().into(),
            Self::Count(count) => (*count).into(),
            Self::Number(number) => rounded(*number).into(),
            Self::Flag(flag) => (*flag).into(),
            Self::Missing(_) => Value::Null,
        }
    }
}

/// To nine decimals: the clock counts nanoseconds, and what is beyond them comes from the arithmetic. CSV and JSON
/// hold the same number.
fn rounded(number: f64) -> f64 {
    const DECIMALS: f64 = 1e9;
    let scaled = (number * DECIMALS).round() / DECIMALS;
    // Adding zero turns -0 into 0.
    if scaled.is_finite() { scaled + 0.0 } else { number }
}

impl From<Percentile> for Cell {
    fn from(percentile: Percentile) -> Self {
        match percentile {
            Percentile::Value(value) => Self::Number(value),
            Percentile::TooSmall { .. } => Self::Missing("n too small"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f64_nothing_missing_is_ever_zero_or_not_a_number() {
        for value in [None, Some(f64::NAN), Some(f64::INFINITY)] {
            let cell = Cell::number(value, "not measured");
            assert_eq!((cell.csv().as_str(), cell.json()), ("", Value::Null));
        }
    }

    #[test]
    fn numbers_in_csv_have_a_point_and_no_idle_zeros() {
        assert_eq!(Cell::Number(2.5).csv(), "2.5");
        assert_eq!(Cell::Number(100.0).csv(), "100");
        assert_eq!(Cell::Number(0.0).csv(), "0");
        assert_eq!(Cell::Number(1.0 / 3.0).csv(), "0.333333333");
        assert_eq!(Cell::Number(-1e-12).csv(), "0");
        assert_eq!(Cell::Number(4.2e-8).csv(), "0.000000042");
        assert_eq!(Cell::Number(1_409_316.400_900_5).csv(), "1409316.4009005");
    }

    #[test]
    fn i10_no_word_becomes_a_formula_and_numbers_stay_numbers() {
        assert_eq!(Cell::Word("=1+1".to_owned()).csv(), "'=1+1");
        assert_eq!(Cell::Number(-2.5).csv(), "-2.5");
    }

    #[test]
    fn csv_and_json_hold_the_same_number() {
        for number in [1.0 / 3.0, 4.2e-8, 1e15, f64::MAX, 0.1 + 0.2, -2.5] {
            let (csv, json) = (Cell::Number(number).csv(), Cell::Number(number).json());
            assert_eq!(csv.parse::<f64>().ok(), json.as_f64());
            assert!(!csv.contains(['e', 'E']), "{csv}");
        }
    }
}
