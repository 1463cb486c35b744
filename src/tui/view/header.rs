//! The line at the top: which run, on what, and how it stands.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::Widget as _;

use super::{Scene, number};
use crate::tui::model::Connection;
use crate::tui::theme::Role;

pub(super) fn draw(scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let seen = scene.model.shown();
    let run = &seen.run;
    let (word, role) = standing(scene);
    let mut right = Vec::new();
    if let Some(age) = scene.model.frozen_for() {
        right.push(scene.span(Role::Caution, format!(" FROZEN for {} s ", age.as_secs())));
    }
    if !run.steps.is_empty() {
        right.push(scene.span(Role::Header, format!(" step {}/{} ", run.current + 1, run.steps.len())));
    }
    right.push(scene.span(role, format!(" {word} ")));
    if let Some(elapsed) = seen.elapsed(scene.model.began) {
        right.push(scene.span(Role::Dim, format!(" {} ", number::clock(elapsed))));
    }
    let right = Line::from(right);
    let width = u16::try_from(right.width()).unwrap_or(u16::MAX);
    let [rest, end] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(width)]).areas(area);
    let mut left = vec![scene.span(Role::Header, " ")];
    if area.width >= 80 {
        left.push(scene.span(Role::Header, "aforo  "));
    }
    if run.simulated() {
        left.push(scene.span(Role::Simulated, " SIMULATED "));
        left.push(scene.span(Role::Header, " "));
    }
    if let Some(started) = &run.started {
        left.push(scene.span(Role::Header, started.protocol.clone()));
        let engine = run.engine.as_ref().and_then(|engine| engine.found.engine.as_deref());
        let engine = engine.unwrap_or("engine n/a");
        left.push(scene.span(Role::Dim, format!(" · {engine} · {}", started.model)));
    }
    Line::from(left).render(rest, buffer);
    right.render(end, buffer);
}

/// How the run stands, in a word or two.
pub(super) fn standing(scene: Scene<'_>) -> (&'static str, Role) {
    use crate::run::event::RunEnd;
    let seen = scene.model.shown();
    match (&seen.run.end, scene.model.connection) {
        (Some(RunEnd::Done), _) => ("DONE", Role::Good),
        (Some(RunEnd::Stopped), _) => ("STOPPED", Role::Caution),
        (Some(RunEnd::Failed { .. }), _) => ("FAILED", Role::Bad),
        (None, Connection::Lost) => ("RUNNER GONE", Role::Bad),
        (None, Connection::CatchingUp) => ("reading", Role::Dim),
        (None, _) if seen.run.started.is_none() => ("starting", Role::Dim),
        (None, _) if seen.trouble.is_some() => ("PAUSED", Role::Bad),
        (None, _) if seen.run.gate.is_some() => ("GATE", Role::Gate),
        (None, _) if seen.run.paused => ("pausing", Role::Caution),
        (None, _) => ("measuring", Role::Good),
    }
}
