//! The list of keys, made from the table of actions.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Flex, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Clear, Paragraph, Widget as _, Wrap};

use super::Scene;
use crate::tui::action::TABLE;
use crate::tui::theme::Role;

pub(super) fn draw(scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let lines: Vec<_> = TABLE
        .iter()
        .map(|entry| {
            Line::from(vec![
                scene.span(Role::Key, format!(" {:<10}", entry.keys.join(" "))),
                scene.span(Role::Hint, format!("{:<17}", entry.short)),
                scene.span(Role::Text, entry.long),
            ])
        })
        .collect();
    let height = super::height(lines.len() + 2);
    let [row] = Layout::vertical([Constraint::Max(height)]).flex(Flex::Center).areas(area);
    let [place] = Layout::horizontal([Constraint::Max(108)]).flex(Flex::Center).areas(row);
    Clear.render(place, buffer);
    let block = scene.block("Keys: what is not possible now is refused, and says why");
    Paragraph::new(lines).block(block).wrap(Wrap { trim: false }).render(place, buffer);
}
