//! From the bytes of a response to an answer with times: events, answers, failures, and recordings of real engines.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod answers;
mod events;
mod failures;
mod recordings;
mod splits;
