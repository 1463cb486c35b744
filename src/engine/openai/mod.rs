//! The `OpenAI` HTTP API as engines speak it: vLLM, `SGLang`, llama.cpp, TGI, Ollama, LM Studio, transformers serve.
//!
//! [`Slot`] owns a connection and asks one request at a time. Bytes go one way: [`sse::EventReader`] cuts a response
//! body into events, [`chunk`] reads the few fields of an event that count, [`answer::Answer`] adds them up with the
//! time of each read. [`failure`] says why a request that brought no answer failed.

pub mod answer;
pub mod chunk;
mod connection;
mod content;
mod endpoint;
pub mod failure;
mod http;
mod mold;
mod request;
mod response;
mod slot;
mod socket;
pub mod sse;

pub use answer::{Answer, End, Outcome, OutputRead, Times};
pub use chunk::{EngineTimes, Finish, Usage};
pub use endpoint::{ApiKey, Endpoint, EndpointError};
pub use failure::{Failure, is_gpu_lost, short};
pub use request::{Isolation, Prepared, RequestForm};
pub use slot::{Dialer, Exchange, Limits, Slot};
pub use socket::ConnectError;

/// How aforo names itself to servers.
pub const AGENT: &str = concat!("aforo/", env!("CARGO_PKG_VERSION"));
