//! From a protocol to its steps.

use serde::{Deserialize, Serialize};

use crate::protocol::{Parameter, Protocol, Setting};

/// The baseline, or one value of one sweep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// `baseline`, or the parameter and its value.
    pub label: String,
    /// What departs from the baseline; `None` for the baseline itself.
    pub departs: Option<Departure>,
    /// The whole setting.
    pub setting: Setting,
    /// Passes to be taken.
    pub repetitions: u32,
}

/// The one parameter that differs from the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Departure {
    /// Which.
    pub parameter: Parameter,
    /// Its value in this step.
    pub value: u32,
}

/// The steps of a protocol: the baseline, then each sweep's values in the order of the file.
pub fn steps(protocol: &Protocol) -> Vec<Step> {
    let repetitions = protocol.measure.repetitions;
    let baseline =
        Step { label: "baseline".to_owned(), departs: None, setting: protocol.baseline.clone(), repetitions };
    let departures = protocol
        .sweeps
        .iter()
        .flat_map(|sweep| sweep.values.iter().map(|&value| Departure { parameter: sweep.parameter, value }));
    let swept: Vec<_> = departures.map(|departure| Step::departing(&baseline, departure)).collect();
    std::iter::once(baseline).chain(swept).collect()
}

impl Step {
    /// The step in which one parameter departs from the baseline.
    pub fn departing(baseline: &Self, departs: Departure) -> Self {
        let Departure { parameter, value } = departs;
        Self {
            label: format!("{} {value}", parameter.word()),
            departs: Some(departs),
            setting: baseline.setting.with(parameter, value),
            repetitions: baseline.repetitions,
        }
    }
}

/// The highest concurrency that any step asks for.
pub fn highest_concurrency(steps: &[Step]) -> u32 {
    steps.iter().map(|step| step.setting.concurrency).max().unwrap_or(1)
}
