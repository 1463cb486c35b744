//! What is left to be asked of a pass that was cut or interrupted.

use std::collections::HashSet;

use super::taken::PassState;
use crate::measure::RequestRecord;
use crate::protocol::FailureReason;

/// Positions of the documents that a continued pass still has to ask, in the order of the corpus.
///
/// These are the documents of which nothing is recorded, those whose request was cancelled, and those that failed
/// without an answer at the end of an attempt, after its last answered request. At the end of an attempt the engine
/// may have been dying already: what it burnt then says nothing about the setting that is measured. A failure before
/// that is an outcome of the measurement, because the engine answered again after it, and nothing is retried silently.
/// It remains one in later attempts.
pub fn remaining<'d>(pass: &PassState, documents: impl IntoIterator<Item = &'d str>) -> Vec<usize> {
    let settled: HashSet<_> = pass.by_attempt().flat_map(outcomes).collect();
    let left = |(place, id): (usize, &str)| (!settled.contains(id)).then_some(place);
    documents.into_iter().enumerate().filter_map(left).collect()
}

/// Documents that one attempt has an outcome of.
fn outcomes(requests: &[RequestRecord]) -> impl Iterator<Item = &str> {
    let answered = requests.iter().rposition(RequestRecord::answered).map_or(0, |last| last + 1);
    let before_the_end = requests.iter().take(answered);
    before_the_end
        .filter(|request| request.failure() != Some(FailureReason::Cancelled))
        .map(|request| request.document.as_str())
}
