//! The model without a clock: the test is the one who says what time it is.
#![allow(clippy::float_cmp, reason = "an empty cache is exactly 0")]

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::super::metrics::Metrics;
use super::*;

fn config() -> Simulated {
    Simulated {
        seed: 0,
        wrong_rate: 0.0,
        broken_rate: 0.0,
        error_rate: 0.0,
        slots: 8,
        kv_tokens: 16_384,
        context: 16_384,
        prefill_tokens_per_second: 10_000.0,
        iteration: Duration::from_millis(10),
        iteration_per_sequence: Duration::from_millis(1),
        tokens_per_event: 1,
        prefix_cache: true,
    }
}

struct Model {
    scheduler: Scheduler,
    metrics: SharedMetrics,
    now: Instant,
}

impl Model {
    fn new(config: &Simulated) -> Self {
        let metrics = SharedMetrics::new(Metrics::new(config.kv_tokens / token::BLOCK, config.prefix_cache));
        Self { scheduler: Scheduler::new(config, metrics.clone()), metrics, now: Instant::now() }
    }

    fn submit(&mut self, id: u64, prompt_tokens: u32, target: u32) -> UnboundedReceiver<Progress> {
        let (progress, receiver) = unbounded_channel();
        // A prefix of its own for each id.
        let prefix = (0..u64::from(prompt_tokens) / token::BLOCK).map(|n| id << 32 | n).collect();
        let ending = FinishedReason::Stop;
        let arrived = self.now;
        self.scheduler.submit(Job { id, prompt_tokens, prefix, target, ending, progress, arrived });
        receiver
    }

    /// Runs one iteration and gives its duration.
    fn iterate(&mut self) -> Duration {
        let duration = self.scheduler.begin(self.now).unwrap();
        self.now += duration;
        self.scheduler.finish(self.now);
        duration
    }

    fn run_to_end(&mut self) {
        while self.scheduler.begin(self.now).is_some() {
            self.scheduler.finish(self.now);
            assert!(self.scheduler.running.len() <= self.scheduler.slots);
            let held: u64 = self.scheduler.running.iter().map(|sequence| sequence.held.blocks()).sum();
            assert!(self.scheduler.cache.usage() <= 1.0 && held >= self.scheduler.running.len() as u64);
        }
        assert!(self.scheduler.is_idle());
    }
}

