//! Who answers: servers over HTTP, what they say of themselves, and the simulated engine.

pub mod clock;
pub mod metrics;
pub mod openai;
pub mod pages;
pub mod simulated;

pub use clock::Stamp;
