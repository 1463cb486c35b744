//! The pass that goes on: is it going well, how far, how fast.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Widget as _};

use super::{Scene, number};
use crate::measure::Phase;
use crate::protocol::DeadlineFigure;
use crate::results::row::PassStatus;
use crate::results::stats::Percentile;
use crate::tui::figures::{PERCENTILES, PassFigures};
use crate::tui::theme::Role;

/// Width of the names before the values.
const NAMES: usize = 14;

pub(super) fn draw(scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let lines = lines(scene, usize::from(area.width.saturating_sub(4)));
    Paragraph::new(lines).block(scene.block(title(scene))).render(area, buffer);
}

/// The same without a frame and with less beside each figure, for a small screen.
pub(super) fn draw_lines(scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let title = Line::from(scene.span(Role::Title, format!(" {}", title(scene))));
    let lines = lines(scene, usize::from(area.width.saturating_sub(2)));
    Paragraph::new(std::iter::once(title).chain(lines).collect::<Vec<_>>()).render(area, buffer);
}

/// Verdict, rate and how far, for the smallest screen.
pub(super) fn draw_few(scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let Some(pass) = &scene.model.shown().figures.pass else {
        Line::from(scene.span(Role::Unknown, " no pass yet")).render(area, buffer);
        return;
    };
    let width = usize::from(area.width.saturating_sub(2));
    let (verdict, role) = verdict(scene, pass);
    let lines = vec![
        Line::from(scene.span(Role::Title, format!(" {}", title(scene)))),
        Line::from(vec![
            scene.span(Role::Number, format!(" {} ", accepted(pass))),
            scene.span(role, verdict),
        ]),
        Line::from(scene.span(Role::Number, format!(" {}", rate(pass)))),
        bar(scene, pass, width),
    ];
    Paragraph::new(lines).render(area, buffer);
}

fn title(scene: Scene<'_>) -> String {
    let seen = scene.model.shown();
    let Some(step) = seen.run.steps.get(seen.run.current) else { return "no step yet".to_owned() };
    let differs = match step.step.departs {
        None => "the first setting",
        Some(_) => "nothing else differs from the baseline",
    };
    let Some(pass) = &seen.figures.pass else { return format!("{} · {differs}", step.step.label) };
    let attempts = if pass.attempts > 1 { format!(", attempt {}", pass.attempts) } else { String::new() };
    format!("{} · pass {} of {}{attempts} · {differs}", step.step.label, pass.number, step.wanted)
}

fn lines<'s>(scene: Scene<'s>, width: usize) -> Vec<Line<'s>> {
    let seen = scene.model.shown();
    let Some(pass) = &seen.figures.pass else {
        return vec![Line::from(scene.span(Role::Unknown, " nothing was sent yet"))];
    };
    let named = |name: &'static str, rest: Vec<Span<'s>>| {
        let name = scene.span(Role::Text, format!(" {name:<NAMES$}"));
        Line::from(std::iter::once(name).chain(rest).collect::<Vec<_>>())
    };
    let is_wide = width >= 110;
    let (verdict, role) = verdict(scene, pass);
    let threshold = seen.run.started.as_ref().map(|started| number::share(started.threshold));
    let times = |figure, values: &[Percentile; 3]| {
        let mut spans: Vec<_> = PERCENTILES
            .iter()
            .zip(values)
            .map(|(percent, value)| {
                let role = if value.value().is_some() { Role::Number } else { Role::Unknown };
                let shown = number::percentile(*value);
                let shown = if is_wide { format!("{shown:<16}") } else { format!("{shown}  ") };
                scene.span(role, format!("p{percent} {shown}"))
            })
            .collect();
        spans.extend(deadlines(scene, pass, figure, is_wide));
        spans
    };
    let cache =
        pass.hit_rate.map_or_else(|| "hits n/a".to_owned(), |rate| format!("{} hits", number::share(rate)));
    vec![
        bar(scene, pass, width),
        named(
            "accepted",
            vec![
                scene.span(Role::Number, format!("{:<24}", accepted(pass))),
                scene.span(Role::Dim, format!("threshold {}  ", threshold.unwrap_or_default())),
                scene.span(role, verdict),
            ],
        ),
        named(
            "rate",
            vec![
                scene.span(Role::Number, format!("{:<36}", rate(pass))),
                scene.span(Role::Text, format!("ids {} / {}", pass.ids, pass.documents)),
                scene.span(Role::Text, format!(" · duplicates {}", pass.duplicates)),
            ],
        ),
        named("first token", times(DeadlineFigure::FirstToken, &pass.first_token)),
        named("whole answer", times(DeadlineFigure::WholeAnswer, &pass.whole_answer)),
        named(
            "prefix cache",
            vec![scene.span(Role::Text, format!("{} · {cache}", pass.isolation.unwrap_or("n/a")))],
        ),
    ]
}

