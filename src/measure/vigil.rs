//! Watches the requests of a phase end, and says when it is pointless to send more.

use super::load::Capture;
use super::trouble::Trouble;
use crate::engine::openai::failure::{is_engine_dead, is_gpu_lost};
use crate::protocol::FailureReason;

/// Requests that the error rate is taken over. Fewer say little: half of ten may be chance or a bad corner of the
/// corpus. More would burn more documents before anybody is asked.
const WINDOW: u32 = 50;
/// The shortest streak that means that the engine is gone: a single request, and the one after it, may die of
/// themselves.
const SHORTEST_STREAK: u32 = 3;

/// Looks at each request of a phase as it ends.
#[derive(Debug)]
pub(super) struct Vigil {
    /// Share of [`WINDOW`] above which the phase is cut.
    max_error_rate: f64,
    /// Requests in a row, up to the last one, that say that nobody is there.
    streak: u32,
    /// How many of them mean that the engine is gone.
    streak_limit: u32,
    /// Requests that ended in the phase, counted up to [`WINDOW`].
    ended: u32,
    /// One bit for each of the last [`WINDOW`] requests, the last one lowest: set when there was no answer.
    failed: u64,
}

impl Vigil {
    /// A vigil over one phase. `max_error_rate` is a share from 0 to 1.
    pub(super) fn new(max_error_rate: f64) -> Self {
        Self { max_error_rate, streak: 0, streak_limit: SHORTEST_STREAK, ended: 0, failed: 0 }
    }

    /// Takes the next request that ended by itself, in the order in which they end. `in_flight` is how many were under
    /// way at its end, itself included.
    pub(super) fn see(&mut self, capture: &Capture, in_flight: u32) -> Option<Trouble> {
        let failure = capture.failure();
        if !is_silence(capture) {
            self.streak = 0;
        } else if self.streak == 0 {
            (self.streak, self.streak_limit) = (1, in_flight.max(SHORTEST_STREAK));
        } else {
            self.streak = self.streak.saturating_add(1);
        }
        self.failed = (self.failed << 1 | u64::from(failure.is_some())) & ((1 << WINDOW) - 1);
        self.ended = WINDOW.min(self.ended + 1);
        let (_, text) = failure?;
        gpu_lost(capture)
            .or_else(|| engine_dead(capture))
            .or_else(|| self.engine_gone(text))
            .or_else(|| self.error_rate())
    }

    /// Nobody is there: as many requests in a row got no answer as were in flight when the first of them ended.
    /// What dies of itself is one place among many; an answer or a refusal from another one shows that the engine is
    /// there. In the middle of a phase that is the concurrency, towards its end what was left.
    fn engine_gone(&self, last: &str) -> Option<Trouble> {
        let streak = self.streak;
        (streak >= self.streak_limit).then(|| Trouble::EngineGone {
            text: format!("{streak} requests in a row got no answer, the last one: {last}"),
        })
    }

    /// The engine is there and answers too little. The setting may be the reason, which is why the limit is the
    /// protocol's, and why 1 lets the phase run to its end.
    fn error_rate(&self) -> Option<Trouble> {
        let failed = self.failed.count_ones();
        // Divided and not multiplied: 29 of 50 are 0.58 then, and not above it.
        let above = self.ended == WINDOW && f64::from(failed) / f64::from(WINDOW) > self.max_error_rate;
        above.then_some(Trouble::ErrorRate { failed, of: WINDOW, limit: self.max_error_rate })
    }
}

/// The card is gone, or the engine's context on it. Said once is enough: no process gets such a context back, so that
/// each further request would only fail in the same way.
fn gpu_lost(capture: &Capture) -> Option<Trouble> {
    let text = admitted(capture, is_gpu_lost)?;
    Some(Trouble::GpuLost { text: text.to_owned() })
}

/// A server says that the engine behind it is gone. It would fail every further request, in a millisecond each.
fn engine_dead(capture: &Capture) -> Option<Trouble> {
    let text = admitted(capture, is_engine_dead)?;
    Some(Trouble::EngineGone { text: text.to_owned() })
}

/// The failure's text, when the engine admits what `admits` looks for.
fn admitted(capture: &Capture, admits: fn(&[u8]) -> bool) -> Option<&str> {
    // A refusal may repeat the request, whose text says nothing about the engine.
    let (_, text) = capture.failure().filter(|(reason, _)| *reason == FailureReason::Engine)?;
    let whole = capture.exchange.failure.as_ref().map_or("", |failure| &failure.whole);
    (admits(text.as_bytes()) || admits(whole.as_bytes())).then_some(text)
}

