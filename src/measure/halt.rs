//! How a phase is ended before its time.

/// What whoever owns the run asks of the load. It may grow within a phase; taking it back takes effect from the next
/// phase on, since places that have ended are not filled again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Halt {
    /// Go on.
    #[default]
    No,
    /// Send nothing new; what is in flight ends by itself.
    Drain,
    /// Send nothing new, and cancel what is in flight.
    Now,
}
