//! Requests: how many are under way, are still to come and have ended, as the client counts them.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Widget as _};

use super::Scene;
use crate::results::row::PassStatus;
use crate::run::state::State;
use crate::tui::figures::PassFigures;
use crate::tui::theme::Role;

/// Client counts of the pass that goes on.
struct Counts {
    active: Option<u32>,
    /// Not sent yet.
    waiting: Option<u64>,
    finished: u64,
    failed: u64,
}

fn counts(scene: Scene<'_>) -> Option<Counts> {
    let seen = scene.model.shown();
    let pass = seen.figures.pass.as_ref()?;
    let failed: u64 = pass.failed.iter().map(|(_, count)| count).sum();
    let ended = ended(&seen.run, pass);
    let active = seen.live.map(|live| live.in_flight);
    let planned = u64::try_from(pass.planned).unwrap_or(u64::MAX);
    // Of a pass that is over nothing is under way.
    let under_way = if pass.status == PassStatus::Running { active } else { Some(0) };
    let waiting = |under_way: u32| planned.saturating_sub(ended).saturating_sub(u64::from(under_way));
    Some(Counts {
        active,
        waiting: under_way.filter(|_| planned > 0).map(waiting),
        // From the same moment as the failures.
        finished: u64::try_from(pass.ended).unwrap_or(u64::MAX).saturating_sub(failed),
        failed,
    })
}

/// What ended by now: the figures may be a moment older.
fn ended(run: &State, pass: &PassFigures) -> u64 {
    let now = run.steps.get(run.current).and_then(|step| step.passes.last()).map(|pass| pass.requests.len());
    u64::try_from(now.unwrap_or(pass.ended)).unwrap_or(u64::MAX)
}

fn known(count: Option<impl std::fmt::Display>) -> String {
    count.map_or_else(|| "n/a".to_owned(), |count| count.to_string())
}

pub(super) fn draw(scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let lines: Vec<_> = match counts(scene) {
        None => vec![Line::from(scene.span(Role::Unknown, " no pass yet"))],
        Some(counts) => {
            let row = |what: &'static str, value: String| {
                Line::from(vec![
                    scene.span(Role::Text, format!(" {what:<10}")),
                    scene.span(Role::Number, format!("{value:>8}")),
                ])
            };
            vec![
                row("active", known(counts.active)),
                row("waiting", known(counts.waiting)),
                row("finished", counts.finished.to_string()),
                row("failed", counts.failed.to_string()),
            ]
        }
    };
    Paragraph::new(lines).block(scene.block("Requests, as the client counts them")).render(area, buffer);
}

pub(super) fn draw_failures(scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let failed = scene.model.shown().figures.pass.as_ref().map(|pass| pass.failed.as_slice());
    let lines: Vec<_> = match failed {
        None => vec![Line::from(scene.span(Role::Unknown, " no pass yet"))],
        Some([]) => vec![Line::from(scene.span(Role::Good, " nothing failed"))],
        Some(failed) => failed
            .chunks(2)
            .map(|pair| {
                let spans = pair.iter().flat_map(|(reason, count)| {
                    [
                        scene.span(Role::Text, format!(" {:<12}", reason.to_string())),
                        scene.span(Role::Caution, format!("{count:>7}     ")),
                    ]
                });
                Line::from(spans.collect::<Vec<_>>())
            })
            .collect(),
    };
    Paragraph::new(lines).block(scene.block("Failures of this pass, by reason")).render(area, buffer);
}

/// Two lines for a small screen.
pub(super) fn draw_lines(scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let lines = match counts(scene) {
        None => vec![Line::from(scene.span(Role::Unknown, " no pass yet"))],
        Some(counts) => {
            let part = |what: &'static str, value: String| {
                [scene.span(Role::Text, format!(" {what} ")), scene.span(Role::Number, value)]
            };
            let all = [
                part("active", known(counts.active)),
                part(" waiting", known(counts.waiting)),
                part(" finished", counts.finished.to_string()),
                part(" failed", counts.failed.to_string()),
            ];
            let failed = &scene.model.shown().figures.pass.as_ref().map(|pass| &pass.failed);
            let reasons = failed.iter().flat_map(|failed| failed.iter());
            let reasons =
                reasons.fold(String::new(), |all, (reason, count)| format!("{all}  {reason} {count}"));
            vec![Line::from(all.concat()), Line::from(scene.span(Role::Caution, format!("{reasons:>1}")))]
        }
    };
    Paragraph::new(lines).render(area, buffer);
}
