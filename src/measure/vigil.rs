//! Watches how requests end, so that a load does not spend its documents on an engine that cannot answer them.

use std::collections::VecDeque;

use super::load::Capture;
use super::trouble::Trouble;
use crate::engine::openai::is_gpu_lost;
use crate::protocol::FailureReason;

/// Requests among which the error rate is looked at. Fewer would cut a pass by chance: with a true rate of 20 %, more
/// than half of 50 fail about once in a million windows.
const WINDOW: usize = 50;
/// Failures in a row that mean more than bad luck, however little is in flight.
const STREAK: u32 = 3;

/// Sees requests end.
#[derive(Debug)]
pub(super) struct Vigil {
    /// Failures in a row after which nothing answers any more: what was in flight when an engine went fails with it.
    streak_limit: u32,
    streak: u32,
    max_error_rate: f64,
    /// Whether each of the last requests had no answer.
    window: VecDeque<bool>,
}

impl Vigil {
    pub(super) fn new(concurrency: u32, max_error_rate: f64) -> Self {
        Self {
            streak_limit: concurrency.max(STREAK),
            streak: 0,
            max_error_rate,
            window: VecDeque::with_capacity(WINDOW),
        }
    }

    /// Sees how a request ended; a request that the run itself cancelled says nothing.
    pub(super) fn see(&mut self, capture: &Capture) -> Option<Trouble> {
        if capture.cancelled {
            return None;
        }
        let failure = capture.failure();
        if self.window.len() == WINDOW {
            self.window.pop_front();
        }
        self.window.push_back(failure.is_some());
        let Some((reason, text)) = failure else {
            self.streak = 0;
            return None;
        };
        if is_gpu_lost(text.as_bytes()) {
            return Some(Trouble::GpuLost { text: text.to_owned() });
        }
        // A refusal or an error is an answer of somebody who is there.
        self.streak = match reason {
            FailureReason::Connection | FailureReason::Timeout => self.streak.saturating_add(1),
            _ => 0,
        };
        if self.streak >= self.streak_limit {
            let text = format!("{} requests in a row failed, the last one: {text}", self.streak);
            return Some(Trouble::EngineGone { text });
        }
        let failed = self.window.iter().filter(|failed| **failed).count();
        let over = self.window.len() == WINDOW && failed as f64 > self.max_error_rate * WINDOW as f64;
        over.then(|| Trouble::ErrorRate {
            failed: u32::try_from(failed).unwrap_or(u32::MAX),
            of: u32::try_from(WINDOW).unwrap_or(u32::MAX),
            limit: self.max_error_rate,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Stamp;
    use crate::engine::openai::{Answer, End, Exchange, Failure};
    use crate::measure::Phase;

    fn ended(failure: Option<(FailureReason, &str)>) -> Capture {
        let mut answer = Answer::default();
        if failure.is_none() {
            // One event with output, a finish reason, and the end of the stream.
            answer.read(
                b"data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
                Stamp::now(),
            );
            answer.end(End::Complete, Stamp::now());
        }
        let failure = failure.map(|(reason, text)| Failure::new(reason, text));
        Capture {
            index: 0,
            phase: Phase::Measurement,
            scheduled: Stamp::now(),
            ended: Stamp::now(),
            exchange: Exchange { failure, ..Exchange::default() },
            answer,
            cancelled: false,
        }
    }

    fn seen(vigil: &mut Vigil, times: usize, failure: Option<(FailureReason, &str)>) -> Option<Trouble> {
        (0..times).fold(None, |first, _| first.or(vigil.see(&ended(failure))))
    }

    const REFUSED: Option<(FailureReason, &str)> = Some((FailureReason::Connection, "connection refused"));

    #[test]
    fn an_engine_is_gone_when_as_many_fail_in_a_row_as_were_in_flight() {
        let mut vigil = Vigil::new(1, 1.0);
        assert_eq!(seen(&mut vigil, 2, REFUSED), None);
        assert!(
            matches!(seen(&mut vigil, 1, REFUSED), Some(Trouble::EngineGone { text }) if text.contains("3 requests in a row") && text.contains("refused"))
        );
        let mut vigil = Vigil::new(8, 1.0);
        assert_eq!(seen(&mut vigil, 7, REFUSED), None);
        assert_eq!(seen(&mut vigil, 1, None), None, "an answer begins the count anew");
        assert_eq!(seen(&mut vigil, 7, REFUSED), None);
        assert!(matches!(seen(&mut vigil, 1, REFUSED), Some(Trouble::EngineGone { .. })));
    }

    #[test]
    fn an_engine_that_never_answers_in_time_is_gone_and_one_that_refuses_is_not() {
        let late = Some((FailureReason::Timeout, "no answer within 2s"));
        assert!(matches!(seen(&mut Vigil::new(2, 1.0), 3, late), Some(Trouble::EngineGone { .. })));
        let rejected = Some((FailureReason::Rejected, "status 400"));
        assert_eq!(seen(&mut Vigil::new(1, 1.0), 200, rejected), None);
    }

    #[test]
    fn the_error_rate_is_that_of_the_last_fifty() {
        let error = Some((FailureReason::Engine, "status 500"));
        let mut vigil = Vigil::new(4, 0.5);
        assert_eq!(seen(&mut vigil, 200, None), None);
        assert_eq!(seen(&mut vigil, 25, error), None, "half is allowed");
        assert_eq!(seen(&mut vigil, 1, error), Some(Trouble::ErrorRate { failed: 26, of: 50, limit: 0.5 }));
        let mut vigil = Vigil::new(4, 0.5);
        assert_eq!(seen(&mut vigil, 49, error), None, "fewer than fifty say too little");
        assert!(seen(&mut vigil, 1, error).is_some());
        assert_eq!(seen(&mut Vigil::new(4, 1.0), 500, error), None, "1 never cuts");
        let mut third = Vigil::new(4, 0.5);
        assert!((0..200).all(|n| third.see(&ended(if n % 3 == 0 { error } else { None })).is_none()));
    }

    #[test]
    fn a_lost_card_is_known_by_its_words_and_memory_is_something_else() {
        let lost = Some((FailureReason::Engine, "CUDA error: GPU is lost. Reboot the system"));
        assert!(matches!(seen(&mut Vigil::new(4, 0.5), 1, lost), Some(Trouble::GpuLost { .. })));
        let memory = Some((FailureReason::Memory, "CUDA out of memory"));
        assert_eq!(seen(&mut Vigil::new(4, 0.5), 1, memory), None);
    }

    #[test]
    fn what_the_run_cancelled_says_nothing() {
        let mut vigil = Vigil::new(1, 0.0);
        let cancelled = Capture { cancelled: true, ..ended(None) };
        assert!((0..100).all(|_| vigil.see(&cancelled).is_none()));
    }
}
