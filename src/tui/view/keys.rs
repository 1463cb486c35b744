//! The next key: what is being written, or what was wrong, or what can be pressed now.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget as _;

use super::Scene;
use crate::run::decision::Choice;
use crate::tui::action::{Action, Entry, TABLE, possible};
use crate::tui::model::{Asks, Connection, Prompt};
use crate::tui::theme::Role;

pub(super) fn draw(scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
    if let Some(prompt) = &scene.model.prompt {
        write(scene, prompt, area, buffer);
        return;
    }
    let mut lines = Vec::new();
    if let Some(notice) = &scene.model.notice {
        lines.push(Line::from(scene.span(Role::Caution, format!(" {notice}"))));
    }
    let mut line = Vec::new();
    let mut used = 0;
    for entry in offered(scene) {
        let spans = pair(scene, entry);
        let width: usize = spans.iter().map(Span::width).sum();
        if used + width > usize::from(area.width) && !line.is_empty() {
            lines.push(Line::from(std::mem::take(&mut line)));
            used = 0;
        }
        used += width;
        line.extend(spans);
    }
    lines.push(Line::from(line));
    let rows = area.rows();
    for (line, row) in lines.into_iter().zip(rows) {
        line.render(row, buffer);
    }
}

/// Decisions that are possible now, and what always is; what ends the run comes last.
fn offered(scene: Scene<'_>) -> Vec<&'static Entry> {
    let always = |action| TABLE.iter().filter(move |entry| entry.action == action);
    let run = &scene.model.shown().run;
    let live = matches!(scene.model.connection, Connection::Live);
    let decisions: Vec<_> = possible(run).filter(|_| live).collect();
    let ends = |entry: &&'static Entry| {
        matches!(entry.action, Action::Decide(Choice::Stop | Choice::StopAfterPass | Choice::Note))
    };
    let mut all: Vec<_> = decisions.iter().copied().filter(|entry| !ends(entry)).collect();
    all.extend(always(Action::Help));
    all.extend(always(Action::Leave));
    all.extend(decisions.into_iter().filter(ends));
    all
}

fn pair<'s>(scene: Scene<'s>, entry: &'static Entry) -> [Span<'s>; 3] {
    let leaves = entry.action == Action::Leave && scene.model.connection != Connection::Live;
    let short = if leaves { "leave" } else { entry.short };
    [
        scene.span(Role::Text, " "),
        scene.span(Role::Key, entry.keys.first().copied().unwrap_or_default()),
        scene.span(Role::Hint, format!(" {short}  ")),
    ]
}

fn write(scene: Scene<'_>, prompt: &Prompt, area: Rect, buffer: &mut Buffer) {
    let asks = match prompt.asks {
        Asks::Reason(choice) => format!(" {}: why? (may be empty) ", choice.word()),
        Asks::Value(parameter) => format!(" {} in a step of its own: value, perhaps why: ", parameter.word()),
        Asks::Note => " note: ".to_owned(),
    };
    let width = u16::try_from(asks.chars().count()).unwrap_or(u16::MAX).min(area.width);
    let [first, second] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    let [left, right] = Layout::horizontal([Constraint::Length(width), Constraint::Fill(1)]).areas(first);
    Line::from(scene.span(Role::Prompt, asks)).render(left, buffer);
    prompt.line.render(right, buffer);
    let keys = [("enter", "do it"), ("esc", "do nothing")].into_iter().flat_map(|(key, what)| {
        [
            scene.span(Role::Text, " "),
            scene.span(Role::Key, key),
            scene.span(Role::Hint, format!(" {what}  ")),
        ]
    });
    Line::from(keys.collect::<Vec<_>>()).render(second, buffer);
}
