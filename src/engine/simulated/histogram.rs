//! A Prometheus histogram.

use std::fmt;

/// Bounds of vLLM's latency histograms of whole requests, in seconds.
pub(super) const REQUEST_BOUNDS: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
    960.0, 1920.0, 7680.0,
];
/// Bounds of `time_to_first_token_seconds`.
pub(super) const FIRST_TOKEN_BOUNDS: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
    80.0, 160.0, 640.0, 2560.0,
];
/// Bounds of `inter_token_latency_seconds`.
pub(super) const TOKEN_BOUNDS: &[f64] = &[
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
];

/// Counts of observations by bucket, their number and their sum.
#[derive(Debug)]
pub(super) struct Histogram {
    bounds: &'static [f64],
    /// One per bound and one for what is above the last; not cumulative.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    /// An empty histogram with these upper bounds.
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    /// Counts one value.
    pub(super) fn observe(&mut self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket] += 1;
        self.sum += value;
    }

    /// Writes the samples of the family `vllm:{name}`.
    pub(super) fn write(&self, page: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
        let mut total = 0;
        for (index, count) in self.counts.iter().enumerate() {
            total += count;
            let bound =
                self.bounds.get(index).map_or_else(|| "+Inf".to_owned(), |bound| format!("{bound:?}"));
            writeln!(
                page,
                "vllm:{name}_bucket{{engine=\"0\",le=\"{bound}\",model_name=\"simulated\"}} {:?}",
                total as f64
            )?;
        }
        writeln!(page, "vllm:{name}_count{{engine=\"0\",model_name=\"simulated\"}} {:?}", total as f64)?;
        writeln!(page, "vllm:{name}_sum{{engine=\"0\",model_name=\"simulated\"}} {:?}", self.sum)
    }
}
