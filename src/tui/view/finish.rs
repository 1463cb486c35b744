//! What every cell goes through before it reaches the terminal: text from outside steers nothing, and a terminal gets no
//! colour and no character that it cannot show.

use ratatui::buffer::Buffer;
use ratatui::style::Color;

use crate::terminal::capabilities::{Capabilities, Colours};
use crate::terminal::safe::steers;

pub(super) fn finish(buffer: &mut Buffer, capabilities: Capabilities) {
    for cell in &mut buffer.content {
        if cell.symbol().chars().any(steers) {
            cell.set_symbol("?");
        }
        if !capabilities.unicode && !cell.symbol().is_ascii() {
            cell.set_symbol(in_ascii(cell.symbol()));
        }
        if capabilities.colours == Colours::None {
            (cell.fg, cell.bg) = (Color::Reset, Color::Reset);
        }
    }
}

/// What stands for a character where there is only ASCII.
fn in_ascii(symbol: &str) -> &'static str {
    match symbol {
        "─" | "━" | "–" | "·" => "-",
        "│" => "|",
        "┌" | "┐" | "└" | "┘" | "┬" | "┴" | "├" | "┤" => "+",
        "█" => "#",
        "░" => ".",
        "…" | "±" => "~",
        "✓" => "v",
        "▸" | "≥" => ">",
        "×" => "x",
        _ => "?",
    }
}
