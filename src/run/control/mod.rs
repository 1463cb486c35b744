//! The runner's control socket: viewers come and go, the run goes on.
//!
//! The runner [listens](Listener) on a Unix socket that only its user can reach and [serves](Server) whoever comes.
//! A [viewer](Viewer) follows the journal from any line on, sees the live counts, and hands decisions in. What is
//! said over the socket is written down in [`wire`].
//!
//! Nothing is pushed at a viewer: each is served by a task that reads the journal from the disk at the viewer's own
//! pace. One that is slow, stopped or dead holds one chunk of memory and costs the run nothing.

mod client;
mod conversation;
mod lines;
mod place;
mod pulse;
mod server;
mod tail;
pub mod wire;

pub use client::{ConnectError, Events, Message, Remote, Viewer};
pub use place::{ListenError, Listener};
pub use server::{Server, Sources};
pub use wire::{Hello, Live};
