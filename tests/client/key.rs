//! The key comes from the environment and is found nowhere else, even where a server repeats it.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use aforo::engine::openai::ApiKey;
use serde_json::json;

use crate::asking::{Client, PATIENT};
use crate::binary::{Site, engine};
use crate::server::Server;
use crate::wire::{DONE, LAST_CHUNK, ROLE, STREAM_HEAD, answer, chunk, error, page};

const KEY: &str = "zq81-VERY_secret.k3y";
const VARIABLE: &str = "SCRIPTED_ENGINE_KEY";

/// Responses of a server that repeats the key, in every place that a failure's text is taken from.
fn echoes() -> Vec<String> {
    let streamed = |events: &str| format!("{STREAM_HEAD}{}{LAST_CHUNK}", chunk(events));
    let mut echoes = vec![
        error("401 Unauthorized", &format!("Incorrect API key provided: {KEY}.")),
        error("403 Forbidden", &format!("got Authorization: Bearer {KEY}")),
        page("400 Bad Request", "", &format!("{{'authorization': 'Bearer {KEY}', 'x': '{KEY}'}}")),
        page("400 Bad Request", "", &format!("key={KEY}&key2=({KEY})")),
        page("307 Temporary Redirect", &format!("Location: http://x.example/?key={KEY}\r\n"), ""),
        page("200 OK", "Content-Type: text/html\r\n", &format!("<html><title>for {KEY}</title></html>")),
        page("200 OK", &format!("Content-Type: text/{KEY}\r\n"), KEY),
        page("200 OK", "Content-Type: application/json\r\n", &json!({ "error": KEY }).to_string()),
        page("200 OK", "Content-Type: application/json\r\n", KEY),
        page("200 OK", "Content-Type: text/event-stream\r\n", KEY),
        streamed(&format!("{ROLE}data: {}\n\n", json!({ "error": { "message": KEY } }))),
        streamed(&format!("{ROLE}event: error\ndata: {KEY}\n\n")),
        streamed(&format!("{ROLE}data: {{\"{KEY}\n\n{DONE}")),
        streamed(&format!("{ROLE}data: {{\"{KEY}")),
    ];
    // Texts are cut: at each place of the key.
    for before in 200..300 {
        echoes.push(page("500 Internal Server Error", "", &format!("{}{KEY} and more", "x".repeat(before))));
    }
    echoes
}

/// That neither the key nor a piece from its beginning is there.
#[track_caller]
fn assert_absent(place: &str, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    assert!(!text.contains(&KEY[..4]), "the key is in {place}: {text}");
}

fn assert_absent_below(folder: &Path) -> usize {
    let mut files = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files += assert_absent_below(&path);
        } else {
            assert_absent(&path.display().to_string(), &fs::read(&path).unwrap());
            files += 1;
        }
    }
    files
}

#[test]
fn a_server_that_repeats_the_key_does_not_get_it_into_a_text() {
    let responses = Arc::new(Mutex::new(echoes().into_iter()));
    let server = Server::start(move |peer| {
        while let Some(request) = peer.request() {
            assert_eq!(request.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
            let Some(response) = responses.lock().unwrap().next() else { return };
            peer.send(response);
        }
    });
    let mut client = Client::with_key(&server.base_url(), ApiKey::new(KEY));
    for sent in echoes() {
        let failed = client.ask(PATIENT);
        let (_, text) = failed.failure().expect(&sent);
        assert_absent(&sent, text.as_bytes());
        assert_absent(&sent, format!("{:?}", failed.exchange).as_bytes());
    }
}

/// Every byte that a run leaves behind.
fn assert_run_keeps_the_secret(server: &Server, documents: usize, code: i32) {
    let site = Site::new(&server.base_url(), documents, &format!("api_key_env = \"{VARIABLE}\""));
    let ended = site.aforo().env(VARIABLE, KEY).env("AFORO_LOG", "trace").assert().code(code);
    assert_absent("standard output", &ended.get_output().stdout);
    assert_absent("standard error", &ended.get_output().stderr);
    assert!(assert_absent_below(site.path()) > 5);
}

#[test]
fn a_run_against_such_a_server_leaves_the_key_in_no_file_log_or_message() {
    let seen = Arc::new(Mutex::new(0_usize));
    let requests = Arc::clone(&seen);
    let server = engine(move |request, peer| {
        assert_eq!(request.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
        let mut seen = requests.lock().unwrap();
        // The probe is answered, and every second document after it: an engine that never answers is given up.
        let echo = seen.checked_sub(1).filter(|index| index % 2 == 0);
        let echo = echo.and_then(|index| echoes().into_iter().nth(index / 2));
        *seen += 1;
        peer.send(echo.unwrap_or_else(|| answer("4")));
        true
    });
    // Half of the answers are right, which is what is asked.
    assert_run_keeps_the_secret(&server, 2 * echoes().len(), 0);
    assert!(*seen.lock().unwrap() > 2 * echoes().len());
}

#[test]
fn a_probe_that_is_refused_with_the_key_does_not_show_it() {
    for echo in echoes().into_iter().take(14) {
        let server = engine(move |_, peer| {
            peer.send(&echo);
            true
        });
        assert_run_keeps_the_secret(&server, 1, 1);
    }
}

#[test]
fn pages_that_repeat_the_key_do_not_show_it() {
    for echo in [echoes()[0].clone(), echoes()[3].clone(), page("200 OK", "", KEY)] {
        let server = Server::start(move |peer| {
            while peer.request().is_some() {
                peer.send(&echo);
            }
        });
        assert_run_keeps_the_secret(&server, 1, 1);
    }
}

#[test]
fn a_missing_key_is_named_by_its_variable() {
    let site = Site::new("http://127.0.0.1:1/v1", 1, &format!("api_key_env = \"{VARIABLE}\""));
    let refused = site.aforo().env_remove(VARIABLE).assert().code(2);
    let told = String::from_utf8(refused.get_output().stderr.clone()).unwrap();
    assert!(told.contains(VARIABLE), "{told}");
    let unusable = site.aforo().env(VARIABLE, format!("{KEY}\n{KEY}")).assert().code(2);
    assert_absent("standard error", &unusable.get_output().stderr);
}
