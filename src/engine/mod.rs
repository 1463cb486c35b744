//! Who answers.

pub mod simulated;
