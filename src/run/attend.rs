//! Decisions that come in while a run goes on: checked against the fold, recorded, answered, one at a time.

use std::convert::Infallible;

use tokio::sync::{Mutex, MutexGuard, mpsc};

use super::decision::{self, Choice, Decision, Who};
use super::desk::{Answer, Order};
use super::runner::Runner;
use crate::measure::raise_open_files;

/// Makes decisions one at a time: between the look at the state and the line in the journal nobody else decides.
#[derive(Debug, Default)]
pub(super) struct Deciding(Mutex<()>);

impl Deciding {
    pub(super) async fn lock(&self) -> MutexGuard<'_, ()> {
        self.0.lock().await
    }
}

impl Runner {
    /// Answers decisions for as long as it is polled.
    pub(super) async fn attend(&self, orders: Option<&mut mpsc::Receiver<Order>>) -> Infallible {
        if let Some(orders) = orders {
            while let Some(Order { decision, answer }) = orders.recv().await {
                let said = self.answer(&decision).await;
                // Whoever asked may have gone; what was decided stands.
                let _ = answer.send(said);
            }
        }
        std::future::pending().await
    }

    async fn answer(&self, decision: &Decision) -> Answer {
        let refused = |why: String| Answer::Refused { why };
        let trouble = self.recorder.trouble().borrow().clone();
        if let Some(text) = trouble {
            if decision.choice == Choice::Stop {
                self.stopper().stop();
                return Answer::Accepted;
            }
            return refused(format!("nothing can be recorded now: {text}"));
        }
        let _one = self.deciding.lock().await;
        let checked = decision::check(&self.recorder.state(), decision);
        let step = match checked {
            Ok(step) => step,
            Err(refusal) => return refused(refusal.to_string()),
        };
        if let Choice::Set { value, .. } = decision.choice
            && let Err(error) = raise_open_files(value)
        {
            return refused(error.to_string());
        }
        if let Err(error) = self.decide(step, decision.choice, Who::Person, decision.reason.clone()) {
            return refused(error.to_string());
        }
        let settled = self.settled().await;
        match decision.choice {
            Choice::Pause => self.drain(),
            Choice::Stop => drop(self.stopper().stop()),
            _ => {}
        }
        match settled {
            Ok(()) => Answer::Accepted,
            Err(error) => refused(error.to_string()),
        }
    }
}
