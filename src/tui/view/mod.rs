//! Draws a model: the same quantity always at the same place with the same unit, the next key always visible.
//!
//! ```text
//!  full, from 120x32          compact, from 80x20        minimal, from 40x10
//!  header                     header                     header
//!  requests | pass            requests                   verdict
//!  this step                  this step                  rate
//!  steps                      steps                      how far
//!  messages                   messages                   message
//!  keys                       keys                       keys
//! ```

mod finish;
mod header;
mod help;
mod keys;
mod messages;
mod number;
mod pass;
mod requests;
mod steps;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Widget as _};

use super::model::Model;
use super::theme::{Role, Theme};
use crate::terminal::capabilities::Capabilities;

/// How much fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    Full,
    Compact,
    Minimal,
    TooSmall,
}

impl Size {
    fn of(area: Rect) -> Self {
        match (area.width, area.height) {
            (120.., 32..) => Self::Full,
            (80.., 20..) => Self::Compact,
            (40.., 10..) => Self::Minimal,
            _ => Self::TooSmall,
        }
    }
}

/// What the panes draw from.
#[derive(Clone, Copy)]
struct Scene<'m> {
    model: &'m Model,
    theme: &'m Theme,
}

impl<'m> Scene<'m> {
    fn span(self, role: Role, text: impl Into<std::borrow::Cow<'m, str>>) -> Span<'m> {
        Span::styled(text, self.theme.style(role))
    }

    fn block(self, title: impl Into<String>) -> Block<'m> {
        Block::bordered()
            .border_style(self.theme.style(Role::Border))
            .title(Span::styled(format!(" {} ", title.into()), self.theme.style(Role::Title)))
    }
}

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, model: &Model, theme: &Theme, capabilities: Capabilities) {
    let area = frame.area();
    let buffer = frame.buffer_mut();
    buffer.set_style(area, theme.style(Role::Text));
    let scene = Scene { model, theme };
    match Size::of(area) {
        Size::Full => full(scene, area, buffer),
        Size::Compact => compact(scene, area, buffer),
        Size::Minimal => minimal(scene, area, buffer),
        Size::TooSmall => {
            let text = format!("aforo needs 40x10, this is {}x{}", area.width, area.height);
            Line::from(scene.span(Role::Caution, text)).render(area, buffer);
        }
    }
    if model.help {
        help::draw(scene, area, buffer);
    }
    finish::finish(buffer, capabilities);
}

fn full(scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let steps = height(scene.model.shown().run.steps.len() + 3);
    let [top, first, second, third, fourth, bottom] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(6),
        Constraint::Length(8),
        Constraint::Max(steps),
        Constraint::Min(4),
        Constraint::Length(2),
    ])
    .areas(area);
    header::draw(scene, top, buffer);
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(first);
    requests::draw(scene, left, buffer);
    requests::draw_failures(scene, right, buffer);
    pass::draw(scene, second, buffer);
    steps::draw(scene, third, buffer);
    messages::draw(scene, fourth, buffer);
    keys::draw(scene, bottom, buffer);
}

fn compact(scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let steps = height(scene.model.shown().run.steps.len() + 1);
    let [top, first, second, third, fourth, bottom] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(2),
        Constraint::Length(5),
        Constraint::Max(steps),
        Constraint::Min(3),
        Constraint::Length(2),
    ])
    .areas(area);
    header::draw(scene, top, buffer);
    requests::draw_lines(scene, first, buffer);
    pass::draw_lines(scene, second, buffer);
    steps::draw_lines(scene, third, buffer);
    messages::draw_lines(scene, fourth, buffer);
    keys::draw(scene, bottom, buffer);
}

fn minimal(scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let keys = if area.height >= 12 { 4 } else { 3 };
    let [top, first, second, bottom] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(4),
        Constraint::Min(1),
        Constraint::Length(keys),
    ])
    .areas(area);
    header::draw(scene, top, buffer);
    pass::draw_few(scene, first, buffer);
    messages::draw_lines(scene, second, buffer);
    keys::draw(scene, bottom, buffer);
}

fn height(lines: usize) -> u16 {
    u16::try_from(lines).unwrap_or(u16::MAX)
}
