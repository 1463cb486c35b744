//! The `OpenAI` HTTP API as engines speak it: vLLM, `SGLang`, llama.cpp, TGI, Ollama, LM Studio, transformers serve.
//!
//! Bytes go one way: [`sse::EventReader`] cuts a response body into events, [`chunk`] reads the few fields of an
//! event that count, [`answer::Answer`] adds them up with the time of each read. [`failure`] says why a request that
//! brought no answer failed.

pub mod answer;
pub mod chunk;
mod content;
pub mod failure;
pub mod sse;
