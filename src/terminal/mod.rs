//! The terminal itself: what it can show, what comes from it, what reaches it, and that it is left as it was found.

pub mod capabilities;
pub mod guard;
pub mod input;
pub mod safe;
