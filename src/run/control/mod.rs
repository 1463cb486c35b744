//! How a run is looked at and steered from other processes: a Unix socket with JSON lines both ways.
//!
//! The runner is the only writer of its journal, and the journal is what viewers are sent: each viewer's task reads the
//! file itself, as far as it is on the disk, and relays its bytes. A viewer that is slow or dead costs the runner nothing
//! and finds every line once and in order when it reads on. What is not in the journal, the counts of the running phase
//! and the state of the disk, comes as `live` lines at a bounded rate to viewers that have caught up.

mod client;
mod place;
mod server;
mod wire;

pub use client::{ConnectError, Events, Message, Remote, Viewer, is_running};
pub use place::{ListenError, Listener};
pub use server::{Server, Sources};
pub use wire::{Answered, Hello, Live, Request, Said, Version};
