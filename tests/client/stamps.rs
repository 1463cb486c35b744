//! When things are said to have happened. Only the order is looked at, never a speed.

use std::sync::mpsc;

use aforo::engine::Stamp;

use crate::asking::{PATIENT, ask, assert_answered};
use crate::concurrency::{Order, documents, run};
use crate::server::Server;
use crate::wire::{DONE, LAST_CHUNK, ROLE, STREAM_HEAD, answer, chunk, events, finish, token, usage};

#[test]
fn f72_a_role_is_an_event_but_no_token() {
    let (stamps, moments) = mpsc::channel();
    let answered = ask(PATIENT, move |peer| {
        peer.request();
        peer.send(format!("{STREAM_HEAD}{}", chunk(ROLE)));
        peer.wait_until_read();
        stamps.send(Stamp::now()).unwrap();
        peer.send(chunk(&[&token("4"), &finish("stop"), DONE].concat()));
        peer.send(LAST_CHUNK);
    });
    assert_answered(&answered, "4");
    let between = moments.recv().unwrap();
    let times = answered.answer.times();
    assert!(answered.exchange.sent < times.first_event);
    assert!(times.first_event.unwrap() < between && between < times.first_token.unwrap());
    assert_eq!(times.first_token, times.last_token);
}

#[test]
fn f73_the_last_token_is_not_the_end_of_the_stream() {
    let (stamps, moments) = mpsc::channel();
    let answered = ask(PATIENT, move |peer| {
        peer.request();
        peer.send(format!("{STREAM_HEAD}{}", chunk(&[ROLE, &token("4"), &token("2")].concat())));
        peer.wait_until_read();
        stamps.send(Stamp::now()).unwrap();
        peer.send(chunk(&finish("stop")));
        peer.wait_until_read();
        peer.send(chunk(&[&usage(7, 2), DONE].concat()));
        peer.wait_until_read();
        stamps.send(Stamp::now()).unwrap();
        peer.send(LAST_CHUNK);
    });
    assert_answered(&answered, "42");
    let (after_tokens, before_end) = (moments.recv().unwrap(), moments.recv().unwrap());
    let times = answered.answer.times();
    assert!(times.last_token.unwrap() < after_tokens && before_end < times.end.unwrap());
    assert_eq!(answered.answer.usage().unwrap().completion, Some(2));
}

#[test]
fn each_read_is_stamped_between_its_writing_and_the_next() {
    let (stamps, moments) = mpsc::channel();
    let answered = ask(PATIENT, move |peer| {
        peer.request();
        peer.send(STREAM_HEAD);
        for _ in 0..8 {
            stamps.send(Stamp::now()).unwrap();
            peer.send(chunk(&token("x")));
            peer.wait_until_read();
        }
        stamps.send(Stamp::now()).unwrap();
        peer.send(chunk(&[&finish("stop"), DONE].concat()) + LAST_CHUNK);
    });
    assert_answered(&answered, "xxxxxxxx");
    let moments: Vec<Stamp> = moments.iter().collect();
    let reads = answered.answer.reads();
    assert_eq!(reads.len(), 8);
    for (read, around) in reads.iter().zip(moments.windows(2)) {
        assert!(around[0] < read.at && read.at < around[1]);
        assert_eq!(read.events, 1);
    }
}

#[test]
fn events_of_one_write_share_the_stamp_of_its_read() {
    let several = [ROLE, &token("a"), &token("b"), &token("c")].concat();
    let chunks: String = several.split_inclusive("\n\n").map(chunk).collect();
    let answered = ask(PATIENT, move |peer| {
        peer.request();
        peer.send(format!("{STREAM_HEAD}{chunks}"));
        peer.wait_until_read();
        peer.send(chunk(&[&finish("stop"), DONE].concat()) + LAST_CHUNK);
    });
    assert_answered(&answered, "abc");
    let times = answered.answer.times();
    assert_eq!((times.first_event, times.first_token), (times.first_token, times.last_token));
}

#[test]
fn a_body_that_ends_by_closing_ends_when_it_is_closed() {
    let (stamps, moments) = mpsc::channel();
    let answered = ask(PATIENT, move |peer| {
        peer.request();
        peer.send(format!("HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n{}", events("4")));
        peer.wait_until_read();
        stamps.send(Stamp::now()).unwrap();
    });
    assert_answered(&answered, "4");
    let times = answered.answer.times();
    let before_close = moments.recv().unwrap();
    assert!(times.last_token.unwrap() < before_close && before_close < times.end.unwrap());
}

#[test]
fn f70_a_flood_on_one_stream_puts_no_stamp_of_another_before_its_bytes_or_after_the_next() {
    let (stamps, moments) = mpsc::channel();
    let server = Server::start(move |peer| {
        let request = peer.request().unwrap();
        if request.header("x-request-id").unwrap().ends_with("-0") {
            let flood = chunk(&token("x").repeat(200));
            peer.send(STREAM_HEAD);
            for _ in 0..300 {
                peer.send(&flood);
            }
            peer.send(chunk(&[&finish("stop"), DONE].concat()) + LAST_CHUNK);
        } else {
            peer.send(STREAM_HEAD);
            for _ in 0..5 {
                stamps.send(Stamp::now()).unwrap();
                peer.send(chunk(&token("y")));
                peer.wait_until_read();
            }
            stamps.send(Stamp::now()).unwrap();
            peer.send(chunk(&[&finish("stop"), DONE].concat()) + LAST_CHUNK);
        }
        peer.hold();
    });
    let mut captures = run(&server, Order { documents: documents(2), concurrency: 2 }).captures;
    captures.sort_by_key(|capture| capture.index);
    assert_answered(&captures[0], &"x".repeat(300 * 200));
    assert_answered(&captures[1], "yyyyy");
    let moments: Vec<Stamp> = moments.try_iter().collect();
    for (read, around) in captures[1].answer.reads().iter().zip(moments.windows(2)) {
        assert!(around[0] < read.at && read.at < around[1]);
    }
    assert_eq!(captures[1].answer.reads().len(), 5);
}

#[test]
fn the_times_of_a_request_are_in_order() {
    let server = Server::start(|peer| {
        while peer.request().is_some() {
            peer.send(answer("4"));
        }
    });
    let began = Stamp::now();
    for capture in run(&server, Order { documents: documents(50), concurrency: 4 }).captures {
        let times = capture.answer.times();
        let stamps = [
            Some(began),
            Some(capture.scheduled),
            capture.exchange.sent,
            times.first_event,
            times.first_token,
            times.first_answer,
            times.last_token,
            times.end,
            Some(capture.ended),
            Some(Stamp::now()),
        ];
        assert!(stamps.iter().all(Option::is_some) && stamps.is_sorted(), "{stamps:?}");
    }
}
