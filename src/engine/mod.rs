//! Who answers: any server that speaks the `OpenAI` HTTP API.

mod clock;
pub mod openai;

pub use clock::Stamp;
