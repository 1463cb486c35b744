//! Server-sent events: a conformance table, each case at every split.

use aforo::engine::openai::sse::{EventReader, TooLarge};
use proptest::prelude::*;

type Found = (Vec<(String, String)>, Option<String>);

fn read<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Found {
    let mut reader = EventReader::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut events = Vec::new();
    for part in parts {
        reader.push(part, |event| events.push((text(event.kind), text(event.data)))).unwrap();
    }
    let left = reader.finish().map(text);
    (events, left)
}

fn check(name: &str, stream: &[u8], events: &[(&str, &str)], left: Option<&str>) {
    let events = events.iter().map(|(kind, data)| ((*kind).to_owned(), (*data).to_owned())).collect();
    let expected: Found = (events, left.map(str::to_owned));
    assert_eq!(read([stream]), expected, "{name}, whole");
    assert_eq!(read(stream.chunks(1)), expected, "{name}, byte by byte");
    for cut in 0..=stream.len() {
        let (head, tail) = stream.split_at(cut);
        assert_eq!(read([head, tail]), expected, "{name}, cut at byte {cut}");
        for second in cut..=stream.len() {
            let parts = [head, &stream[cut..second], &stream[second..]];
            assert_eq!(read(parts), expected, "{name}, cut at bytes {cut} and {second}");
        }
    }
}

#[test]
fn f21_fields_as_the_standard_has_them() {
    check("space", b"data: x\n\n", &[("", "x")], None);
    check("no space", b"data:x\n\n", &[("", "x")], None);
    check("one space only is removed", b"data:  x\n\n", &[("", " x")], None);
    check("a tab is not a space", b"data:\tx\n\n", &[("", "\tx")], None);
    check("colon in the value", b"data:a: b\n\n", &[("", "a: b")], None);
    check("no colon", b"data\n\n", &[("", "")], None);
    check("empty value", b"data:\n\n", &[("", "")], None);
    check("two lines without data", b"data\ndata\n\n", &[("", "\n")], None);
    check("several lines", b"data:a\ndata:\ndata: b\n\n", &[("", "a\n\nb")], None);
    check("event line", b"event: error\ndata: x\n\n", &[("error", "x")], None);
    check("event line after the data", b"data: x\nevent:e\n\n", &[("e", "x")], None);
    check("the last event line counts", b"event: a\nevent: b\ndata: x\n\n", &[("b", "x")], None);
    check("a type does not stay", b"event: a\ndata: 1\n\ndata: 2\n\n", &[("a", "1"), ("", "2")], None);
    check("a type without data is nothing", b"event: a\n\ndata: 2\n\n", &[("", "2")], None);
    check("id and retry", b"id: 7\nretry: 3000\ndata: x\n\n", &[("", "x")], None);
    check(
        "unknown fields",
        b"error: x\nDATA: y\n data: z\ndatax: w\ndata x\ndata: v\n\n",
        &[("", "v")],
        None,
    );
    check("several events", b"data: 1\n\ndata: 2\n\ndata: 3\n\n", &[("", "1"), ("", "2"), ("", "3")], None);
    check("many blank lines", b"\n\n\ndata: 1\n\n\n\ndata: 2\n\n\n", &[("", "1"), ("", "2")], None);
}

#[test]
fn f22_line_ends_and_comments() {
    check("LF", b"data: 1\ndata: 2\n\ndata: 3\n\n", &[("", "1\n2"), ("", "3")], None);
    check("CRLF", b"data: 1\r\ndata: 2\r\n\r\ndata: 3\r\n\r\n", &[("", "1\n2"), ("", "3")], None);
    check("CR", b"data: 1\rdata: 2\r\rdata: 3\r\r", &[("", "1\n2"), ("", "3")], None);
    check(
        "mixed",
        b"data: 1\r\n\ndata: 2\n\rdata: 3\r\n\rdata: 4\r\r\n",
        &[("", "1"), ("", "2"), ("", "3"), ("", "4")],
        None,
    );
    check("comments", b": ping\n\n:\n:x\ndata: 1\n: between\ndata: 2\n\n: cut", &[("", "1\n2")], None);
    check("a comment is not data", b":data: x\n\n", &[], None);
    check("byte order mark", b"\xEF\xBB\xBFdata: 1\n\n", &[("", "1")], None);
    check("byte order mark before a blank line", b"\xEF\xBB\xBF\n\ndata: 1\n\n", &[("", "1")], None);
    check("one byte order mark", b"\xEF\xBB\xBF\xEF\xBB\xBFdata: 0\n\ndata: 1\n\n", &[("", "1")], None);
    check("a byte order mark later is data", b"data: \xEF\xBB\xBF1\n\n", &[("", "\u{FEFF}1")], None);
    check("UTF-8", "data: ñ 数据 🇪🇸\n\n".as_bytes(), &[("", "ñ 数据 🇪🇸")], None);
    check("null bytes", b"data: a\0b\n\n", &[("", "a\0b")], None);
}

