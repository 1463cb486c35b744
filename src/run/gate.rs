//! Who decides after a step.

use tokio::sync::mpsc;

use super::decision::{Choice, Decision, Who};

/// Where decisions come from.
#[derive(Debug)]
pub enum Gate {
    /// From nowhere: every step follows the one before.
    Open,
    /// From a person. When the sender is gone, nobody can decide any more and the run stops.
    Asks(mpsc::UnboundedReceiver<Decision>),
}

impl Gate {
    /// Waits for a decision, without limit; `None` when the gate is open and nothing is decided.
    pub async fn decide(&mut self) -> Option<(Who, Decision)> {
        let Self::Asks(decisions) = self else { return None };
        Some(match decisions.recv().await {
            Some(decision) => (Who::Person, decision),
            None => (Who::Rule, Decision::new(Choice::Stop, "nobody is left to decide")),
        })
    }
}
