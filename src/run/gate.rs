//! Who decides after a step.

use tokio::sync::mpsc;

use super::event::{Choice, Who};

/// A decision with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What was chosen.
    pub choice: Choice,
    /// Why; empty when nobody said.
    pub reason: String,
}

/// Where decisions come from.
#[derive(Debug)]
pub enum Gate {
    /// From nowhere: every step follows the one before.
    Open,
    /// From a person. When the sender is gone, nobody can decide any more and the run stops.
    Asks(mpsc::UnboundedReceiver<Decision>),
}

impl Gate {
    /// Waits for a decision, without limit.
    pub async fn decide(&mut self) -> (Who, Decision) {
        let rule = |choice, reason: &str| (Who::Rule, Decision { choice, reason: reason.to_owned() });
        match self {
            Self::Open => rule(Choice::Next, ""),
            Self::Asks(decisions) => match decisions.recv().await {
                Some(decision) => (Who::Person, decision),
                None => rule(Choice::Stop, "nobody is left to decide"),
            },
        }
    }
}
