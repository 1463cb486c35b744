//! The quality rule: how an output is read, how its fields are compared, and what share must be accepted.

use indexmap::IndexMap;
use rust_decimal::Decimal;

/// `[quality]`.
#[derive(Debug, Clone, PartialEq)]
pub struct QualityRule {
    /// How the raw output becomes values.
    pub parse: Parse,
    /// When a document is accepted, given its fields.
    pub accept: Accept,
    /// Accepted / expected that a pass must reach.
    pub threshold: Threshold,
    /// Fields and how each is compared, in the order of the file.
    pub fields: IndexMap<String, FieldRule>,
}

/// How the raw output is read.
#[derive(Debug, Clone)]
pub enum Parse {
    /// A JSON object; repairs are counted.
    Json,
    /// The whole output, trimmed, is the value of the one field.
    Text,
    /// Named groups are the fields.
    Regex(regex::Regex),
    /// One of these labels, found in the output, is the value of the one field.
    Choice(Vec<String>),
}

impl PartialEq for Parse {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Json, Self::Json) | (Self::Text, Self::Text) => true,
            (Self::Regex(a), Self::Regex(b)) => a.as_str() == b.as_str(),
            (Self::Choice(a), Self::Choice(b)) => a == b,
            _ => false,
        }
    }
}

/// When a document is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Accept {
    /// Every checked field must match.
    #[default]
    AllFields,
}

/// A share between 0 and 1, both included.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Threshold(f64);

impl Threshold {
    /// `None` when the share is not between 0 and 1.
    pub fn new(share: f64) -> Option<Self> {
        (0.0..=1.0).contains(&share).then_some(Self(share))
    }

    /// The share.
    pub fn share(self) -> f64 {
        self.0
    }
}

/// How one field is compared and what its absence means.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldRule {
    /// The comparison.
    pub compare: Compare,
    /// What an absent value means.
    pub missing: Missing,
}

/// A comparison of an answered value with the reference.
#[derive(Debug, Clone, PartialEq)]
pub enum Compare {
    /// A calendar date in any usual written form.
    Date {
        /// Which number is the day where both readings are valid; without it such a date is refused.
        order: Option<DateOrder>,
    },
    /// A decimal number with separators and currency marks.
    Decimal {
        /// Largest accepted absolute difference.
        tolerance: Decimal,
        /// Which mark separates the decimals where both readings are valid; without it such a number is refused.
        mark: Option<DecimalMark>,
    },
    /// Text, after the declared foldings.
    Text {
        /// Ignore case.
        fold_case: bool,
        /// Ignore accents.
        fold_accents: bool,
        /// Treat runs of white space as one space and trim.
        fold_spaces: bool,
    },
    /// A whole number.
    Integer,
    /// A set of texts, order and repetition ignored; each element folded like text.
    Set {
        /// Ignore case.
        fold_case: bool,
        /// Ignore accents.
        fold_accents: bool,
    },
}

/// Which number of an all-numeric date is the day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DateOrder {
    /// 03/04/2025 is 3 April.
    DayFirst,
    /// 03/04/2025 is March 4.
    MonthFirst,
}

/// Which mark separates decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecimalMark {
    /// `1,234` is one thousand two hundred and thirty-four.
    Point,
    /// `1,234` is a little more than one.
    Comma,
}

/// What an absent or null value means. A reference that is absent is never checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missing {
    /// A reference of null is not checked; an absent answer to a reference with a value is wrong.
    #[default]
    Wrong,
    /// A reference of null is checked: the answer must be null or absent too.
    NullMatchesNull,
}
