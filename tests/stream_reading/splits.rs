//! The same bytes, cut anywhere, are the same answer.

use aforo::engine::Stamp;
use aforo::engine::openai::answer::{Answer, End};

pub(crate) fn at(ms: u64) -> Stamp {
    Stamp::from_nanos(ms * 1_000_000)
}

/// Everything about an answer that may not depend on where the reads cut it, given that all came at one time.
pub(crate) fn sum(answer: &Answer) -> String {
    let in_reads: u32 = answer.reads().iter().map(|read| read.events).sum();
    assert_eq!(in_reads, answer.output_events(), "each event with output belongs to one read");
    format!(
        "{:?} text {:?} reasoning {:?} refusal {:?} tools {:?} finish {:?} usage {:?} engine {:?} first {:?} times {:?} \
         events {} bytes {}",
        answer.outcome(),
        answer.text(),
        answer.reasoning(),
        answer.refusal(),
        answer.tool_calls(),
        answer.finish(),
        answer.usage(),
        answer.engine_times(),
        answer.tokens_in_first_event(),
        answer.times(),
        answer.output_events(),
        answer.bytes(),
    )
}

/// Replays a stream that ended cleanly, cut into these parts, all read at one time.
pub(crate) fn replay<'a>(answer: &mut Answer, parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    answer.clear();
    for part in parts {
        answer.read(part, at(5));
    }
    answer.end(End::Complete, at(9));
    sum(answer)
}

/// Replays a stream whole, byte by byte, and (while it is small) cut in two at every byte; returns its answer.
pub(crate) fn at_every_split(stream: &[u8]) -> Answer {
    let mut answer = Answer::new();
    let whole = replay(&mut answer, [stream]);
    assert_eq!(replay(&mut answer, stream.chunks(1)), whole, "byte by byte");
    if stream.len() < 10_000 {
        for cut in 0..=stream.len() {
            let (head, tail) = stream.split_at(cut);
            assert_eq!(replay(&mut answer, [head, tail]), whole, "cut at byte {cut}");
        }
    }
    replay(&mut answer, [stream]);
    answer
}
