//! What a pass that goes on still has to ask.

use std::collections::HashMap;

use super::state::PassState;
use crate::measure::RequestRecord;
use crate::protocol::FailureReason;

/// Positions, in the order of the corpus, of the documents that a continued pass still has to ask.
///
/// Those that were never asked, those whose request the run itself cancelled, and those that failed after the pass's
/// last answer: they were spent on an engine, or a disk, that was going away. A failure before that is an outcome of
/// the measurement like any other, and nothing is retried silently. A document that was answered is never asked again.
pub fn remaining<'d>(pass: &PassState, documents: impl Iterator<Item = &'d str>) -> Vec<usize> {
    // The last record of a document counts; but an answer stays, whatever came after it.
    let mut open: HashMap<&str, bool> = HashMap::new();
    let ends = pass.continued_at.iter().copied().chain([pass.requests.len()]);
    let mut begin = 0;
    for end in ends {
        // As it was when this attempt was cut: a later one does not make its last failures outcomes.
        let last_answer = pass.requests[..end].iter().rposition(RequestRecord::answered);
        for (at, request) in pass.requests.iter().enumerate().take(end).skip(begin) {
            let is_open = match request.failure() {
                Some(FailureReason::Cancelled) => true,
                _ => !request.answered() && last_answer.is_none_or(|last| at > last),
            };
            let known = open.entry(&request.document).or_insert(true);
            *known = *known && is_open;
        }
        begin = end;
    }
    documents.enumerate().filter(|(_, id)| open.get(id).copied().unwrap_or(true)).map(|(at, _)| at).collect()
}
