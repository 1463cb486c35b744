//! What happened, the last at the bottom.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Widget as _};

use super::Scene;
use crate::tui::theme::Role;

pub(super) fn draw(scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let back = scene.model.back;
    let title = if back == 0 {
        "Messages, UTC".to_owned()
    } else {
        format!("Messages, UTC · {back} later ones below")
    };
    let block = scene.block(title);
    let inner = block.inner(area);
    block.render(area, buffer);
    draw_lines(scene, inner, buffer);
}

/// The same without a frame, for a small screen.
pub(super) fn draw_lines(scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let width = usize::from(area.width).max(1);
    let mut lines = Vec::new();
    if let Some(trouble) = &scene.model.shown().trouble {
        lines.extend(wrapped(&format!(" PAUSED: {trouble}"), width).map(|line| (line, Role::Bad)));
    }
    let shown = scene.model.messages.len().saturating_sub(scene.model.back);
    for message in scene.model.messages[..shown].iter().rev() {
        if lines.len() >= usize::from(area.height) {
            break;
        }
        let text = format!(" {}  {}", message.at.strftime("%H:%M:%S"), message.text);
        let whole: Vec<_> = wrapped(&text, width).map(|line| (line, message.role)).collect();
        lines.extend(whole.into_iter().rev());
    }
    lines.truncate(usize::from(area.height));
    let lines = lines.into_iter().rev().map(|(text, role)| Line::styled(text, scene.theme.style(role)));
    Paragraph::new(lines.collect::<Vec<_>>()).render(area, buffer);
}

fn wrapped(text: &str, width: usize) -> impl Iterator<Item = String> {
    let options = textwrap::Options::new(width)
        .subsequent_indent("           ")
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    let lines: Vec<_> = text
        .lines()
        .flat_map(|line| {
            textwrap::wrap(line, &options).into_iter().map(std::borrow::Cow::into_owned).collect::<Vec<_>>()
        })
        .collect();
    lines.into_iter()
}
