//! The table that a person reads at the end of a run: one row per step, spread over its passes.

use comfy_table::{ContentArrangement, Table, presets};

use super::row::{PassStatus, Row};
use super::stats::Spread;
use super::step::StepSummary;
use crate::protocol::FailureReason;
use crate::run::state::State;

/// The steps as text, two lines each. `width` is that of the terminal, if there is one.
pub fn text(state: &State, rows: &[Row<'_>], steps: &[StepSummary<'_>], width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(width.unwrap_or(120));
    table.set_header([
        "step\npasses",
        "accepted %\nper hour",
        "first token s",
        "whole answer s",
        "verdict\nfailed",
    ]);
    for step in steps {
        let share = step.spread(|row| row.accepted_share).map(|s| format!("{} %", shown(s, 100.0, 1)));
        let rate = step.timing(Row::accepted_per_hour).map(|s| format!("{} /h", shown(s, 1.0, 0)));
        let first = |percent| step.timing(|row| row.first_token(percent).value());
        let whole = |percent| step.timing(|row| row.whole_answer.percentile(percent).value());
        table.add_row([
            format!("{}\n{} of {}{}", step.step.label, step.complete, planned(rows, step), resumed(step)),
            format!("{}\n{}", or_unknown(share), or_unknown(rate)),
            format!("p50 {}\np90 {}", time(first(50)), time(first(90))),
            format!("p50 {}\np95 {}", time(whole(50)), time(whole(95))),
            format!("{}\n{}", verdict(step), failures(step)),
        ]);
    }
    format!("{}{table}\n{}", heading(state), footing(state, rows))
}

fn or_unknown(shown: Option<String>) -> String {
    shown.unwrap_or_else(|| "n/a".to_owned())
}

fn time(spread: Option<Spread>) -> String {
    or_unknown(spread.map(|spread| shown(spread, 1.0, 3)))
}

/// Passes that were planned, and those that a decision added.
fn planned(rows: &[Row<'_>], step: &StepSummary<'_>) -> u32 {
    step.step.repetitions.max(passes_of(rows, step))
}

/// Passes whose times do not count, if there are any.
fn resumed(step: &StepSummary<'_>) -> String {
    if step.resumed == 0 { String::new() } else { format!(", {} resumed", step.resumed) }
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
        "{simulated}{} · {engine} · {} · {} documents · threshold {:.1} % · fingerprint {}\n",
        started.protocol,
        started.model,
        started.documents,
        started.threshold * 100.0,
        started.fingerprint.get(..12).unwrap_or(&started.fingerprint),
    )
}

fn footing(state: &State, rows: &[Row<'_>]) -> String {
    let mut lines = vec![
        "Over several passes: min · median · max. Failures are summed over passes. `aforo columns` defines each figure."
            .to_owned(),
    ];
    let samples =
        rows.iter().filter(|row| row.status == PassStatus::Complete).map(|row| row.first_token.len());
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
    let hits = step.spread(Row::hit_rate).map(|s| format!(" · cache hits {} %", shown(s, 100.0, 1)));
    format!("{}{deadline}{}", step.standing.words(), hits.unwrap_or_default())
}

fn failures(step: &StepSummary<'_>) -> String {
    let counts = FailureReason::ALL
        .map(|reason| (reason, step.rows().iter().map(|row| row.failed(reason)).sum::<u64>()));
    let shown: Vec<_> =
        counts.iter().filter(|(_, n)| *n > 0).map(|(reason, n)| format!("{reason} {n}")).collect();
    if shown.is_empty() { "nothing failed".to_owned() } else { format!("failed: {}", shown.join(", ")) }
}

/// One value when there is one pass or no spread; `min · median · max` otherwise.
fn shown(spread: Spread, factor: f64, decimals: usize) -> String {
    let [min, median, max] = [spread.min, spread.median, spread.max]
        .map(|value| grouped(&format!("{:.decimals$}", value * factor)));
    if min == max { median } else { format!("{min} · {median} · {max}") }
}

/// A number with its thousands set apart by spaces.
pub fn grouped(number: &str) -> String {
    let whole = number.find('.').unwrap_or(number.len());
    let mut grouped = String::with_capacity(number.len() + whole / 3);
    for (at, digit) in number.char_indices() {
        let left = whole.saturating_sub(at);
        if at > 0 && left > 0 && left % 3 == 0 && grouped.ends_with(|c: char| c.is_ascii_digit()) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn thousands_are_set_apart_and_nothing_else() {
        for (number, shown) in [
            ("0", "0"),
            ("999", "999"),
            ("1000", "1 000"),
            ("1234567.125", "1 234 567.125"),
            ("-100000", "-100 000"),
        ] {
            assert_eq!(grouped(number), shown);
        }
    }
}
