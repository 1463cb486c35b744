//! Responses cut, wrapped and announced in every way that HTTP allows.

use aforo::protocol::FailureReason::Rejected;

use crate::asking::{Client, PATIENT, answered_with, ask, assert_answered, assert_failed};
use crate::server::{Gate, Server};
use crate::wire::{DONE, LAST_CHUNK, ROLE, STREAM_HEAD, answer, chunk, events, finish, page, token};

#[test]
fn a_response_in_single_bytes() {
    let answered = ask(PATIENT, |peer| {
        peer.request();
        peer.send_single_bytes(answer("four"));
        peer.hold();
    });
    assert_answered(&answered, "four");
}

#[test]
fn each_event_in_a_chunk_of_its_own_and_chunks_cut_anywhere() {
    let body: String = events("four").split_inclusive("\n\n").map(chunk).collect();
    assert_answered(&answered_with(format!("{STREAM_HEAD}{body}{LAST_CHUNK}")), "four");
    let cut: String = events("four").chars().map(|c| chunk(&c.to_string())).collect();
    assert_answered(&answered_with(format!("{STREAM_HEAD}{cut}{LAST_CHUNK}")), "four");
}

#[test]
fn interim_responses_are_passed_over() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n";
    let answered = answered_with(format!("{interim}{}", answer("4")));
    assert_answered(&answered, "4");
    assert_eq!(answered.exchange.status, Some(200));
}

#[test]
fn trailers_and_chunk_extensions_are_passed_over() {
    let events = events("4");
    let body = format!("{:x};note=1\r\n{events}\r\n0\r\nx-time: 3\r\n\r\n", events.len());
    assert_answered(&answered_with(format!("{STREAM_HEAD}{body}")), "4");
}

#[test]
fn the_type_of_a_stream_is_known_in_any_case_and_with_parameters() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: Text/Event-Stream; charset=utf-8\r\nContent-Length: ";
    let events = events("4");
    assert_answered(&answered_with(format!("{head}{}\r\n\r\n{events}", events.len())), "4");
}

#[test]
fn an_event_of_three_megabytes() {
    let long = "0123456789abcdef".repeat(3 << 16);
    let stream = [ROLE, &token(&long), &finish("stop"), DONE].concat();
    let answered = answered_with(format!("{STREAM_HEAD}{}{LAST_CHUNK}", chunk(&stream)));
    assert_answered(&answered, &long);
    assert_eq!(answered.answer.output_events(), 1);
}

#[test]
fn a_request_refused_before_it_was_read_does_not_block_the_slot() {
    let over = Gate::default();
    let gate = over.clone();
    let server = Server::start(move |peer| {
        if peer.number == 0 {
            peer.head();
            peer.send(page("413 Content Too Large", "", "images are too large"));
            // The body stays unread and the connection open.
            gate.wait();
        } else {
            peer.request();
            peer.send(answer("4"));
            peer.hold();
        }
    });
    let mut client = Client::new(&server.base_url());
    let refused = client.send(&"x".repeat(32 << 20), PATIENT);
    assert_failed(&refused, Rejected, &["413", "images are too large"]);
    assert_answered(&client.ask(PATIENT), "4");
    over.open();
}
