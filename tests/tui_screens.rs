//! Screens: what a person sees at several sizes, and what their keys do.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use std::fmt::Write as _;

use aforo::measure::LiveCounts;
use aforo::protocol::{FailureReason, Parameter};
use aforo::run::cause::CutCause;
use aforo::run::control::{Live, Message};
use aforo::run::decision::{Choice, Decision};
use aforo::run::desk::Answer;
use aforo::run::event::{Event, PassEnd, RunEnd};
use aforo::terminal::capabilities::{Capabilities, Colours};
use aforo::tui::figures::Figures;
use aforo::tui::model::{Asks, Effect, Model};
use aforo::tui::theme::Theme;
use aforo::tui::view;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::{Color, Modifier};
use support::records::sweep;
use support::tale::{Tale, cut, engine_gone};

const PLAIN: Capabilities = Capabilities { colours: Colours::None, unicode: true };

/// A viewer that has seen all of a tale.
fn watching(tale: &Tale) -> Model {
    let mut model = Model::new(0);
    for line in &tale.lines {
        model.take(line.clone());
    }
    let figures = Figures::of(&model.seen().run);
    model.count(figures);
    model
}

fn drawn(model: &Model, size: (u16, u16), capabilities: Capabilities, theme: &str) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
    let theme = Theme::named(theme).unwrap();
    terminal.draw(|frame| view::draw(frame, model, &theme, capabilities)).unwrap();
    terminal.backend().clone()
}

/// The text of a screen.
fn screen(model: &Model, size: (u16, u16)) -> String {
    let backend = drawn(model, size, PLAIN, "mono");
    let buffer = backend.buffer();
    let mut text = String::new();
    for row in buffer.content.chunks(usize::from(buffer.area.width)) {
        let line: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        writeln!(text, "{}", line.trim_end()).unwrap();
    }
    text
}

fn press(model: &mut Model, code: KeyCode) -> Option<Effect> {
    model.press(KeyEvent::new(code, KeyModifiers::NONE))
}

fn write(model: &mut Model, text: &str) -> Option<Effect> {
    for c in text.chars() {
        assert_eq!(press(model, KeyCode::Char(c)), None);
    }
    press(model, KeyCode::Enter)
}

/// Twenty documents, the baseline and three values.
fn tale() -> Tale {
    Tale::of(sweep(20, &[2, 4, 8]))
}

fn at_gate() -> Tale {
    let mut tale = tale();
    tale.step(Choice::Next).complete().gate();
    tale
}

fn measuring() -> Tale {
    let mut tale = tale();
    tale.step(Choice::Next);
    let id = tale.begin();
    for document in 0..12 {
        let failed = match document {
            3 | 7 => Some(FailureReason::Format),
            5 => Some(FailureReason::Quality),
            _ => None,
        };
        tale.request(id, document, failed);
    }
    tale
}

fn cut_off() -> Tale {
    let mut tale = tale();
    tale.step(Choice::Next).break_off(cut()).gate();
    tale
}

fn live(in_flight: u32, trouble: Option<&str>) -> Message {
    let counts = LiveCounts { in_flight, in_flight_peak: in_flight, sent: 14, ended: 12 };
    Message::Live(Live {
        at: "1970-01-01T00:01:05Z".parse().unwrap(),
        counts: Some(counts),
        trouble: trouble.map(str::to_owned),
        dropped: 0,
    })
}

#[test]
fn each_situation_at_each_size() {
    let mut running = watching(&measuring());
    running.hear(live(2, None));
    let mut full_disk = watching(&measuring());
    full_disk.hear(live(0, Some("/data/journal.jsonl cannot be written: No space left (120 kB free)")));
    let mut writing = watching(&at_gate());
    press(&mut writing, KeyCode::Char('r'));
    for c in "the fan was loud".chars() {
        press(&mut writing, KeyCode::Char(c));
    }
    let mut done = tale();
    done.step(Choice::Auto).complete().complete().complete().end(RunEnd::Done);
    for (name, model) in [
        ("before-anything", Model::new(0)),
        ("measuring", running),
        ("gate", watching(&at_gate())),
        ("cut", watching(&cut_off())),
        ("full-disk", full_disk),
        ("writing-a-reason", writing),
        ("done", watching(&done)),
    ] {
        for size in [(120, 40), (80, 24), (40, 12), (30, 5)] {
            insta::assert_snapshot!(format!("{name}-{}x{}", size.0, size.1), screen(&model, size));
        }
    }
    let mut asking = watching(&at_gate());
    press(&mut asking, KeyCode::Char('?'));
    insta::assert_snapshot!("help-120x40", screen(&asking, (120, 40)));
}