#[test]
fn f76_what_no_blank_line_ends_is_not_an_event() {
    check("nothing", b"", &[], None);
    check("no line end", b"data: 1\n\ndata: 2", &[("", "1")], Some("2"));
    check("one line end", b"data: 1\n\ndata: 2\n", &[("", "1")], Some("2"));
    check("in the name", b"data: 1\n\nda", &[("", "1")], Some(""));
    check("after a type", b"event: error\n", &[], Some(""));
    check("two lines", b"data: a\ndata: b", &[], Some("a\nb"));
    check("CR", b"data: 1\r", &[], Some("1"));
    check("ids alone are nothing", b"id: 1\n", &[], None);
}

/// The event is out before the LF of a CRLF: its time must not wait for the next read.
#[test]
fn an_event_is_complete_at_the_last_cr() {
    let mut reader = EventReader::new();
    let mut events = 0;
    reader.push(b"data: 1\r\n\r", |_| events += 1).unwrap();
    assert_eq!(events, 1);
}

#[test]
fn large_events_are_refused_at_every_split() {
    let fits = b"data: 56789\n\ndata: 5\ndata: 6\n\n";
    let long_line = b"data: 1\n\ndata: 567890\n\n";
    let long_event = b"data: 12345\ndata: 12345\ndata: 1\n\n";
    for size in 1..=fits.len() {
        let push_all = |stream: &[u8]| {
            let mut reader = EventReader::with_limit(11);
            stream.chunks(size).try_for_each(|part| reader.push(part, |_| {}))
        };
        assert_eq!(push_all(fits), Ok(()), "reads of {size}");
        assert_eq!(push_all(long_line), Err(TooLarge { limit: 11 }), "reads of {size}");
        assert_eq!(push_all(long_event), Err(TooLarge { limit: 11 }), "reads of {size}");
    }
}

#[test]
fn cleared_it_starts_anew() {
    let mut reader = EventReader::new();
    reader.push(b"event: e\ndata: 1\r", |_| {}).unwrap();
    reader.clear();
    let mut found = Vec::new();
    reader.push(b"\n\ndata: 2\n\n", |event| found.push((event.kind.to_vec(), event.data.to_vec()))).unwrap();
    assert_eq!(found, [(Vec::new(), b"2".to_vec())]);
}

proptest! {
    /// Against the standard's rules written the slow way, over whole text.
    #[test]
    fn agrees_with_the_plain_reading(
        stream in proptest::collection::vec(prop_oneof![
            Just("data"), Just("event"), Just("id"), Just(":"), Just(" "), Just("x"), Just("\r"), Just("\n"), Just("\n\n"),
        ], 0..40),
        size in 1_usize..6,
    ) {
        let stream = stream.concat();
        let (events, _) = read(stream.as_bytes().chunks(size));
        prop_assert_eq!(events, plainly(&stream));
    }

    #[test]
    fn any_bytes_at_any_split(stream in proptest::collection::vec(any::<u8>(), 0..300), size in 1_usize..20) {
        prop_assert_eq!(read(stream.chunks(size)), read([stream.as_slice()]));
    }
}

fn plainly(stream: &str) -> Vec<(String, String)> {
    let unix = stream.replace("\r\n", "\n").replace('\r', "\n");
    let mut lines: Vec<&str> = unix.split('\n').collect();
    lines.pop();
    let (mut events, mut kind, mut data) = (Vec::new(), String::new(), String::new());
    for line in lines {
        if line.is_empty() {
            if let Some(data) = data.strip_suffix('\n') {
                events.push((kind.clone(), data.to_owned()));
            }
            kind.clear();
            data.clear();
            continue;
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => data.extend([value, "\n"]),
            "event" => value.clone_into(&mut kind),
            _ => {}
        }
    }
    events
}
