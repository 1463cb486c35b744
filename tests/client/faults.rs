//! Responses that are no answer: each with its reason and a text that helps.

use std::time::Duration;

use aforo::protocol::FailureReason::{Connection, Engine, Memory, Rejected};

use crate::asking::{Client, PATIENT, answered_with, ask, assert_answered, assert_failed};
use crate::server::Server;
use crate::wire::{DONE, LAST_CHUNK, ROLE, STREAM_HEAD, answer, chunk, error, events, finish, page, token};

fn streamed(events: &str) -> String {
    format!("{STREAM_HEAD}{}{LAST_CHUNK}", chunk(events))
}

#[test]
fn statuses_have_their_reason_and_say_what_came_back() {
    for (status, message, reason) in [
        ("400 Bad Request", "max_tokens is too large", Rejected),
        ("401 Unauthorized", "no key", Rejected),
        ("404 Not Found", "The model `x` does not exist.", Rejected),
        ("422 Unprocessable Entity", "field required", Rejected),
        ("500 Internal Server Error", "EngineCore died", Engine),
        ("502 Bad Gateway", "upstream is gone", Engine),
        ("503 Service Unavailable", "loading model", Engine),
        ("500 Internal Server Error", "CUDA out of memory. Tried to allocate 2.00 GiB", Memory),
        ("400 Bad Request", "CUDA out of memory. Tried to allocate 2.00 GiB", Memory),
    ] {
        let failed = answered_with(error(status, message));
        assert_failed(&failed, reason, &[&status[..3], message]);
        assert_eq!(failed.exchange.status, status[..3].parse().ok());
        assert_eq!((failed.answer.times().first_token, failed.answer.times().last_token), (None, None));
    }
}

#[test]
fn too_many_requests_says_how_long_to_wait() {
    let head = "Content-Type: text/plain\r\nRetry-After: 7\r\n";
    let failed = answered_with(page("429 Too Many Requests", head, "slow down"));
    assert_failed(&failed, Rejected, &["429", "retry after 7 s", "slow down"]);
    assert_eq!(failed.exchange.failure.unwrap().retry_after, Some(Duration::from_secs(7)));
}

#[test]
fn a_redirect_is_not_followed_and_says_where_it_leads() {
    let server = Server::start(|peer| {
        peer.request();
        peer.send(page("307 Temporary Redirect", "Location: http://elsewhere.example/v1\r\n", ""));
        peer.hold();
    });
    let failed = Client::new(&server.base_url()).ask(PATIENT);
    assert_failed(&failed, Rejected, &["307", "redirect", "http://elsewhere.example/v1"]);
    assert_eq!(server.accepted(), 1);
}

#[test]
fn a_web_page_is_named_by_its_title() {
    let body = "<!DOCTYPE html><html><head><title>Login - Proxy</title></head><body>…</body></html>";
    let typed = answered_with(page("200 OK", "Content-Type: text/html\r\n", body));
    assert_failed(&typed, Engine, &["HTML", "Login - Proxy"]);
    let mislabelled = answered_with(page("200 OK", "Content-Type: application/json\r\n", body));
    assert_failed(&mislabelled, Engine, &["HTML", "Login - Proxy"]);
    let streamed = answered_with(page("200 OK", "Content-Type: text/event-stream\r\n", body));
    assert_failed(&streamed, Engine, &["HTML", "Login - Proxy"]);
    let untyped = answered_with(page("200 OK", "", body));
    assert_failed(&untyped, Engine, &["HTML", "Login - Proxy"]);
}