#[test]
fn no_size_is_too_odd() {
    let mut many = Tale::of(sweep(3, &(2..40).collect::<Vec<_>>()));
    many.step(Choice::Next).complete().gate();
    let mut asking = watching(&at_gate());
    press(&mut asking, KeyCode::Char('?'));
    let mut writing = watching(&cut_off());
    press(&mut writing, KeyCode::Char('d'));
    for model in [Model::new(9), watching(&measuring()), watching(&many), asking, writing] {
        for width in (0..=140).step_by(7).chain([39, 40, 79, 80, 119, 120, 300]) {
            for height in (0..=45).chain([100]) {
                drawn(&model, (width, height), PLAIN, "default");
            }
        }
    }
}

#[test]
fn a_gate_is_decided_with_one_key_and_a_late_decision_is_not_for_the_next_gate() {
    let tale = at_gate();
    let gate = tale.state.gate.as_ref().unwrap().seq;
    let mut model = watching(&tale);
    let next = Decision { gate: Some(gate), ..Decision::new(Choice::Next, "") };
    assert_eq!(press(&mut model, KeyCode::Char('n')), Some(Effect::Decide(next)));
    model.answered(Answer::Refused { why: "that gate is closed".to_owned() });
    assert!(screen(&model, (80, 24)).contains("refused: that gate is closed"));
    press(&mut model, KeyCode::Down);
    assert!(!screen(&model, (80, 24)).contains("refused"), "the next key takes it away");
}

#[test]
fn what_cannot_be_taken_back_asks_for_its_reason_first() {
    for (key, choice) in
        [('r', Choice::Repeat), ('s', Choice::Skip), ('x', Choice::Stop), ('d', Choice::Note)]
    {
        let mut model = watching(&at_gate());
        assert_eq!(press(&mut model, KeyCode::Char(key)), None);
        assert_eq!(press(&mut model, KeyCode::Esc), None);
        assert!(model.prompt.is_none(), "escape does nothing");
        press(&mut model, KeyCode::Char(key));
        let Some(Effect::Decide(decision)) = write(&mut model, "quit n x") else { panic!("{key}") };
        assert_eq!((decision.choice, decision.reason.as_str()), (choice, "quit n x"));
    }
}

#[test]
fn a_value_has_to_be_one() {
    let mut model = watching(&at_gate());
    press(&mut model, KeyCode::Char('v'));
    assert_eq!(write(&mut model, "six"), None);
    assert!(model.notice.as_deref().unwrap().contains("\"six\" is no value of concurrency"));
    for _ in 0..3 {
        press(&mut model, KeyCode::Backspace);
    }
    let Some(Effect::Decide(decision)) = write(&mut model, "6 out of memory at 8") else { panic!() };
    let set = Choice::Set { parameter: Parameter::Concurrency, value: 6 };
    assert_eq!((decision.choice, decision.reason.as_str()), (set, "out of memory at 8"));
}

#[test]
fn what_is_not_possible_now_says_why() {
    let mut model = watching(&measuring());
    assert_eq!(press(&mut model, KeyCode::Char('n')), None);
    assert!(model.notice.as_deref().unwrap().contains("none is open: pause opens one"), "{:?}", model.notice);
    model.lose();
    assert_eq!(press(&mut model, KeyCode::Char('p')), None);
    assert!(model.notice.as_deref().unwrap().contains("aforo resume"), "{:?}", model.notice);
}

#[test]
fn what_is_being_written_for_a_gate_is_not_used_for_another() {
    let mut tale = at_gate();
    let mut model = watching(&tale);
    press(&mut model, KeyCode::Char('v'));
    assert!(matches!(model.prompt.as_ref().unwrap().asks, Asks::Value(_)));
    tale.choose(Choice::Next);
    model.take(tale.lines.last().unwrap().clone());
    assert!(model.prompt.is_none());
    assert!(model.notice.as_deref().unwrap().contains("somebody decided before"));
}

