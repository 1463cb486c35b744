//! Statistics that say when a sample does not carry them.

/// Smallest sample for each percentile: below it, the chance that the sample holds no value beyond the percentile is
/// over 0.13 %, and the figure would be a guess.
const SMALLEST_SAMPLE: [(u8, usize); 5] = [(50, 10), (90, 64), (95, 130), (97, 219), (99, 662)];

/// A sample in ascending order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample(Vec<f64>);

impl FromIterator<f64> for Sample {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut values: Vec<_> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        Self(values)
    }
}

/// A percentile, or why there is none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Percentile {
    /// The value: one that was observed (nearest rank).
    Value(f64),
    /// The sample is too small.
    TooSmall {
        /// Its size.
        n: usize,
        /// The smallest size that carries the percentile.
        needed: usize,
    },
}

impl Percentile {
    /// The value, if there is one.
    pub fn value(self) -> Option<f64> {
        match self {
            Self::Value(value) => Some(value),
            Self::TooSmall { .. } => None,
        }
    }
}

impl Sample {
    /// Number of values.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A percentile by nearest rank: the smallest observed value that at least `percent` of the sample do not exceed.
    pub fn percentile(&self, percent: u8) -> Percentile {
        let n = self.0.len();
        let needed =
            SMALLEST_SAMPLE.iter().find(|(p, _)| *p >= percent).map_or(usize::MAX, |(_, needed)| *needed);
        let rank = (n * usize::from(percent)).div_ceil(100).max(1);
        match self.0.get(rank - 1) {
            Some(value) if n >= needed => Percentile::Value(*value),
            _ => Percentile::TooSmall { n, needed },
        }
    }

    /// Arithmetic mean.
    pub fn mean(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.iter().sum::<f64>() / self.0.len() as f64)
    }

    /// Lowest, middle and highest value.
    pub fn spread(&self) -> Option<Spread> {
        let (min, max) = (*self.0.first()?, *self.0.last()?);
        let middle = self.0.len() / 2;
        let median = if self.0.len() % 2 == 1 {
            self.0[middle]
        } else {
            f64::midpoint(self.0[middle - 1], self.0[middle])
        };
        Some(Spread { min, median, max, n: self.0.len() })
    }
}

/// Spread over repetitions.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Spread {
    /// Lowest.
    pub min: f64,
    /// Middle; between the two middle ones when their number is even.
    pub median: f64,
    /// Highest.
    pub max: f64,
    /// Number of values.
    pub n: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(n: u32) -> Sample {
        (1..=n).map(f64::from).collect()
    }

    #[test]
    fn a_percentile_is_given_only_where_the_sample_carries_it() {
        for (percent, needed) in [(50, 10), (90, 64), (95, 130), (97, 219), (99, 662)] {
            let below = sample(needed - 1).percentile(percent);
            assert!(matches!(below, Percentile::TooSmall { .. }), "p{percent} of {}", needed - 1);
            assert!(sample(needed).percentile(percent).value().is_some(), "p{percent} of {needed}");
        }
    }

    #[test]
    fn a_percentile_is_an_observed_value_by_nearest_rank() {
        assert_eq!(sample(100).percentile(90), Percentile::Value(90.0));
        assert_eq!(sample(64).percentile(90), Percentile::Value(58.0));
        assert_eq!(sample(11).percentile(50), Percentile::Value(6.0));
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        let spread = [4.0, 1.0, 2.0, 3.0].into_iter().collect::<Sample>().spread().unwrap();
        assert_eq!((spread.min, spread.median, spread.max, spread.n), (1.0, 2.5, 4.0, 4));
    }

    #[test]
    fn f64_values_that_are_no_numbers_never_enter() {
        let sample: Sample = [f64::NAN, f64::INFINITY, 1.0].into_iter().collect();
        assert_eq!(sample.mean(), Some(1.0));
        assert_eq!(Sample::default().mean(), None);
        assert_eq!(Sample::default().spread(), None);
    }
}
