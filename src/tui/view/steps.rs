//! The steps with their state and headline figures.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Row, StatefulWidget, Table, TableState, Widget as _};

use super::{Scene, number};
use crate::tui::figures::{Progress, StepFigures};
use crate::tui::theme::Role;

fn mark(progress: Progress) -> &'static str {
    match progress {
        Progress::Current => "▸",
        Progress::Taken => "✓",
        Progress::LeftOut => "–",
        Progress::ToCome => "·",
    }
}

fn verdict(scene: Scene<'_>, step: &StepFigures) -> &'static str {
    let waits = scene.model.shown().run.gate.is_some();
    match step.progress {
        Progress::LeftOut => "left out",
        Progress::ToCome => "to come",
        Progress::Current if step.complete == 0 && waits => "waits for a decision",
        Progress::Current if step.complete == 0 => "being taken",
        _ => step.standing.words(),
    }
}

fn style(scene: Scene<'_>, step: &StepFigures) -> Style {
    scene.theme.style(match step.progress {
        Progress::Current => Role::Current,
        Progress::Taken => Role::Text,
        Progress::LeftOut | Progress::ToCome => Role::Dim,
    })
}

pub(super) fn draw(scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let steps = &scene.model.shown().figures.steps;
    let rows = steps.iter().map(|step| {
        Row::new([
            format!("{} {}", mark(step.progress), step.label),
            format!("{}/{}", step.complete, step.wanted),
            number::middle(step.accepted, number::share),
            number::middle(step.per_hour, number::rate),
            number::middle(step.first_token, number::seconds),
            verdict(scene, step).to_owned(),
        ])
        .style(style(scene, step))
    });
    let widths = [
        Constraint::Min(24),
        Constraint::Length(7),
        Constraint::Length(10),
        Constraint::Length(12),
        Constraint::Length(16),
        Constraint::Min(26),
    ];
    let head = ["  step", "passes", "accepted", "per hour", "first token p90", "verdict"];
    let table = Table::new(rows, widths)
        .header(Row::new(head).style(scene.theme.style(Role::Dim)))
        .row_highlight_style(scene.theme.style(Role::Selected))
        .block(scene.block("Steps, median of their passes"));
    let mut state = TableState::new().with_selected(selected(scene));
    if scene.model.chosen.is_none() {
        // The step that is taken is kept in sight without being marked as chosen.
        state = state.with_offset(offset(scene, usize::from(area.height.saturating_sub(3))));
    }
    StatefulWidget::render(table, area, buffer, &mut state);
}

fn selected(scene: Scene<'_>) -> Option<usize> {
    let last = scene.model.shown().figures.steps.len().checked_sub(1)?;
    scene.model.chosen.map(|chosen| chosen.min(last))
}

/// The first line that is shown, so that the current step is.
fn offset(scene: Scene<'_>, room: usize) -> usize {
    let seen = scene.model.shown();
    let focus = scene.model.chosen.unwrap_or(seen.run.current);
    let most = seen.figures.steps.len().saturating_sub(room);
    focus.saturating_sub(room / 2).min(most)
}

/// A list for a small screen.
pub(super) fn draw_lines(scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let steps = &scene.model.shown().figures.steps;
    let room = usize::from(area.height.saturating_sub(1));
    let head = format!("   {:<22} {:>6} {:>9} {:>11}  verdict", "step", "passes", "accepted", "per hour");
    let lines = steps.iter().enumerate().skip(offset(scene, room)).map(|(index, step)| {
        let text = format!(
            " {} {:<22} {:>6} {:>9} {:>11}  {}",
            mark(step.progress),
            step.label,
            format!("{}/{}", step.complete, step.wanted),
            number::middle(step.accepted, number::share),
            number::middle(step.per_hour, number::rate),
            verdict(scene, step),
        );
        let chosen = selected(scene) == Some(index);
        Line::styled(text, if chosen { scene.theme.style(Role::Selected) } else { style(scene, step) })
    });
    let lines = std::iter::once(Line::styled(head, scene.theme.style(Role::Dim))).chain(lines);
    Paragraph::new(lines.collect::<Vec<_>>()).render(area, buffer);
}