#[test]
fn pasted_text_presses_no_key() {
    let mut model = watching(&at_gate());
    model.paste("nnn\nx\n");
    assert!(model.prompt.is_none() && model.notice.is_none());
    press(&mut model, KeyCode::Char('d'));
    model.paste("two\nlines\u{1b}[2J");
    let Some(Effect::Decide(decision)) = press(&mut model, KeyCode::Enter) else { panic!() };
    assert!(decision.reason.starts_with("two lines"), "{:?}", decision.reason);
}

#[test]
fn a_frozen_screen_stays_and_says_how_old_it_is() {
    let mut tale = measuring();
    let mut model = watching(&tale);
    press(&mut model, KeyCode::Char('f'));
    let before = screen(&model, (120, 40));
    let id = aforo::run::event::PassId { step: 1, pass: 1 };
    tale.request(id, 12, None);
    model.take(tale.lines.last().unwrap().clone());
    model.hear(live(1, None));
    let frozen = screen(&model, (120, 40));
    assert!(frozen.contains("FROZEN for 65 s") && frozen.contains("12 / 20 ended"), "{frozen}");
    assert_eq!(before.lines().nth(8), frozen.lines().nth(8));
    press(&mut model, KeyCode::Char('f'));
    assert!(screen(&model, (120, 40)).contains("13 / 20 ended"));
}

#[test]
fn nothing_from_outside_steers_the_terminal_and_ascii_is_all_that_some_show() {
    let mut started = sweep(20, &[2]);
    started.protocol = "r\u{1b}[2Jé\u{202e}x".to_owned();
    started.model = "模型".to_owned();
    let mut tale = Tale::of(started);
    tale.tell(Event::Caution { text: "a\u{9b}31mb\u{7}".to_owned() });
    let model = watching(&tale);
    let steers = |c: char| c.is_control() || c == '\u{202e}';
    let backend = drawn(&model, (120, 40), PLAIN, "default");
    assert!(backend.buffer().content.iter().all(|cell| !cell.symbol().chars().any(steers)));
    let ascii = Capabilities { colours: Colours::Sixteen, unicode: false };
    let backend = drawn(&model, (120, 40), ascii, "default");
    assert!(backend.buffer().content.iter().all(|cell| cell.symbol().is_ascii()));
}

#[test]
fn without_colours_none_is_sent_and_meaning_is_not_lost() {
    let model = watching(&at_gate());
    let backend = drawn(&model, (120, 40), PLAIN, "default");
    let plain = |cell: &ratatui::buffer::Cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset);
    assert!(backend.buffer().content.iter().all(plain));
    let mono = drawn(&model, (120, 40), PLAIN, "mono");
    let gate = mono.buffer().content.iter().filter(|cell| cell.modifier.contains(Modifier::REVERSED));
    let said: String = gate.map(ratatui::buffer::Cell::symbol).collect();
    assert!(said.contains("GATE"), "{said}");
}

#[test]
fn a_run_of_a_hundred_thousand_requests_is_shown() {
    let mut tale = Tale::of(sweep(25_000, &[2, 4, 8]));
    tale.step(Choice::Auto).complete().complete().complete().end(RunEnd::Done);
    let model = watching(&tale);
    assert!(screen(&model, (120, 40)).contains("25000 / 25000"));
}

#[test]
fn a_pass_that_was_cut_by_the_disk_says_so() {
    let mut tale = tale();
    tale.break_off(PassEnd::Cut(CutCause::Disk { text: "no space".to_owned() })).gate();
    assert!(screen(&watching(&tale), (80, 24)).contains("no space"));
    assert!(matches!(engine_gone(), CutCause::Trouble(_)));
}

#[test]
fn the_readme_has_the_keys_as_they_are() {
    let readme = include_str!("../README.md");
    for entry in &aforo::tui::action::TABLE {
        let keys: Vec<_> = entry.keys.iter().map(|key| format!("`{key}`")).collect();
        let row = format!("| {} | {} | {} |", keys.join(" "), entry.short, entry.long);
        assert!(readme.contains(&row), "{row}");
    }
}
