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
    for step in in_reading_order(steps) {
        let share = step.spread(|row| row.accepted_share).map(|s| format!("{} %", shown(s, 100.0, 1)));
        let rate = step.timing(Row::accepted_per_hour).map(|s| format!("{} /h", shown(s, 1.0, 0)));
        let first = |percent| step.timing(|row| row.first_token(percent).value());
        let whole = |percent| step.timing(|row| row.whole_answer.percentile(percent).value());
        table.add_row([
            format!("{}\n{}", step.step.label, passes(rows, step)),
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

/// The baseline, then each parameter's steps by value: a value that was set at a gate stands between its neighbours.
fn in_reading_order<'t, 's>(steps: &'t [StepSummary<'s>]) -> Vec<&'t StepSummary<'s>> {
    let swept = |step: &StepSummary<'_>| step.step.departs.map(|departs| departs.parameter);
    let first = |step: &StepSummary<'_>| steps.iter().position(|other| swept(other) == swept(step));
    let mut ordered: Vec<_> = steps.iter().collect();
    // A stable sort: steps of the same value keep the order in which they were taken.
    ordered.sort_by_key(|step| (first(step), step.step.departs.map(|departs| departs.value)));
    ordered
}

/// Complete passes, those that were planned with those that a decision added, and how many were resumed.
fn passes(rows: &[Row<'_>], step: &StepSummary<'_>) -> String {
    let begun = rows.iter().filter(|row| row.step_index == step.index).count();
    let planned = usize::try_from(step.step.repetitions).unwrap_or(usize::MAX).max(begun);
    let resumed = if step.resumed > 0 { format!(", {} resumed", step.resumed) } else { String::new() };
    format!("{} of {planned}{resumed}", step.complete)
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
    lines.extend(rows.iter().filter_map(broken_off));
    if rows.iter().any(Row::resumed) {
        lines.push("Times and rates are of the passes that were not resumed.".to_owned());
    }
    for caution in &state.cautions {
        lines.push(format!("caution: {caution}"));
    }
    lines.join("\n") + "\n"
}

/// What a row of the table does not tell: that a pass was cut and by what, and what the clocks did meanwhile.
fn broken_off(row: &Row<'_>) -> Option<String> {
    let mut what = Vec::new();
    match (row.cut_by(), row.status) {
        (Some(cause), _) => what.push(format!("cut: {cause}")),
        (None, PassStatus::Stopped | PassStatus::Interrupted) => what.push(row.status.word().to_owned()),
        _ => {}
    }
    if row.resumed() {
        what.push(format!("taken in {} attempts", row.pass.attempts));
    }
    what.extend(row.pass.drifts.iter().map(ToString::to_string));
    let place = format!("step {} ({}), pass {}", row.step_index + 1, row.step.label, row.pass.number);
    (!what.is_empty()).then(|| format!("{place}: {}", what.join("; ")))
}

fn verdict(step: &StepSummary<'_>) -> String {
    let missed = step.undisturbed().any(|row| row.deadlines_kept() == Some(false));
    let deadline = if missed { ", deadline missed" } else { "" };
    let hits = step.spread(Row::hit_rate).map(|s| format!(" · cache hits {} %", shown(s, 100.0, 1)));
    format!("{}{deadline}{}", step.standing.words(), hits.unwrap_or_default())
}

fn failures(step: &StepSummary<'_>) -> String {
    if step.rows().is_empty() {
        return String::new();
    }
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