/// Whether the request says that nobody is there any more: no connection, one that broke, or nothing in time. One
/// that ran out of time while its answer was coming says the opposite: that engine is slow.
fn is_silence(capture: &Capture) -> bool {
    match capture.failure() {
        Some((FailureReason::Connection, _)) => true,
        Some((FailureReason::Timeout, _)) => capture.answer.output_events() == 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Stamp;
    use crate::engine::openai::failure::Failure;
    use crate::engine::openai::{Answer, Exchange};
    use crate::measure::Phase;

    fn capture(exchange: Exchange, answer: Answer) -> Capture {
        let (scheduled, ended) = (Stamp::from_nanos(1), Stamp::from_nanos(2));
        Capture { index: 0, phase: Phase::Measurement, scheduled, ended, exchange, answer, cancelled: false }
    }

    fn answered() -> Capture {
        let mut answer = Answer::new();
        answer.read_whole(
            br#"{"choices":[{"index":0,"message":{"content":"4"},"finish_reason":"length"}]}"#,
            Stamp::from_nanos(2),
        );
        capture(Exchange::default(), answer)
    }

    fn failed(reason: FailureReason, text: &str) -> Capture {
        let failure = Some(Failure::new(reason, text));
        capture(Exchange { failure, ..Exchange::default() }, Answer::new())
    }

    fn refused() -> Capture {
        failed(FailureReason::Connection, "cannot connect")
    }

    /// What a vigil with that limit says of each of these.
    fn seen(limit: f64, in_flight: u32, captures: &[Capture]) -> Vec<Option<Trouble>> {
        let mut vigil = Vigil::new(limit);
        captures.iter().map(|capture| vigil.see(capture, in_flight)).collect()
    }

    #[test]
    fn as_many_in_a_row_as_are_in_flight_mean_that_the_engine_is_gone() {
        for (in_flight, streak) in [(1, 3), (3, 3), (4, 4), (64, 64)] {
            let captures: Vec<_> = (0..streak).map(|_| refused()).collect();
            let said = seen(1.0, in_flight, &captures);
            let (last, before) = said.split_last().unwrap();
            assert!(before.iter().all(Option::is_none));
            let text = format!("{streak} requests in a row got no answer, the last one: cannot connect");
            assert_eq!(*last, Some(Trouble::EngineGone { text }));
        }
    }

    #[test]
    fn anything_that_came_from_the_engine_ends_a_streak() {
        for sign in
            [answered(), failed(FailureReason::Rejected, "no"), failed(FailureReason::Engine, "worker died")]
        {
            let timeout = failed(FailureReason::Timeout, "no answer within 1s");
            let captures = [refused(), timeout, sign, refused(), refused()];
            assert!(seen(1.0, 1, &captures).iter().all(Option::is_none), "{:?}", captures[2]);
        }
    }

    #[test]
    fn a_streak_near_the_end_needs_no_more_than_was_left_in_flight() {
        let mut vigil = Vigil::new(1.0);
        let said: Vec<_> = [5, 4, 3, 2, 1].map(|left| vigil.see(&refused(), left)).into();
        assert_eq!(said.iter().map(Option::is_some).collect::<Vec<_>>(), [false, false, false, false, true]);
    }

    #[test]
    fn the_error_rate_is_that_of_the_last_fifty_and_has_to_be_exceeded() {
        for reason in
            [FailureReason::Rejected, FailureReason::Engine, FailureReason::Memory, FailureReason::Timeout]
        {
            // Answers between the failures, so that no streak is the reason.
            let captures = |answers_first: usize| -> Vec<_> {
                let mixed = (0..50).map(|n| n % 2 == 0).chain([true]);
                let all = std::iter::repeat_n(false, answers_first).chain(mixed);
                all.map(|fails| if fails { failed(reason, "x") } else { answered() }).collect()
            };
            // 25 of fifty at most: the 51st takes the place of the first, which failed too.
            assert!(seen(0.5, 1, &captures(0)).iter().all(Option::is_none), "{reason}");
            // With 24 of fifty allowed, the same is one too many as soon as there are fifty.
            let said = seen(0.49, 1, &captures(1));
            assert_eq!(said.iter().position(Option::is_some), Some(49), "{reason}");
            assert_eq!(said[49], Some(Trouble::ErrorRate { failed: 25, of: 50, limit: 0.49 }));
        }
    }

    #[test]
    fn a_rate_at_the_limit_is_not_above_it() {
        for most in 0..50 {
            let limit: f64 = format!("{}.{:02}", most * 2 / 100, most * 2 % 100).parse().unwrap();
            let captures = |failures: u32| -> Vec<_> {
                let all = (0..50).map(|n| n < failures);
                all.map(|fails| if fails { failed(FailureReason::Engine, "x") } else { answered() }).collect()
            };
            // The last one is the one that counts.
            let ended = |failures| {
                let mut captures = captures(failures);
                captures.reverse();
                seen(limit, 1, &captures)[49].is_some()
            };
            assert_eq!((ended(most), ended(most + 1)), (false, true), "{limit}");
        }
    }

    #[test]
    fn nothing_is_said_of_the_rate_before_fifty_have_ended() {
        let captures: Vec<_> = (0..50).map(|_| failed(FailureReason::Rejected, "no")).collect();
        let said = seen(0.0, 1, &captures);
        assert!(said[..49].iter().all(Option::is_none));
        assert_eq!(said[49], Some(Trouble::ErrorRate { failed: 50, of: 50, limit: 0.0 }));
    }

    #[test]
    fn a_server_that_admits_that_its_engine_is_dead_is_believed_at_once() {
        let said = "status 500: EngineCore encountered an issue. See stack trace (above) for the root cause.";
        let dead = failed(FailureReason::Engine, said);
        assert_eq!(seen(1.0, 8, &[dead]), [Some(Trouble::EngineGone { text: said.to_owned() })]);
        // The same words in a refusal may be the document's own.
        assert_eq!(seen(1.0, 8, &[failed(FailureReason::Rejected, said)]), [None]);
    }

    #[test]
    fn memory_that_ran_out_is_no_lost_gpu() {
        let captures = [failed(FailureReason::Memory, "CUDA out of memory"), answered()];
        assert_eq!(seen(0.5, 1, &captures), [None, None]);
        let lost = failed(FailureReason::Engine, "CUDA error: an illegal memory access was encountered");
        assert!(matches!(&seen(1.0, 8, &[lost])[..], [Some(Trouble::GpuLost { .. })]));
    }
}
