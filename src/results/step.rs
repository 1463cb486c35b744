//! A step: what its passes say together.

use serde_json::{Value, json};

use super::row::{PassStatus, Row};
use super::stats::{Sample, Spread};
use crate::run::plan::Step;
use crate::run::state::State;

/// Whether a step may stand in a ranking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The baseline, and it meets the quality rule.
    Reference,
    /// Same fixed inputs, same quality rule met.
    Comparable,
    /// Not ranked, and why.
    NotComparable(&'static str),
}

impl Standing {
    /// Words for the table.
    pub fn words(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Comparable => "comparable",
            Self::NotComparable(why) => why,
        }
    }
}

/// What the passes of a step say together.
#[derive(Debug, Clone)]
pub struct StepSummary<'s> {
    /// Its index in the run, from 0.
    pub index: usize,
    /// The step.
    pub step: &'s Step,
    /// Passes that are complete.
    pub complete: usize,
    /// Those of them that were resumed: their answers count, their times do not.
    pub resumed: usize,
    /// Whether it may be ranked.
    pub standing: Standing,
    rows: Vec<&'s Row<'s>>,
}

/// The summaries of all steps, in the order of the plan and then of the decisions that opened them. `rows` are those of
/// the same state.
pub fn summaries<'s>(state: &'s State, rows: &'s [Row<'s>]) -> Vec<StepSummary<'s>> {
    let of_step = |index| rows.iter().filter(move |row| row.step_index == index);
    let summaries = state.steps.iter().enumerate().map(|(index, step)| {
        let all: Vec<_> = of_step(index).collect();
        let complete: Vec<_> = all.iter().copied().filter(|row| row.status == PassStatus::Complete).collect();
        let standing = standing(&step.step, &all, &complete, step.skipped);
        let resumed = complete.iter().filter(|row| row.resumed()).count();
        StepSummary { index, step: &step.step, complete: complete.len(), resumed, standing, rows: complete }
    });
    summaries.collect()
}

fn standing(step: &Step, all: &[&Row<'_>], complete: &[&Row<'_>], skipped: bool) -> Standing {
    if complete.is_empty() {
        return Standing::NotComparable(match (skipped, all.is_empty()) {
            (true, _) => "skipped",
            (false, true) => "not taken",
            (false, false) => "no complete pass",
        });
    }
    if !meets_quality(complete) {
        return Standing::NotComparable("quality not met");
    }
    if complete.iter().any(|row| row.cache_contradiction) {
        return Standing::NotComparable("prefix cache not isolated");
    }
    if complete.iter().all(|row| row.resumed()) {
        return Standing::NotComparable("resumed: no undisturbed pass");
    }
    if step.departs.is_none() { Standing::Reference } else { Standing::Comparable }
}

/// Whether there is a complete pass and each of them reached the threshold.
fn meets_quality(complete: &[&Row<'_>]) -> bool {
    !complete.is_empty() && complete.iter().all(|row| row.quality_met == Some(true))
}

impl<'s> StepSummary<'s> {
    /// Whether the step has a complete pass and each of its complete passes reached the quality threshold.
    pub fn quality_met(&self) -> bool {
        meets_quality(&self.rows)
    }

    /// Spread of a figure that is no time, over the complete passes; `None` unless each of them has it.
    pub fn spread(&self, figure: impl Fn(&Row<'s>) -> Option<f64>) -> Option<Spread> {
        spread(self.rows.iter().copied(), figure)
    }

    /// Spread of a time or a rate, over the complete passes that were not resumed; `None` unless each of them has it.
    pub fn timing(&self, figure: impl Fn(&Row<'s>) -> Option<f64>) -> Option<Spread> {
        spread(self.undisturbed(), figure)
    }

    /// The complete passes that were not resumed.
    pub fn undisturbed(&self) -> impl Iterator<Item = &'s Row<'s>> {
        self.rows.iter().copied().filter(|row| !row.resumed())
    }

    /// The complete passes.
    pub fn rows(&self) -> &[&'s Row<'s>] {
        &self.rows
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "step": self.index + 1,
            "label": self.step.label,
            "concurrency": self.step.setting.concurrency,
            "passes": self.complete,
            "resumed": self.resumed,
            "standing": self.standing.words(),
            "accepted_share": self.spread(|row| row.accepted_share),
            "accepted_per_hour": self.timing(Row::accepted_per_hour),
            "first_token_p50_s": self.timing(|row| row.first_token(50).value()),
            "first_token_p90_s": self.timing(|row| row.first_token(90).value()),
            "whole_answer_p50_s": self.timing(|row| row.whole_answer.percentile(50).value()),
            "whole_answer_p95_s": self.timing(|row| row.whole_answer.percentile(95).value()),
            "prefix_hit_rate": self.spread(Row::hit_rate),
        })
    }
}

fn spread<'s>(
    rows: impl Iterator<Item = &'s Row<'s>>,
    figure: impl Fn(&Row<'s>) -> Option<f64>,
) -> Option<Spread> {
    rows.map(figure).collect::<Option<Sample>>()?.spread()
}
