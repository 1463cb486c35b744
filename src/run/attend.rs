//! Decisions that come in while a run goes on: checked against the fold, recorded, answered, one at a time.

use std::convert::Infallible;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Mutex, MutexGuard, mpsc};

use super::decision::{self, Choice, Decision, Who};
use super::desk::{Answer, Order};
use super::event::Event;
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
        let Some(orders) = orders else { return std::future::pending().await };
        let mut answering = FuturesUnordered::new();
        loop {
            // One that waits for the disk must not keep a stop from being heard.
            tokio::select! {
                Some(Order { decision, answer }) = orders.recv() => answering.push(async move {
                    let said = self.answer(&decision).await;
                    // Whoever asked may have gone; what was decided stands.
                    let _ = answer.send(said);
                }),
                Some(()) = answering.next() => {}
                else => return std::future::pending().await,
            }
        }
    }

    /// Stops although nothing can be written: the decision is, if the disk takes anything before the end.
    fn stop_in_trouble(&self, decision: &Decision) -> Answer {
        let step = match decision::check(&self.recorder.state(), decision) {
            Ok(step) => step,
            Err(refusal) => return Answer::Refused { why: refusal.to_string() },
        };
        let Decision { choice, reason, .. } = decision.clone();
        let appended = self.recorder.append(Event::Decision { step, choice, who: Who::Person, reason });
        self.stopper().stop();
        match appended {
            Ok(()) => Answer::Accepted,
            Err(error) => Answer::Refused { why: error.to_string() },
        }
    }

    async fn answer(&self, decision: &Decision) -> Answer {
        let refused = |why: String| Answer::Refused { why };
        let mut trouble = self.recorder.trouble();
        let _one = tokio::select! {
            biased;
            Ok(text) = trouble.wait_for(Option::is_some) => {
                if decision.choice == Choice::Stop {
                    return self.stop_in_trouble(decision);
                }
                return refused(format!("nothing can be recorded now: {}", text.as_deref().unwrap_or_default()));
            }
            one = self.deciding.lock() => one,
        };
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
        let Decision { choice, reason, .. } = decision.clone();
        if let Err(error) = self.recorder.append(Event::Decision { step, choice, who: Who::Person, reason }) {
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
