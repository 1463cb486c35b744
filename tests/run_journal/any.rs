//! Any event, and the parts of events: sequences of them that nobody would write.

use aforo::engine::Stamp;
use aforo::engine::clock::Drift;
use aforo::engine::openai::{Finish, Isolation};
use aforo::engine::pages::Found;
use aforo::measure::{EngineTimes, FieldVerdict, Phase, RequestRecord, Trouble};
use aforo::protocol::FailureReason;
use aforo::run::cause::{CutCause, GateCause};
use aforo::run::decision::{Choice, Who};
use aforo::run::event::{EngineFound, Event, PassEnd, PassId, RunEnd, RunResumed, RunStarted};
use aforo::run::scrape::EngineFigures;
use proptest::prelude::*;

use super::support::records::{request, started};
use super::support::viewer::set;

pub(super) fn reason() -> impl Strategy<Value = FailureReason> {
    proptest::sample::select(FailureReason::ALL.to_vec())
}

pub(super) fn choice() -> impl Strategy<Value = Choice> {
    proptest::sample::select(vec![
        Choice::Next,
        Choice::Repeat,
        Choice::Skip,
        Choice::Continue,
        set(3),
        set(16_384),
        Choice::Auto,
        Choice::AutoOff,
        Choice::Pause,
        Choice::Stop,
        Choice::StopAfterPass,
        Choice::Note,
    ])
}

fn cut() -> impl Strategy<Value = CutCause> {
    prop_oneof![
        Just(CutCause::Paused),
        ".*".prop_map(|text| CutCause::Disk { text }),
        ".*".prop_map(|text| CutCause::Trouble(Trouble::EngineGone { text })),
        ".*".prop_map(|text| CutCause::Trouble(Trouble::GpuLost { text })),
        (any::<u32>(), any::<u32>(), number())
            .prop_map(|(failed, of, limit)| CutCause::Trouble(Trouble::ErrorRate { failed, of, limit })),
    ]
}

fn gate_cause() -> impl Strategy<Value = GateCause> {
    prop_oneof![
        Just(GateCause::StepDone),
        Just(GateCause::Paused),
        Just(GateCause::Interrupted),
        cut().prop_map(GateCause::Cut),
        ".*".prop_map(|text| GateCause::NoEngine { text }),
    ]
}

fn pass_end() -> impl Strategy<Value = PassEnd> {
    prop_oneof![Just(PassEnd::Complete), Just(PassEnd::Stopped), cut().prop_map(PassEnd::Cut)]
}

pub(super) fn run_end() -> impl Strategy<Value = RunEnd> {
    prop_oneof![Just(RunEnd::Done), Just(RunEnd::Stopped), ".*".prop_map(|why| RunEnd::Failed { why })]
}

fn pass_id() -> impl Strategy<Value = PassId> {
    (0_usize..4, 0_u32..4).prop_map(|(step, pass)| PassId { step, pass })
}

fn phase() -> impl Strategy<Value = Phase> {
    proptest::sample::select(vec![Phase::Probe, Phase::WarmUp, Phase::Measurement])
}

/// Any finite number; what is no number is `null` in JSON and never reaches an event.
fn number() -> impl Strategy<Value = f64> {
    use proptest::num::f64::{NEGATIVE, NORMAL, POSITIVE, SUBNORMAL, ZERO};
    POSITIVE | NEGATIVE | NORMAL | SUBNORMAL | ZERO
}

fn any_request() -> impl Strategy<Value = RequestRecord> {
    let stamps = proptest::array::uniform5(proptest::option::of(any::<u64>()));
    let numbers = proptest::array::uniform3(proptest::option::of(number()));
    let counts = proptest::array::uniform4(proptest::option::of(0_u64..1 << 40));
    (".*", phase(), stamps, numbers, counts, proptest::option::of(reason()), ".*", any::<bool>()).prop_map(
        |(document, phase, stamps, [first, second, third], counts, failed, text, flag)| {
            let mut record = request(&document, phase, 0, failed);
            let stamp = |index: usize| stamps[index].map(Stamp::from_nanos);
            record.times.sent = stamp(0);
            record.times.first_token = stamp(1);
            record.times.last_token = stamp(2);
            record.times.scheduled = stamp(3).unwrap_or(Stamp::from_nanos(0));
            record.times.end = stamp(4).unwrap_or(Stamp::from_nanos(0));
            record.connected_in_s = first;
            record.longest_gap_s = second;
            record.engine = third.map(|s| EngineTimes { wait_s: Some(s), prefill_s: None, decode_s: first });
            [record.tokens.input, record.tokens.out, record.tokens.cached, record.tokens.first_event] =
                counts;
            record.resent = flag;
            record.finish = Some(if flag { Finish::Other(text.clone()) } else { Finish::Length });
            record.fields = [(text, FieldVerdict::Unreadable)].into_iter().collect();
            record
        },
    )
}

pub(super) fn any_event() -> impl Strategy<Value = Event> {
    let figures =
        (number(), proptest::option::of(number()), any::<u32>()).prop_map(|(period_s, peak, readings)| {
            Box::new(EngineFigures {
                kv_peak: peak,
                running_peak: peak,
                readings,
                period_s,
                ..EngineFigures::default()
            })
        });
    let found = (".*", number()).prop_map(|(base_url, share)| EngineFound {
        base_url,
        found: Found { simulated: true, ..Found::default() },
        isolation: Isolation::NonceLine,
        shared_prompt_share: Some(share),
    });
    prop_oneof![
        (0_usize..5, 0_usize..5, any::<bool>())
            .prop_map(|(d, s, auto)| Event::RunStarted(Box::new(RunStarted { auto, ..started(d, s) }))),
        found.prop_map(Event::EngineFound),
        ".*".prop_map(|text| Event::Caution { text }),
        (pass_id(), ".*").prop_map(|(id, pass_key)| Event::PassStarted { id, pass_key }),
        (pass_id(), phase(), any::<u16>()).prop_map(|(id, phase, n)| Event::PhaseStarted {
            id,
            phase,
            requests: n.into()
        }),
        (pass_id(), any_request())
            .prop_map(|(id, request)| Event::Request { id, request: Box::new(request) }),
        (pass_id(), phase(), any::<u32>(), proptest::option::of(figures)).prop_map(
            |(id, phase, in_flight_peak, engine)| Event::PhaseEnded { id, phase, in_flight_peak, engine }
        ),
        (pass_id(), 2_u32.., any::<u16>()).prop_map(|(id, attempt, n)| Event::PassContinued {
            id,
            attempt,
            requests: n.into()
        }),
        (pass_id(), phase(), number(), number()).prop_map(|(id, phase, slept_s, wall_step_s)| {
            Event::ClockNoted { id, phase, drift: Drift { slept_s, wall_step_s } }
        }),
        (pass_id(), pass_end()).prop_map(|(id, end)| Event::PassEnded { id, end }),
        (0_usize..5, gate_cause()).prop_map(|(step, cause)| Event::GateOpened { step, cause }),
        (".*", proptest::option::of(".*"), any::<bool>())
            .prop_map(|(aforo, boot, auto)| { Event::RunResumed(RunResumed { aforo, boot, auto }) }),
        (0_usize..5, choice(), ".*").prop_map(|(step, choice, reason)| Event::Decision {
            step,
            choice,
            who: Who::Rule,
            reason
        }),
        run_end().prop_map(|end| Event::RunEnded { end }),
    ]
}
