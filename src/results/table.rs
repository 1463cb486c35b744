//! The table that a person reads at the end of a run: one row per step, spread over its passes.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::row::{PassStatus, Row};
use super::stats::Spread;
use super::step::StepSummary;
use crate::protocol::FailureReason;
use crate::run::state::State;

/// The steps as text. `width` is that of the terminal, if there is one.
pub fn text(state: &State, rows: &[Row<'_>], steps: &[StepSummary<'_>], width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(width.unwrap_or(140));
    table.set_header([
        "step", "passes", "accepted %", "accepted / h", "first token s\np50", "\np90", "whole answer s\np50", "\np95",
        "cache hits %", "failed", "verdict",
    ]);
    for step in steps {
        let percent = |spread: Option<Spread>| spread.map(|s| shown(s, 100.0, 1));
        let cells = [
            Some(step.step.label.clone()),
            Some(format!("{}/{}", step.complete, step.step.repetitions.max(passes_of(rows, step)))),
            percent(step.spread(|row| row.accepted_share)),
            step.spread(|row| row.accepted_per_hour()).map(|s| shown(s, 1.0, 0)),
            step.spread(|row| row.first_token(50).value()).map(|s| shown(s, 1.0, 3)),
            step.spread(|row| row.first_token(90).value()).map(|s| shown(s, 1.0, 3)),
            step.spread(|row| row.whole_answer.percentile(50).value()).map(|s| shown(s, 1.0, 3)),
            step.spread(|row| row.whole_answer.percentile(95).value()).map(|s| shown(s, 1.0, 3)),
            percent(step.spread(|row| row.hit_rate())),
            Some(failures(step)),
            Some(verdict(step)),
        ];
        table.add_row(cells.map(|cell| cell.unwrap_or_else(|| "n/a".to_owned())));
    }
    for column in table.column_iter_mut().skip(2).take(7) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{}{table}\n{}", heading(state), footing(state, rows))
}

fn passes_of(rows: &[Row<'_>], step: &StepSummary<'_>) -> u32 {
    let passes = rows.iter().filter(|row| std::ptr::eq(row.step, step.step)).count();
    u32::try_from(passes).unwrap_or(u32::MAX)
}

fn heading(state: &State) -> String {
    let Some(started) = &state.started else { return String::new() };
    let engine = state.engine.as_ref().and_then(|e| e.found.engine.as_deref()).unwrap_or("unknown engine");
    let simulated = if state.simulated() { "SIMULATED: nothing below was measured on a model\n" } else { "" };
    format!(
        "{simulated}{} · {engine} · {} · {} documents · threshold {} % · fingerprint {}\n",
        started.protocol,
        started.model,
        started.documents,
        trimmed(started.threshold * 100.0, 1),
        started.fingerprint.get(..12).unwrap_or(&started.fingerprint),
    )
}

fn footing(state: &State, rows: &[Row<'_>]) -> String {
    let mut lines = vec![
        "Over several passes a figure is shown as min · median · max. Each is defined by `aforo columns`.".to_owned(),
    ];
    let samples = rows.iter().filter(|row| row.status == PassStatus::Complete).map(|row| row.first_token.len());
    if let Some(fewest) = samples.min()
        && fewest < 130
    {
        lines.push(format!(
            "n/a under a percentile: {fewest} answers are too few (p50 from 10, p90 from 64, p95 from 130)."
        ));
    }
    for caution in &state.cautions {
        lines.push(format!("caution: {caution}"));
    }
    lines.join("\n") + "\n"
}

fn verdict(step: &StepSummary<'_>) -> String {
    let missed = step.rows().iter().any(|row| row.deadlines_kept() == Some(false));
    let deadline = if missed { ", deadline missed" } else { "" };
    format!("{}{deadline}", step.standing.words())
}

fn failures(step: &StepSummary<'_>) -> String {
    let counts = FailureReason::ALL.map(|reason| (reason, step.rows().iter().map(|row| row.failed(reason)).sum::<u64>()));
    let shown: Vec<_> =
        counts.iter().filter(|(_, n)| *n > 0).map(|(reason, n)| format!("{reason} {n}")).collect();
    if shown.is_empty() { "0".to_owned() } else { shown.join(", ") }
}

/// One value when there is one pass or no spread; `min · median · max` otherwise.
fn shown(spread: Spread, factor: f64, decimals: usize) -> String {
    let [min, median, max] = [spread.min, spread.median, spread.max].map(|v| trimmed(v * factor, decimals));
    if min == max { median } else { format!("{min} · {median} · {max}") }
}

fn trimmed(value: f64, decimals: usize) -> String {
    format!("{value:.decimals$}")
}