#[test]
fn other_bodies_that_are_no_answer() {
    let plain = answered_with(page("200 OK", "Content-Type: text/plain\r\n", "it works!"));
    assert_failed(&plain, Engine, &["text/plain", "it works!"]);
    let empty = answered_with(page("204 No Content", "", ""));
    assert_failed(&empty, Engine, &["answered with"]);
    let json = answered_with(page("200 OK", "Content-Type: application/json\r\n", r#"{"status":"ok"}"#));
    assert_failed(&json, Engine, &["no choices", "status"]);
    let error = answered_with(page("200 OK", "Content-Type: application/json\r\n", r#"{"error":"no slot"}"#));
    assert_failed(&error, Engine, &["no slot"]);
}

#[test]
fn a_whole_answer_as_json_is_an_answer_without_a_first_token() {
    let body = r#"{"choices":[{"index":0,"message":{"content":"4"},"finish_reason":"stop"}]}"#;
    let whole = answered_with(page("200 OK", "Content-Type: application/json; charset=utf-8\r\n", body));
    assert_answered(&whole, "4");
    assert_eq!(whole.answer.times().first_token, None);
}

#[test]
fn f16_an_error_object_in_a_stream_of_status_200_is_a_failed_request() {
    let said = "data: {\"error\":{\"message\":\"the engine is dead\",\"code\":500}}\n\n";
    for stream in [
        [ROLE, said, DONE].concat(),
        [ROLE, &token("4"), said, DONE].concat(),
        [ROLE, &token("4"), "event: error\ndata: {\"message\":\"the engine is dead\"}\n\n", DONE].concat(),
        [ROLE, &token("4"), said, &finish("stop"), DONE].concat(),
    ] {
        let failed = answered_with(streamed(&stream));
        assert_failed(&failed, Engine, &["the engine is dead"]);
        assert_eq!(failed.exchange.status, Some(200));
    }
    let before = answered_with(streamed(&[ROLE, said].concat()));
    assert_eq!((before.answer.times().first_token, before.answer.usage()), (None, None));
    let memory = "data: {\"error\":{\"message\":\"CUDA out of memory.\"}}\n\n";
    assert_failed(&answered_with(streamed(memory)), Memory, &["out of memory"]);
}

#[test]
fn f18_an_answer_without_a_token_has_no_time_instead_of_zero() {
    let empty = answered_with(streamed(&[ROLE, &finish("stop"), DONE].concat()));
    assert_answered(&empty, "");
    let times = empty.answer.times();
    assert_eq!((times.first_token, times.first_answer, times.last_token), (None, None, None));
    assert!(times.first_event.is_some() && times.end.is_some());
}

#[test]
fn f43_a_stream_that_ends_cleanly_but_too_early_is_no_success() {
    for stream in
        [[ROLE, &token("4")].concat(), [ROLE, &token("4"), DONE].concat(), ROLE.to_owned(), DONE.to_owned()]
    {
        assert_failed(&answered_with(streamed(&stream)), Engine, &["without a finish reason"]);
    }
    assert_failed(&answered_with(streamed("")), Engine, &["ended without an event"]);
    assert_failed(&answered_with(streamed(": ping\n\n")), Engine, &["ended without an event", "ping"]);
    let aborted = [ROLE, &token("4"), &finish("abort"), DONE].concat();
    assert_failed(&answered_with(streamed(&aborted)), Engine, &["gave the answer up"]);
}

#[test]
fn f76_a_broken_event_fails_the_request_however_good_the_rest_is() {
    let cut = "data: {\"choices\":[{\"index\":0,\"delta\":{\"conte\n\n";
    let failed = answered_with(streamed(&[ROLE, &token("4"), cut, &finish("stop"), DONE].concat()));
    assert_failed(&failed, Engine, &["not the JSON", "conte"]);
    let unended = [ROLE, &token("4"), "data: {\"choices\":[{\"index\":0,\"del"].concat();
    assert_failed(&answered_with(streamed(&unended)), Engine, &["inside an event", "del"]);
}

#[test]
fn what_is_not_http_is_the_engines_fault() {
    assert_failed(&answered_with("SSH-2.0-OpenSSH_9.6\r\n\r\n"), Engine, &["not HTTP"]);
    assert_failed(&answered_with(events("4")), Engine, &["not HTTP"]);
    let bad_chunk = format!("{STREAM_HEAD}{}zz\r\nx\r\n", chunk(&token("4")));
    assert_failed(&answered_with(bad_chunk), Engine, &["hunk"]);
}

#[test]
fn an_error_page_that_does_not_end_still_says_why() {
    let head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 900\r\n\r\n";
    let cut = answered_with(format!("{head}loading the mod"));
    assert_failed(&cut, Engine, &["503", "loading the mod"]);
    let reset = ask(PATIENT, move |peer| {
        peer.request();
        peer.send(format!("{head}loading the mod"));
        peer.wait_until_read();
        peer.reset();
    });
    assert_failed(&reset, Engine, &["503", "loading the mod"]);
    let limits = aforo::engine::openai::Limits { silence: Duration::from_millis(100), ..PATIENT };
    let stalled = ask(limits, move |peer| {
        peer.request();
        peer.send(format!("{head}loading the mod"));
        peer.hold();
    });
    assert_failed(&stalled, Engine, &["503", "loading the mod"]);
}

#[test]
fn an_error_page_of_any_size_keeps_its_beginning() {
    let long = format!("the reason stands here {}", "and then a stack trace ".repeat(100_000));
    let failed = answered_with(page("500 Internal Server Error", "", &long));
    assert_failed(&failed, Engine, &["500", "the reason stands here"]);
}

#[test]
fn a_name_without_an_address_is_named() {
    let failed = Client::new("http://engine.invalid:8000/v1").ask(PATIENT);
    assert_failed(&failed, Connection, &["engine.invalid", "find the host"]);
    assert_eq!((failed.exchange.sent, failed.exchange.connected_in), (None, None));
}

#[test]
fn a_port_where_nobody_listens_is_named() {
    let server = Server::limited(0, |_| {});
    let failed = Client::new(&server.base_url()).ask(PATIENT);
    assert_failed(&failed, Connection, &["cannot connect to", &server.address().to_string(), "refused"]);
    assert_eq!((failed.exchange.sent, failed.exchange.status), (None, None));
}

#[test]
fn after_a_fault_the_slot_goes_on() {
    let server = Server::start(|peer| {
        while peer.request().is_some() {
            peer.send(error("500 Internal Server Error", "once"));
            if peer.request().is_none() {
                return;
            }
            peer.send(answer("4"));
        }
    });
    let mut client = Client::new(&server.base_url());
    assert_failed(&client.ask(PATIENT), Engine, &["once"]);
    assert_answered(&client.ask(PATIENT), "4");
    assert_eq!(server.accepted(), 1);
}