fn tokens(receiver: &mut UnboundedReceiver<Progress>) -> u32 {
    let mut tokens = 0;
    while let Ok(progress) = receiver.try_recv() {
        tokens += u32::from(progress == Progress::Token);
    }
    tokens
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

#[test]
fn durations_follow_the_documented_formula() {
    let mut model = Model::new(&config());
    let mut first = model.submit(1, 1_000, 5);
    assert_eq!(model.iterate(), ms(10 + 100), "1000 prompt tokens at 10 000 a second");
    assert_eq!(tokens(&mut first), 1, "the prompt's last iteration makes the first token");
    assert_eq!(model.iterate(), ms(10 + 1));
    let mut second = model.submit(2, 500, 5);
    assert_eq!(model.iterate(), ms(10 + 1 + 50), "one decodes beside the prefill");
    assert_eq!(model.iterate(), ms(10 + 2));
    assert_eq!((tokens(&mut first), tokens(&mut second)), (3, 2));
    let page = model.metrics.lock().to_string();
    assert!(page.contains("time_to_first_token_seconds_count{engine=\"0\",model_name=\"simulated\"} 2.0"));
}

#[test]
fn a_long_prompt_is_processed_in_chunks_while_others_decode() {
    let mut model = Model::new(&config());
    let mut short = model.submit(1, 48, 20);
    model.iterate();
    let mut long = model.submit(2, 5_000, 2);
    let durations: Vec<_> = (0..3).map(|_| model.iterate()).collect();
    assert_eq!(durations, [ms(11) + prefill(2_048), ms(11) + prefill(2_048), ms(11) + prefill(904)]);
    assert_eq!(tokens(&mut short), 4, "one an iteration, all along");
    assert_eq!(tokens(&mut long), 1);
}

fn prefill(tokens: u32) -> Duration {
    Duration::from_secs_f64(f64::from(tokens) / 10_000.0)
}

#[test]
fn the_queue_is_first_come_first_served_within_the_slots() {
    let mut model = Model::new(&Simulated { slots: 2, ..config() });
    let mut receivers: Vec<_> = (0..4).map(|id| model.submit(id, 32, 3)).collect();
    model.iterate();
    assert_eq!(receivers.iter_mut().map(tokens).collect::<Vec<_>>(), [1, 1, 0, 0]);
    assert_eq!(model.metrics.lock().running, 2);
    assert_eq!(model.metrics.lock().waiting, 2);
    model.run_to_end();
    assert_eq!(receivers.iter_mut().map(tokens).collect::<Vec<_>>(), [2, 2, 3, 3]);
}

#[test]
fn the_sequence_admitted_last_is_preempted_and_computed_again() {
    // Six blocks: two prompts of two blocks each, and each needs four at its end.
    let mut model = Model::new(&Simulated { kv_tokens: 96, prefix_cache: false, ..config() });
    let (mut first, mut second) = (model.submit(1, 32, 33), model.submit(2, 32, 33));
    while model.metrics.lock().preemptions == 0 {
        model.iterate();
    }
    assert_eq!(model.scheduler.waiting[0].job.id, 2);
    let sent = tokens(&mut second);
    assert_eq!(tokens(&mut first), sent + 1, "it went on in the iteration of the preemption");
    model.run_to_end();
    assert_eq!(tokens(&mut second) + sent, 33, "none again, none lost");
    assert_eq!(model.metrics.lock().generation_tokens, 66);
    assert_eq!(model.metrics.lock().prompt_tokens, 64);
    assert_eq!(model.metrics.lock().kv_usage, 0.0);
}

#[test]
fn alone_and_out_of_blocks_is_a_memory_error() {
    let mut model = Model::new(&Simulated { kv_tokens: 48, ..config() });
    let mut receiver = model.submit(1, 32, 100);
    model.run_to_end();
    let mut last = None;
    while let Ok(progress) = receiver.try_recv() {
        last = Some(progress);
    }
    assert_eq!(last, Some(Progress::OutOfMemory));
}

#[test]
fn a_prompt_waits_until_its_blocks_are_free() {
    let mut model = Model::new(&Simulated { kv_tokens: 96, prefix_cache: false, ..config() });
    let (mut first, mut second) = (model.submit(1, 64, 10), model.submit(2, 64, 10));
    for _ in 0..10 {
        model.iterate();
    }
    assert_eq!((tokens(&mut first), tokens(&mut second)), (10, 0));
    model.run_to_end();
    assert_eq!(tokens(&mut second), 10);
    assert_eq!(model.metrics.lock().preemptions, 0);
}

#[test]
fn a_cached_prefix_is_not_computed_but_its_last_token_is() {
    let mut model = Model::new(&config());
    model.submit(1, 1_600, 1);
    model.iterate();
    let mut again = model.submit(1, 1_600, 1);
    assert_eq!(model.iterate(), ms(10) + prefill(16));
    assert_eq!(again.try_recv(), Ok(Progress::Admitted { cached_tokens: 1_584 }));
}

#[test]
fn an_aborted_request_gives_its_blocks_back_wherever_it_was() {
    let mut model = Model::new(&Simulated { slots: 1, prefix_cache: false, ..config() });
    let _running = model.submit(1, 160, 50);
    let _waiting = model.submit(2, 160, 50);
    model.iterate();
    assert!(model.metrics.lock().kv_usage > 0.0);
    for id in [1, 2, 2, 3] {
        model.scheduler.abort(id);
    }
    assert!(model.scheduler.is_idle());
    assert_eq!(model.metrics.lock().kv_usage, 0.0);
    let page = model.metrics.lock().to_string();
    assert!(page.contains("finished_reason=\"abort\",model_name=\"simulated\"} 2.0"));
}

proptest::proptest! {
    /// Whatever the load and the room: everyone gets all tokens or a memory error, and all blocks come back.
    #[test]
    fn every_request_ends_and_nothing_leaks(
        blocks in 2_u64..40,
        slots in 1_u32..6,
        prefix_cache: bool,
        jobs in proptest::collection::vec((1_u32..400, 1_u32..80, 0_u64..4), 1..12),
    ) {
        let mut model = Model::new(&Simulated { kv_tokens: blocks * 16, slots, prefix_cache, ..config() });
        let mut receivers: Vec<_> =
            jobs.iter().map(|(prompt, target, id)| (model.submit(*id, *prompt, *target), *target)).collect();
        model.run_to_end();
        for (receiver, target) in &mut receivers {
            let (mut made, mut failed) = (0, false);
            while let Ok(progress) = receiver.try_recv() {
                match progress {
                    Progress::Token => made += 1,
                    Progress::OutOfMemory => failed = true,
                    Progress::Admitted { .. } => {}
                }
            }
            proptest::prop_assert!(failed || made == *target);
        }
        proptest::prop_assert_eq!(model.metrics.lock().kv_usage, 0.0);
        proptest::prop_assert!(model.scheduler.reset_prefix_cache());
    }
}