fn accepted(pass: &PassFigures) -> String {
    let ended = if pass.status == PassStatus::Complete { pass.documents } else { pass.ended };
    let share = if ended == 0 {
        String::new()
    } else {
        format!("  {}", number::share(pass.accepted as f64 / ended as f64))
    };
    format!("{} / {ended}{share}", pass.accepted)
}

fn rate(pass: &PassFigures) -> String {
    pass.per_hour.map_or_else(
        || if pass.attempts > 1 { "n/a: the pass was resumed" } else { "n/a" }.to_owned(),
        |rate| {
            let so_far = if pass.status == PassStatus::Running { " so far" } else { "" };
            format!("{} accepted per hour{so_far}", number::rate(rate))
        },
    )
}

/// Whether the threshold is met; before the end, whether it still can be and will be.
fn verdict(scene: Scene<'_>, pass: &PassFigures) -> (&'static str, Role) {
    let Some(started) = &scene.model.shown().run.started else { return ("", Role::Text) };
    let needed = started.threshold * pass.documents as f64;
    let accepted = pass.accepted as f64;
    let left = pass.documents as f64 - pass.ids as f64;
    match pass.status {
        PassStatus::Complete if accepted >= needed => ("MET", Role::Good),
        PassStatus::Complete => ("NOT MET", Role::Bad),
        _ if accepted >= needed => ("met already", Role::Good),
        _ if accepted + left < needed => ("cannot be met any more", Role::Bad),
        _ => ("open", Role::Dim),
    }
}

fn deadlines<'s>(
    scene: Scene<'s>,
    pass: &PassFigures,
    figure: DeadlineFigure,
    is_wide: bool,
) -> Vec<Span<'s>> {
    let of_figure = pass.deadlines.iter().filter(|deadline| deadline.figure == figure);
    let spans = of_figure.flat_map(|deadline| {
        let (word, role) = match deadline.kept {
            Some(true) => ("kept", Role::Good),
            Some(false) => ("MISSED", Role::Bad),
            None => ("n/a", Role::Unknown),
        };
        let limit = number::seconds(deadline.limit_s);
        [
            scene.span(
                Role::Dim,
                if is_wide {
                    format!(" deadline p{} {limit} ", deadline.percentile)
                } else {
                    "deadline ".to_owned()
                },
            ),
            scene.span(role, word),
        ]
    });
    spans.collect()
}

/// How far the pass is.
fn bar<'s>(scene: Scene<'s>, pass: &PassFigures, width: usize) -> Line<'s> {
    let seen = scene.model.shown();
    let now = seen.run.steps.get(seen.run.current).and_then(|step| step.passes.last());
    let (ended, planned) = now.map_or((pass.ended, pass.planned), |pass| (pass.requests.len(), pass.planned));
    if planned == 0 {
        let what = match now.and_then(|pass| pass.phase) {
            Some(Phase::WarmUp) => " warm-up: excluded from every figure",
            _ => " about to begin",
        };
        return Line::from(scene.span(Role::Dim, what));
    }
    let left = pass.seconds_left.filter(|_| pass.status == PassStatus::Running && seen.trouble.is_none());
    let left = left.map_or_else(String::new, |left| format!(" · about {left:.0} s left"));
    let text = format!(" {ended} / {planned} ended{left}");
    let room = width.saturating_sub(text.chars().count() + 2).min(60);
    let full = room * ended.min(planned) / planned;
    Line::from(vec![
        scene.span(Role::Text, " "),
        scene.span(Role::Bar, "█".repeat(full)),
        scene.span(Role::Track, "░".repeat(room - full)),
        scene.span(Role::Number, text),
    ])
}
