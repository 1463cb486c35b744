//! The engine client and the load against a scripted server: real sockets, byte by byte.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod accounting;
mod asking;
mod binary;
mod concurrency;
mod faults;
mod framing;
mod keeping;
mod key;
mod pages;
mod patience;
mod resets;
mod server;
mod stamps;
mod stopping;
mod tls;
mod troubles;
mod wire;
