//! How commands end: the status, and what is said when something has to be done about it.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use aforo::run::event::{Event, RunEnd};
use serde_json::json;
use support::Workplace;
use support::stub::{self, Reply};

#[test]
fn done_is_0_and_a_missed_threshold_is_3() {
    let place = Workplace::new(12);
    let said = place.run(&[]).expect(0);
    assert!(said.out.contains("reference"), "{}", said.out);
    assert!(said.err.contains("kept in aforo-runs/"), "{}", said.err);
    let place = Workplace::new(12);
    let said = place.run(&["engine.simulated.wrong_rate=1"]).expect(3);
    assert!(said.out.contains("quality not met"), "{}", said.out);
}

#[test]
fn a_protocol_with_mistakes_is_2_with_all_of_them_at_once() {
    let place = Workplace::new(12);
    place.append("[measur]\nrepetitions = 0");
    for command in [
        &["run", "protocol.toml", "--auto"][..],
        &["check", "protocol.toml"],
        &["score", "--protocol", "protocol.toml", "--outputs", "x"],
    ] {
        let mut arguments = command.to_vec();
        if command[0] != "score" {
            arguments.extend(["--set", "measure.repetitions=0", "--set", "quality.treshold=1"]);
        }
        let said = place.aforo(&arguments).expect(2);
        assert_eq!(said.out, "");
        assert!(said.err.contains("protocol.toml:") && said.err.contains("error: measur"), "{}", said.err);
        if command[0] != "score" {
            assert!(
                said.err.contains("measure.repetitions") && said.err.contains("treshold"),
                "{}",
                said.err
            );
        }
        assert!(!place.path("aforo-runs").exists(), "nothing was begun");
    }
}

#[test]
fn files_that_are_not_there_are_2_and_named() {
    let place = Workplace::new(12);
    for arguments in [
        &["run", "nowhere.toml", "--auto"][..],
        &["check", "nowhere.toml"],
        &["score", "--protocol", "nowhere.toml", "--outputs", "x"],
        &["score", "--protocol", "protocol.toml", "--outputs", "nowhere.jsonl"],
        &["simulate", "--protocol", "nowhere.toml"],
    ] {
        let said = place.aforo(arguments).expect(2);
        assert!(said.err.contains("nowhere"), "{}", said.err);
    }
    std::fs::remove_file(place.path("documents.jsonl")).unwrap();
    let said = place.run(&[]).expect(2);
    assert!(said.err.contains("documents.jsonl"), "{}", said.err);
    assert!(!place.path("aforo-runs").exists());
}

#[test]
fn wrong_arguments_are_2() {
    let place = Workplace::new(12);
    for arguments in
        [&["frobnicate"][..], &["run"], &["run", "p", "--set", "novalue"], &["schema", "nothing"], &[]]
    {
        let said = place.aforo(arguments);
        assert_eq!(said.code, Some(2), "{arguments:?}: {said:?}");
    }
}

#[test]
fn without_a_terminal_to_ask_on_auto_is_asked_for() {
    let place = Workplace::new(12);
    let said = place.aforo(&["run", "protocol.toml", "--headless"]).expect(2);
    assert!(said.err.contains("--auto"), "{}", said.err);
    assert!(!place.path("aforo-runs").exists());
}

#[test]
fn a_key_that_is_not_there_is_2_before_anything_is_begun() {
    let place = Workplace::with_server(6, "http://127.0.0.1:9/v1");
    let said = place.run(&["engine.api_key_env=AFORO_TEST_NO_SUCH_KEY"]).expect(2);
    assert!(said.err.contains("AFORO_TEST_NO_SUCH_KEY"), "{}", said.err);
    assert!(!place.path("aforo-runs").exists());
}

#[test]
fn an_engine_that_does_not_answer_is_1_and_says_what_to_do() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let place = Workplace::with_server(6, &format!("http://127.0.0.1:{port}/v1"));
    let said = place.run(&[]).expect(1);
    assert!(said.err.contains("engine.base_url") && said.err.contains("start it"), "{}", said.err);
    assert!(said.err.contains(&port.to_string()), "{}", said.err);
    assert_eq!(said.err.matches("refused").count(), 1, "the cause is said once: {}", said.err);
    let events = place.run_folder().events();
    assert!(
        matches!(events.last(), Some(Event::RunEnded { end: RunEnd::Failed { why } }) if why.contains("base_url"))
    );
    assert_eq!(place.run_folder().csv().len(), 0, "results.csv is there, with its header");
}

#[test]
fn an_engine_that_wants_a_key_is_1_and_says_so() {
    let url = stub::start(|_| Reply::Page(401, json!({ "error": { "message": "Missing API key" } })));
    let said = Workplace::with_server(6, &url).run(&[]).expect(1);
    assert!(said.err.contains("Missing API key") && said.err.contains("engine.api_key_env"), "{}", said.err);
}

