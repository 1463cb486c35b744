//! How a load is told to stop.

/// What the load is to do with what is left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Halt {
    /// Go on.
    #[default]
    No,
    /// Send nothing new, let what is in flight end.
    Drain,
    /// Cancel what is in flight too.
    Now,
}
