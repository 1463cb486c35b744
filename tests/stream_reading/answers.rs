//! What an answer is made of, when it came, and when it is none.

use std::time::Duration;

use aforo::engine::Stamp;
use aforo::engine::openai::answer::{Answer, End, Outcome};
use aforo::engine::openai::chunk::{Finish, Usage};
use aforo::protocol::FailureReason;
use proptest::prelude::*;

use crate::splits::{at, at_every_split, replay, sum};

const ROLE: &str =
    r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#;
const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const COUNTS: &str = r#"{"choices":[],"usage":{"prompt_tokens":30,"completion_tokens":4,"total_tokens":34}}"#;

fn delta(fields: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{{{fields}}},"finish_reason":null}}],"usage":null}}"#)
}

fn content(text: &str) -> String {
    delta(&format!(r#""content":"{text}""#))
}

fn stream(events: &[&str]) -> Vec<u8> {
    events.iter().flat_map(|data| format!("data: {data}\n\n").into_bytes()).collect()
}

/// Each event in a read of its own, at its millisecond.
fn timed(events: &[(u64, &str)], end: u64) -> Answer {
    let mut answer = Answer::new();
    for (ms, data) in events {
        answer.read(&stream(&[data]), at(*ms));
    }
    answer.end(End::Complete, at(end));
    answer
}

fn complete(finish: Finish) -> Outcome {
    Outcome::Complete { finish }
}

#[track_caller]
fn assert_failed(answer: &Answer, expected: FailureReason, part: &str) {
    match answer.outcome() {
        Some(Outcome::Failed { reason, text }) => {
            assert_eq!(*reason, expected, "{text}");
            assert!(text.contains(part), "{text}");
            assert!(text.chars().count() <= 300 && !text.contains('\n'), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn f01_f02_a_role_is_not_a_token() {
    let answer =
        timed(&[(5, ROLE), (6, &content("")), (214, &content("a")), (220, STOP), (220, "[DONE]")], 221);
    let times = answer.times();
    assert_eq!(times.first_event, Some(at(5)));
    assert_eq!(times.first_token, Some(at(214)));
    assert_eq!(answer.reads().len(), 1, "an empty event adds no gap");
    assert_eq!(answer.output_events(), 1);
}

#[test]
fn f72_the_first_output_counts() {
    let mut answer = Answer::new();
    answer.read(&stream(&[ROLE]), at(2));
    answer.read(&stream(&[&content("a")]), at(200));
    assert_eq!(answer.times().first_token, Some(at(200)));
}

#[test]
fn f03_one_read_is_one_gap() {
    let mut answer = Answer::new();
    answer.read(&stream(&[ROLE]), at(1));
    answer.read(&stream(&[&content("a"), &content("b"), &content("c")]), at(10));
    answer.read(&stream(&[&content("d")]), at(25));
    answer.read(b": keep-alive\n\n", at(26));
    answer.read(&stream(&[&content("e"), STOP]), at(45));
    assert_eq!(answer.gaps().collect::<Vec<_>>(), [Duration::from_millis(15), Duration::from_millis(20)]);
    assert_eq!(answer.reads().iter().map(|read| read.events).collect::<Vec<_>>(), [3, 1, 1]);
    assert_eq!(answer.output_events(), 5);
}

#[test]
fn f04_reasoning_under_both_names() {
    for name in ["reasoning", "reasoning_content"] {
        let part = delta(&format!(r#""{name}":"hm""#));
        let answer = timed(&[(1, ROLE), (10, &part), (30, &content("a")), (31, STOP)], 32);
        assert_eq!((answer.reasoning(), answer.text()), ("hm", "a"));
        assert_eq!(answer.times().first_token, Some(at(10)));
        assert_eq!(answer.times().first_answer, Some(at(30)));
    }
}

#[test]
fn f17_reasoning_is_counted_once() {
    let part = delta(r#""reasoning":"hm","reasoning_content":"hm""#);
    assert_eq!(timed(&[(1, &part), (2, STOP)], 3).reasoning(), "hm");
}

#[test]
fn f17_an_event_of_type_error_is_a_failure() {
    let mut body = stream(&[ROLE, &content("a")]);
    body.extend_from_slice(b"event: error\ndata: {\"message\":\"overloaded\"}\n\n");
    body.extend(stream(&[STOP, "[DONE]"]));
    assert_failed(&at_every_split(&body), FailureReason::Engine, "overloaded");
}

#[test]
fn f17_the_stamp_is_that_of_the_read_that_completed_the_event() {
    let body = stream(&[&content("a")]);
    let (head, tail) = body.split_at(20);
    let mut answer = Answer::new();
    answer.read(head, at(1));
    assert_eq!(answer.times().first_event, None);
    answer.read(tail, at(7));
    assert_eq!(answer.times().first_token, Some(at(7)));
}

#[test]
fn f06_f81_tokens_of_the_first_event() {
    let counted = |text: &str, tokens: u64| {
        format!(
            r#"{{"choices":[{{"index":0,"delta":{{"content":"{text}"}}}}],"usage":{{"prompt_tokens":9,"completion_tokens":{tokens}}}}}"#
        )
    };
    let events = [counted("", 0), counted("four tokens here", 4), counted(" and more", 8)];
    let answer = timed(&[(1, &events[0]), (10, &events[1]), (30, &events[2]), (31, STOP)], 31);
    assert_eq!(answer.tokens_in_first_event(), Some(4));
    assert_eq!(answer.usage().unwrap().completion, Some(8));
    let uncounted = timed(&[(10, &content("a")), (30, &counted("b", 8)), (31, STOP)], 31);
    assert_eq!(uncounted.tokens_in_first_event(), None, "unknown, not 1");
}

#[test]
fn f09_usage_from_any_chunk() {
    let counts =
        |completion| Some(Usage { prompt: Some(30), completion: Some(completion), ..Usage::default() });
    let empty_choices = timed(&[(1, &content("a")), (2, STOP), (3, COUNTS)], 4);
    assert_eq!(empty_choices.usage(), counts(4));
    let empty_text = r#"{"choices":[{"index":0,"text":"","finish_reason":"stop"}],"usage":{"prompt_tokens":30,"completion_tokens":7}}"#;
    assert_eq!(timed(&[(1, empty_text)], 4).usage(), counts(7));
    let no_choices = r#"{"usage":{"prompt_tokens":30,"completion_tokens":5}}"#;
    assert_eq!(timed(&[(1, no_choices), (2, STOP)], 4).usage(), counts(5));
    let last = timed(&[(1, no_choices), (2, STOP), (3, COUNTS), (4, r#"{"choices":[],"usage":null}"#)], 5);
    assert_eq!(last.usage(), counts(4), "the last one, and null is none");
    assert_eq!(timed(&[(1, &content("a")), (2, STOP)], 3).usage(), None, "unknown, not 0");
}

#[test]
fn usage_with_details_and_without_sense() {
    let details = r#"{"choices":[],"usage":{"prompt_tokens":30,"completion_tokens":9,
        "prompt_tokens_details":{"cached_tokens":16},"completion_tokens_details":{"reasoning_tokens":5}}}"#
        .replace('\n', "");
    let answer = timed(&[(1, &details), (2, STOP)], 3);
    let all = Usage { prompt: Some(30), completion: Some(9), cached: Some(16), reasoning: Some(5) };
    assert_eq!(answer.usage(), Some(all));
    assert_eq!(timed(&[(1, &details), (2, COUNTS), (3, STOP)], 4).usage().unwrap().cached, Some(16));
    let odd = r#"{"choices":[],"usage":{"prompt_tokens":-1,"completion_tokens":2.5}}"#;
    assert_eq!(timed(&[(1, odd), (2, STOP)], 3).usage(), Some(Usage::default()));
    let strange = timed(&[(1, r#"{"choices":[],"usage":"many"}"#), (2, STOP)], 3);
    assert_eq!((strange.usage(), strange.outcome()), (None, Some(&complete(Finish::Stop))));
}

#[test]
fn f18_no_token_is_not_a_token_at_zero() {
    let answer = timed(&[(3, ROLE), (4, STOP), (5, COUNTS), (5, "[DONE]")], 6);
    assert_eq!(answer.outcome(), Some(&complete(Finish::Stop)));
    let times = answer.times();
    assert_eq!((times.first_token, times.first_answer, times.last_token), (None, None, None));
    assert_eq!((times.first_event, times.end), (Some(at(3)), Some(at(6))));
    assert_eq!(answer.gaps().count(), 0);
}

#[test]
fn f19_absent_times_are_absent_in_files() {
    let mut answer = Answer::new();
    answer.end(End::Broken { reason: FailureReason::Connection, text: "connection refused" }, at(4));
    let json = serde_json::to_value(answer.times()).unwrap();
    assert_eq!(json["first_token"], serde_json::Value::Null);
    assert_eq!(json["end"], 4_000_000);
    assert_failed(&answer, FailureReason::Connection, "connection refused");
}

#[test]
fn f36_a_failed_request_keeps_its_own_times() {
    let mut answer = timed(&[(1, ROLE), (10, &content("a")), (20, r#"{"error":{"message":"boom"}}"#)], 21);
    assert_failed(&answer, FailureReason::Engine, "boom");
    answer.clear();
    assert_eq!(sum(&answer), sum(&Answer::new()), "nothing of it is left for the next request");
}

#[test]
fn f43_an_early_clean_close_is_not_success() {
    let answer = at_every_split(&stream(&[ROLE, &content("a"), &content("b"), COUNTS, "[DONE]"]));
    assert_failed(&answer, FailureReason::Engine, "without a finish reason after 5 events, 2 with output");
    let cut = timed(
        &[(1, &content("a")), (2, r#"{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}"#)],
        3,
    );
    assert_eq!(cut.outcome(), Some(&complete(Finish::Length)));
}

#[test]
fn f73_late_usage_does_not_move_the_last_token() {
    let answer =
        timed(&[(10, &content("a")), (24, &content("b")), (25, STOP), (223, COUNTS), (223, "[DONE]")], 224);
    assert_eq!(answer.times().last_token, Some(at(24)));
    assert_eq!(answer.times().end, Some(at(224)));
}

#[test]
fn f76_a_broken_event_is_a_failed_request() {
    let broken = at_every_split(&stream(&[&content("a"), r#"{"choices":[{"index":0,"del"#, STOP, "[DONE]"]));
    assert_failed(&broken, FailureReason::Engine, "not the JSON of an answer");
    let number = at_every_split(&stream(&[&content("a"), "42", STOP]));
    assert_failed(&number, FailureReason::Engine, "42");
    let mut body = stream(&[&content("a"), STOP]);
    body.extend_from_slice(br#"data: {"choices":[],"usage":{"pro"#);
    assert_failed(&at_every_split(&body), FailureReason::Engine, "inside an event");
    body.push(b'\n');
    assert_failed(&at_every_split(&body), FailureReason::Engine, "inside an event");
}

#[test]
fn f77_text_of_any_script_at_every_split() {
    let answer = at_every_split(&stream(&[
        &content("ñandú 数"),
        &content("据 🇪🇸"),
        &content(r"\ud83c\uddea \u00e9\n"),
        STOP,
    ]));
    assert_eq!(answer.text(), "ñandú 数据 🇪🇸🇪 é\n");
    assert_eq!(answer.output_events(), 3);
    assert_eq!(answer.usage(), None, "an event is not a token");
}

#[test]
fn bytes_that_are_not_utf8_become_replacement_characters() {
    let mut body = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\xFFb\"}}]}\n\n".to_vec();
    body.extend(stream(&[STOP]));
    assert_eq!(at_every_split(&body).text(), "a\u{FFFD}b");
}

#[test]
fn done_present_absent_or_without_its_blank_line() {
    let without = stream(&[ROLE, &content("a"), STOP]);
    for end in ["", "data: [DONE]\n\n", "data:[DONE]\n\n", "data: [DONE]\n", "data: [DONE]", ": bye\n\n"] {
        let body = [&without, end.as_bytes()].concat();
        let answer = at_every_split(&body);
        assert_eq!(answer.outcome(), Some(&complete(Finish::Stop)), "{end:?}");
        assert_eq!(answer.text(), "a");
    }
    let mut after = without;
    after.extend(stream(&["[DONE]", &content("b"), "not JSON", r#"{"error":"late"}"#]));
    let answer = at_every_split(&after);
    assert_eq!((answer.text(), answer.outcome()), ("a", Some(&complete(Finish::Stop))));
}

#[test]
fn error_objects_in_a_stream() {
    for (event, reason, part) in [
        (
            r#"{"error":{"message":"boom","type":"InternalServerError","code":500}}"#,
            FailureReason::Engine,
            "boom",
        ),
        (r#"{"error":"boom"}"#, FailureReason::Engine, "boom"),
        (r#"{"object":"error","message":"boom","code":400}"#, FailureReason::Engine, "boom"),
        (
            r#"{"error":{"message":"CUDA out of memory. Tried to allocate 2 GiB"}}"#,
            FailureReason::Memory,
            "CUDA out of memory",
        ),
        (r#"{"error":"cudaMalloc failed: out of memory"}"#, FailureReason::Memory, "cudaMalloc"),
        (
            r#"{"error":{"message":"the request (5 tokens) exceeds the available context size"}}"#,
            FailureReason::Engine,
            "context",
        ),
    ] {
        assert_failed(&at_every_split(&stream(&[ROLE, &content("a"), event, STOP, "[DONE]"])), reason, part);
    }
    let none = at_every_split(&stream(&[&content("a"), r#"{"choices":[],"error":null}"#, STOP]));
    assert_eq!(none.outcome(), Some(&complete(Finish::Stop)));
}

#[test]
fn tool_calls_refusals_and_plain_completions() {
    let answer = timed(
        &[
            (1, ROLE),
            (
                2,
                &delta(
                    r#""tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]"#,
                ),
            ),
            (3, &delta(r#""tool_calls":[{"index":0,"function":{"arguments":"{\"x\":"}}]"#)),
            (4, &delta(r#""tool_calls":[{"index":0,"function":{"arguments":"1}"}}]"#)),
            (5, &delta(r#""tool_calls":[{"index":1,"function":{"name":"g","arguments":"{}"}}]"#)),
            (6, r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#),
        ],
        7,
    );
    assert_eq!(answer.tool_calls(), "{\"x\":1}\n{}");
    assert_eq!(answer.outcome(), Some(&complete(Finish::ToolCalls)));
    assert_eq!((answer.times().first_token, answer.times().first_answer), (Some(at(2)), Some(at(2))));
    assert_eq!(answer.times().last_token, Some(at(5)));

    let refused = timed(&[(2, &delta(r#""refusal":"no""#)), (3, STOP)], 4);
    assert_eq!((refused.refusal(), refused.text()), ("no", ""));
    assert_eq!(refused.times().first_answer, Some(at(2)));

    let plain = timed(&[(2, r#"{"choices":[{"index":0,"text":" we","finish_reason":"length"}]}"#)], 4);
    assert_eq!((plain.text(), plain.outcome()), (" we", Some(&complete(Finish::Length))));
}

#[test]
fn only_the_first_choice_is_the_answer() {
    let both = r#"{"choices":[{"index":1,"delta":{"content":"other"}},{"index":0,"delta":{"content":"a"}}]}"#;
    let other = r#"{"choices":[{"index":1,"delta":{},"finish_reason":"stop"}]}"#;
    let answer = timed(&[(1, both), (2, other)], 3);
    assert_eq!(answer.text(), "a");
    assert_eq!(answer.finish(), None);
}

#[test]
fn finish_reasons() {
    let ended = |word: &str| {
        let last = format!(r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{word}"}}]}}"#);
        timed(&[(1, &content("a")), (2, &last)], 3)
    };
    assert_eq!(ended("content_filter").outcome(), Some(&complete(Finish::ContentFilter)));
    assert_eq!(ended("repetition").outcome(), Some(&complete(Finish::Other("repetition".to_owned()))));
    assert_failed(&ended("abort"), FailureReason::Engine, "abort");
    assert_failed(&ended(""), FailureReason::Engine, "without a finish reason");
}

#[test]
fn keep_alives_are_not_events_of_the_answer() {
    let mut body = b": ping - 2026-11-30\n\nevent: ping\ndata: 2026-11-30 19:00\n\ndata:\n\n".to_vec();
    body.extend(stream(&[ROLE, &content("a"), STOP]));
    let answer = at_every_split(&body);
    assert_eq!((answer.text(), answer.outcome()), ("a", Some(&complete(Finish::Stop))));
}

#[test]
fn a_broken_connection_is_not_an_answer_unless_it_was_over() {
    let broken = End::Broken { reason: FailureReason::Timeout, text: "no byte for 30 s" };
    let mut answer = Answer::new();
    answer.read(&stream(&[&content("a"), STOP]), at(1));
    answer.end(broken, at(2));
    assert_failed(&answer, FailureReason::Timeout, "no byte for 30 s");
    answer.clear();
    answer.read(&stream(&[&content("a"), STOP, "[DONE]"]), at(1));
    assert!(answer.is_over());
    assert_eq!(answer.end(broken, at(2)), &complete(Finish::Stop));
    answer.clear();
    answer.read(&stream(&[r#"{"error":"boom"}"#]), at(1));
    answer.end(broken, at(2));
    assert_failed(&answer, FailureReason::Engine, "boom");
}

#[test]
fn bodies_that_are_no_event_stream() {
    let html = b"<!DOCTYPE html>\n<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>";
    assert_failed(&at_every_split(html), FailureReason::Engine, "an HTML page, title: 502 Bad Gateway");
    assert_failed(
        &at_every_split(b"upstream gone\n"),
        FailureReason::Engine,
        "without an event: upstream gone",
    );
    assert_failed(&at_every_split(b""), FailureReason::Engine, "without an event");
    let mut answer = Answer::new();
    answer.read_whole(html, at(3));
    assert_failed(&answer, FailureReason::Engine, "an HTML page, title: 502 Bad Gateway");
}

#[test]
fn whole_bodies() {
    let mut answer = Answer::new();
    let body = br#"{"choices":[{"index":0,"message":{"content":"a","reasoning":"hm","tool_calls":[]},"finish_reason":"stop"}],
        "usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
    assert_eq!(answer.read_whole(body, at(8)), &complete(Finish::Stop));
    assert_eq!((answer.text(), answer.reasoning()), ("a", "hm"));
    let times = answer.times();
    assert_eq!((times.first_event, times.first_token, times.first_answer), (None, None, None));
    assert_eq!((times.last_token, times.end), (Some(at(8)), Some(at(8))));
    assert_eq!(answer.bytes(), body.len() as u64);
    for (body, reason, part) in [
        (r#"{"error":{"message":"HIP out of memory"}}"#, FailureReason::Memory, "HIP out of memory"),
        (
            r#"{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":null}]}"#,
            FailureReason::Engine,
            "finish reason",
        ),
        (r#"{"status":"ok"}"#, FailureReason::Engine, "no choices"),
        (r#"{"choices":[{"ind"#, FailureReason::Engine, "not the JSON of an answer"),
        ("", FailureReason::Engine, "not the JSON of an answer"),
    ] {
        answer.clear();
        answer.read_whole(body.as_bytes(), at(1));
        assert_failed(&answer, reason, part);
    }
}

#[test]
fn engine_times_of_vllm() {
    let last = r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2},"metrics":{"time_to_first_token_ms":12.5,"generation_time_ms":40.0,"queue_time_ms":0.25,"mean_itl_ms":null,"tokens_per_second":25.0}}"#;
    let times = timed(&[(1, &content("a")), (2, STOP), (3, last)], 4).engine_times().unwrap();
    assert_eq!(times.wait, Some(Duration::from_micros(250)));
    assert_eq!(times.prefill, Some(Duration::from_micros(12_500)));
    assert_eq!(times.decode, Some(Duration::from_millis(40)));
    let none = r#"{"choices":[],"metrics":null,"timings":{"prompt_ms":-1.0}}"#;
    let times = timed(&[(1, none), (2, STOP)], 4).engine_times().unwrap();
    assert_eq!((times.wait, times.prefill, times.decode), (None, None, None));
}

fn any_event() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(ROLE.to_owned()),
        Just(STOP.to_owned()),
        Just(COUNTS.to_owned()),
        Just("[DONE]".to_owned()),
        Just(r#"{"error":"boom"}"#.to_owned()),
        "[a-zñ数🇪 ]{0,5}".prop_map(|text| content(&text)),
        "[a-z]{0,5}".prop_map(|text| delta(&format!(r#""reasoning":"{text}""#))),
        "[{}\":,a-z0-9]{0,20}",
    ]
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), size in 1_usize..30) {
        let mut answer = Answer::new();
        let whole = replay(&mut answer, [bytes.as_slice()]);
        prop_assert_eq!(replay(&mut answer, bytes.chunks(size)), whole);
        answer.clear();
        answer.read_whole(&bytes, Stamp::from_nanos(1));
    }

    #[test]
    fn arbitrary_splits_are_the_same_answer(
        events in proptest::collection::vec(any_event(), 0..12),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..8),
    ) {
        let body = stream(&events.iter().map(String::as_str).collect::<Vec<_>>());
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
        cuts.extend([0, body.len()]);
        cuts.sort_unstable();
        let mut answer = Answer::new();
        let whole = replay(&mut answer, [body.as_slice()]);
        prop_assert_eq!(replay(&mut answer, cuts.windows(2).map(|cut| &body[cut[0]..cut[1]])), whole);
    }
}