#[test]
fn j08_a_wrong_model_name_shows_the_body_and_the_models_that_there_are() {
    let url = stub::start(|asked| match asked.path.as_str() {
        "/v1/models" => stub::models("smollm2\u{1b}[2J"),
        "/v1/chat/completions" => {
            Reply::Page(404, json!({ "error": { "message": "The model `m` does not exist." } }))
        }
        _ => Reply::Page(404, json!({})),
    });
    let place = Workplace::with_server(6, &url);
    let said = place.run(&[]).expect(1);
    assert!(said.err.contains("The model `m` does not exist."), "{}", said.err);
    assert!(said.err.contains("smollm2") && said.err.contains("rejected"), "{}", said.err);
    assert!(!said.err.contains('\u{1b}'), "text from outside reached the terminal: {:?}", said.err);
    assert_eq!(place.run_folder().csv().len(), 0, "no pass was begun");
}

#[test]
fn j08_a_refused_probe_is_shown_in_full() {
    let long = "the template needs a field that is not there, ".repeat(20);
    let body = json!({ "error": { "message": format!("{long}and this is the end") } });
    let url = stub::start(move |asked| match asked.path.as_str() {
        "/v1/models" => stub::models("bench"),
        "/v1/chat/completions" => Reply::Page(400, body.clone()),
        _ => Reply::Page(404, json!({})),
    });
    let said = Workplace::with_server(6, &url).run(&[]).expect(1);
    assert!(said.err.contains("and this is the end"), "{}", said.err);
}

#[test]
fn a_fault_of_the_probe_ends_the_run_before_hours_are_spent() {
    for (fault, reason, text) in [
        ("{ status = 503 }", "engine", "503"),
        ("{ status = 429 }", "rejected", "429"),
        ("{ memory = true }", "memory", "out of memory"),
        ("{ html = true }", "engine", "502"),
        ("{ redirect = \"/login\" }", "rejected", "/login"),
        ("{ error_in_stream = 2 }", "engine", ""),
        ("{ error_in_stream = 2, memory = true }", "memory", ""),
        ("{ close_clean = 2 }", "engine", "finish reason"),
        ("{ reset = 2 }", "connection", ""),
        ("{ stall = 2 }", "timeout", ""),
    ] {
        let place = Workplace::new(4);
        let set = format!("generation.extra={{ simulate = {fault} }}");
        let said = place.run(&[&set, "measure.timeout=300ms"]).expect(1);
        assert!(said.err.contains(&format!("({reason})")), "{fault}: {}", said.err);
        assert!(said.err.contains(text), "{fault}: {}", said.err);
        assert_eq!(place.run_folder().csv().len(), 0, "{fault}: no pass was begun");
    }
}

#[test]
fn a_run_folder_that_cannot_be_made_is_1_and_named() {
    let place = Workplace::new(6);
    place.write("file", "");
    let mut arguments = Workplace::run_arguments(&[]);
    arguments.extend(["--runs", "file/runs"]);
    let said = place.aforo(&arguments).expect(1);
    assert!(said.err.contains("file/runs"), "{}", said.err);
}

#[test]
fn score_says_which_line_is_no_output() {
    let place = Workplace::new(6);
    let score = |text: &str| {
        place.write("outputs.jsonl", text);
        place.aforo(&["score", "--protocol", "protocol.toml", "--outputs", "outputs.jsonl"])
    };
    let good = "{\"document\":\"doc-00\",\"text\":\"{}\"}\n";
    let said = score(&format!("{good}{{\"document\":\"doc-01\"}}\n")).expect(2);
    assert!(said.err.contains("outputs.jsonl:2:") && said.err.contains("text"), "{}", said.err);
    // A last line that its writer has not ended yet is passed over; one that is something else is not.
    score(&format!("{good}{{\"document\":\"doc-01\",\"te")).expect(3);
    score(&format!("{good}{{\"prompt\":\"doc-01\"}}")).expect(2);
    let said = score("").expect(3);
    assert!(said.out.contains("accepted 0 of 6"), "{}", said.out);
}

#[test]
fn score_to_batch_replaces_files_and_only_files() {
    let place = Workplace::new(6);
    place.write("outputs.jsonl", "{\"document\":\"doc-00\",\"text\":\"{}\"}\n");
    let score = |target: &str| {
        place.aforo(&[
            "score",
            "--protocol",
            "protocol.toml",
            "--outputs",
            "outputs.jsonl",
            "--to-batch",
            target,
        ])
    };
    score("/dev/null").expect(3);
    assert!(!std::fs::metadata("/dev/null").unwrap().is_file(), "the device was replaced by a file");
    let said = score("/dev/full").expect(1);
    assert!(said.err.contains("/dev/full"), "{}", said.err);
    // Onto itself: read whole before it is written.
    score("outputs.jsonl").expect(3);
    score("outputs.jsonl").expect(3);
    assert!(std::fs::read_to_string(place.path("outputs.jsonl")).unwrap().contains("custom_id"));
}
