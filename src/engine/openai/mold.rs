//! The bytes that the events of one stream have in common.
//!
//! An engine writes thousands of events that differ in a few characters of content. Once one of them was read as
//! JSON, every event with the same bytes around its content means the same but for that content: comparing them costs
//! a tenth of reading it again.

/// What stands before and after the content of an event.
#[derive(Debug, Default)]
pub(super) struct Mold {
    /// Ends with the quote that opens the content.
    before: Vec<u8>,
    /// Begins with the quote that closes it; empty when nothing was learnt.
    after: Vec<u8>,
}

impl Mold {
    /// Learns from an event whose JSON was read: `content`, a part of `json`, is all that it says.
    pub(super) fn learn(&mut self, json: &str, content: &str) {
        self.before.clear();
        self.after.clear();
        // The content lies in the event itself when it needed no unescaping; only then is its place known.
        let Some(start) = content.as_ptr().addr().checked_sub(json.as_ptr().addr()) else { return };
        let end = start + content.len();
        let (Some(before), Some(after)) = (json.get(..start), json.get(end..)) else { return };
        if json.get(start..end) == Some(content) && before.ends_with('"') && after.starts_with('"') {
            self.before.extend_from_slice(before.as_bytes());
            self.after.extend_from_slice(after.as_bytes());
        }
    }

    /// The content of an event that differs from the learnt one in nothing else; `None` when that is not certain.
    pub(super) fn content<'e>(&self, event: &'e [u8]) -> Option<&'e str> {
        if self.after.is_empty() {
            return None;
        }
        let content = event.strip_prefix(self.before.as_slice())?.strip_suffix(self.after.as_slice())?;
        // Without a quote, a backslash or a control character it is one JSON string, and what it says is itself.
        let plain = content.iter().all(|byte| !matches!(byte, b'"' | b'\\' | 0..=0x1f));
        (plain && !content.is_empty())
            .then_some(content)
            .and_then(|content| std::str::from_utf8(content).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: &str = r#"{"choices":[{"delta":{"content":"Hello"},"finish_reason":null}],"n":"Hello"}"#;

    fn learnt() -> Mold {
        let mut mold = Mold::default();
        let start = EVENT.find("Hello").unwrap();
        mold.learn(EVENT, &EVENT[start..start + 5]);
        mold
    }

    #[test]
    fn an_event_that_differs_in_its_content_alone_gives_it() {
        let mold = learnt();
        assert_eq!(mold.content(EVENT.replacen("Hello", " wörld", 1).as_bytes()), Some(" wörld"));
        assert_eq!(mold.content(EVENT.as_bytes()), Some("Hello"));
    }

    #[test]
    fn an_event_that_differs_elsewhere_or_needs_reading_gives_nothing() {
        let mold = learnt();
        for content in ["", "a\\n", "a\",\"b\":\"c", "tab\t"] {
            assert_eq!(mold.content(EVENT.replacen("Hello", content, 1).as_bytes()), None, "{content:?}");
        }
        assert_eq!(mold.content(EVENT.replace("null", "\"stop\"").as_bytes()), None);
        assert_eq!(mold.content(&EVENT.as_bytes()[..EVENT.len() - 1]), None);
        let mut broken = EVENT.replacen("Hello", "xx", 1).into_bytes();
        let at = broken.iter().position(|byte| *byte == b'x').unwrap();
        broken[at] = 0xff;
        assert_eq!(mold.content(&broken), None);
    }

    #[test]
    fn content_that_was_unescaped_teaches_nothing() {
        let mut mold = learnt();
        mold.learn(EVENT, &String::from("elsewhere"));
        assert_eq!(mold.content(EVENT.as_bytes()), None);
    }
}
