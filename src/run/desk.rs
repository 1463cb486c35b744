//! Where decisions are handed in while a run goes on, and answered.

use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use super::decision::Decision;

/// Decisions that may wait for their answer at the same time. Each viewer waits for one.
const WAITING: usize = 64;

/// What became of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It is in the journal; or, of a stop, it will be if the disk takes it.
    Accepted,
    /// It is not possible now.
    Refused {
        /// Why, as a sentence for the person.
        why: String,
    },
}

/// A decision on its way to the runner.
#[derive(Debug)]
pub struct Order {
    /// What was decided.
    pub decision: Decision,
    /// Where its answer goes.
    pub answer: oneshot::Sender<Answer>,
}

/// Hands decisions in.
#[derive(Debug, Clone)]
pub struct Desk(mpsc::Sender<Order>);

impl Desk {
    /// A desk, and what the runner takes from it.
    pub fn new() -> (Self, mpsc::Receiver<Order>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self(sender), receiver)
    }

    /// Hands a decision in and waits for its answer.
    pub async fn decide(&self, decision: Decision) -> Answer {
        let over = || Answer::Refused { why: "the run is over".to_owned() };
        let (answer, answered) = oneshot::channel();
        if self.0.send(Order { decision, answer }).await.is_err() {
            return over();
        }
        answered.await.unwrap_or_else(|_| over())
    }
}
