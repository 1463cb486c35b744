//! Which sequence does what in each iteration, and how long an iteration takes. No clock and no thread: the caller
//! says what time it is, so a test can run the model without waiting.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;

use super::kv_cache::{Held, KvCache};
use super::metrics::{FinishedReason, SharedMetrics};
use super::token;
use crate::protocol::Simulated;

/// Prompt tokens that one iteration processes at most, over all sequences.
pub(super) const PREFILL_BUDGET: u64 = 2048;

/// What the scheduler tells a request's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// The sequence was admitted for the first time; so many prompt tokens came from the prefix cache.
    Admitted { cached_tokens: u32 },
    /// One more output token exists.
    Token,
    /// The KV cache ran out although the sequence was alone in it.
    OutOfMemory,
}

/// A request for the scheduler.
#[derive(Debug)]
pub(super) struct Job {
    /// Unique among the engine's requests.
    pub(super) id: u64,
    pub(super) prompt_tokens: u32,
    /// Hashes of the prompt's full blocks, see [`token::block_hashes`].
    pub(super) prefix: Vec<u64>,
    /// Output tokens to make, at least 1.
    pub(super) target: u32,
    /// What is counted when `target` is reached.
    pub(super) ending: FinishedReason,
    pub(super) progress: UnboundedSender<Progress>,
    pub(super) arrived: Instant,
}

#[derive(Debug)]
struct Sequence {
    job: Job,
    /// Output tokens made so far; they survive a preemption.
    generated: u32,
    /// Tokens whose keys and values are in the cache.
    computed: u64,
    /// Tokens that the current iteration processes.
    chunk: u64,
    held: Held,
    admitted: Option<Instant>,
    first_token: Option<Instant>,
    last_token: Option<Instant>,
}

impl Sequence {
    fn new(job: Job) -> Self {
        Self {
            job,
            generated: 0,
            computed: 0,
            chunk: 0,
            held: Held::default(),
            admitted: None,
            first_token: None,
            last_token: None,
        }
    }

    /// Tokens that exist: the prompt's and those made.
    fn known(&self) -> u64 {
        u64::from(self.job.prompt_tokens) + u64::from(self.generated)
    }

    fn todo(&self) -> u64 {
        self.known() - self.computed
    }

    fn decodes(&self) -> bool {
        self.todo() == 1 && self.generated > 0
    }

    fn lacks_block(&self) -> bool {
        token::blocks(self.known()) > self.held.blocks()
    }

    fn tell(&self, progress: Progress) {
        // A connection that has gone also drops its ticket, which aborts the request by a command.
        let _ = self.job.progress.send(progress);
    }
}

/// The model's state.
#[derive(Debug)]
pub(super) struct Scheduler {
    slots: usize,
    prefill_tokens_per_second: f64,
    iteration: Duration,
    iteration_per_sequence: Duration,
    prefix_cache: bool,
    /// First come, first served; a preempted sequence goes back to the front.
    waiting: VecDeque<Sequence>,
    /// In the order of admission.
    running: Vec<Sequence>,
    cache: KvCache,
    metrics: SharedMetrics,
}

impl Scheduler {
    /// An engine with nothing to do.
    pub(super) fn new(config: &Simulated, metrics: SharedMetrics) -> Self {
        Self {
            slots: config.slots as usize,
            prefill_tokens_per_second: config.prefill_tokens_per_second,
            iteration: config.iteration,
            iteration_per_sequence: config.iteration_per_sequence,
            prefix_cache: config.prefix_cache,
            waiting: VecDeque::new(),
            running: Vec::new(),
            cache: KvCache::new(config.kv_tokens / token::BLOCK, config.prefix_cache),
            metrics,
        }
    }

    /// Whether there is nothing to compute.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// Puts a request at the end of the queue.
    pub(super) fn submit(&mut self, job: Job) {
        self.waiting.push_back(Sequence::new(job));
    }

    /// Ends a request whose client has gone; nothing happens when it has ended already.
    pub(super) fn abort(&mut self, id: u64) {
        let sequence = if let Some(at) = self.running.iter().position(|s| s.job.id == id) {
            Some(self.running.remove(at))
        } else {
            self.waiting.iter().position(|s| s.job.id == id).and_then(|at| self.waiting.remove(at))
        };
        if let Some(sequence) = sequence {
            self.cache.release(sequence.held);
            self.metrics.lock().finish(FinishedReason::Abort);
            self.show();
        }
    }

    /// Forgets the prefix cache; false, and nothing forgotten, while a sequence is running.
    pub(super) fn reset_prefix_cache(&mut self) -> bool {
        self.cache.reset()
    }

    /// Plans the next iteration: grows, preempts, admits, shares out the prefill budget. Gives its duration, or
    /// `None` when nothing runs.
    pub(super) fn begin(&mut self, now: Instant) -> Option<Duration> {
        let preempted = self.grow();
        let mut budget = PREFILL_BUDGET;
        for sequence in &mut self.running {
            budget -= plan_chunk(sequence, budget);
        }
        // A sequence that has just been preempted must not take back in the same iteration what another one needed.
        if !preempted {
            self.admit(now, budget);
        }
        self.show();
        if self.running.is_empty() {
            return None;
        }
        Some(self.duration())
    }

    /// Gives each decoding sequence the block that its next token needs. True when one was preempted for it.
    fn grow(&mut self) -> bool {
        let mut preempted = false;
        let mut at = 0;
        while let Some(sequence) = self.running.get_mut(at) {
            if !sequence.lacks_block() || self.cache.grow(&mut sequence.held) {
                at += 1;
                continue;
            }
            let alone = self.running.len() == 1;
            let Some(last) = self.running.pop() else { break };
            if alone {
                self.fail(last);
            } else {
                self.preempt(last);
                preempted = true;
            }
        }
        preempted
    }

    fn preempt(&mut self, mut sequence: Sequence) {
        self.cache.release(std::mem::take(&mut sequence.held));
        sequence.computed = 0;
        self.waiting.push_front(sequence);
        self.metrics.lock().preemptions += 1;
    }

    fn fail(&mut self, sequence: Sequence) {
        self.metrics.lock().finish(FinishedReason::Error);
        sequence.tell(Progress::OutOfMemory);
        self.cache.release(sequence.held);
    }

    fn admit(&mut self, now: Instant, mut budget: u64) {
        while self.running.len() < self.slots && budget > 0 {
            let Some(mut sequence) = self.waiting.pop_front() else { return };
            let prefix = reusable(&sequence.job);
            let Some((held, found)) = self.cache.admit(prefix, token::blocks(sequence.known())) else {
                if self.running.is_empty() {
                    self.fail(sequence);
                    continue;
                }
                self.waiting.push_front(sequence);
                return;
            };
            sequence.held = held;
            sequence.computed = found * token::BLOCK;
            if sequence.admitted.is_none() {
                sequence.admitted = Some(now);
                self.count_admission(&sequence);
            }
            budget -= plan_chunk(&mut sequence, budget);
            self.running.push(sequence);
        }
    }

    fn count_admission(&self, sequence: &Sequence) {
        if self.prefix_cache {
            let mut metrics = self.metrics.lock();
            metrics.prefix_queries += u64::from(sequence.job.prompt_tokens);
            metrics.prefix_hits += sequence.computed;
            metrics.cached_prompt_tokens += sequence.computed;
        }
        let cached_tokens = u32::try_from(sequence.computed).unwrap_or(u32::MAX);
        sequence.tell(Progress::Admitted { cached_tokens });
    }

    fn duration(&self) -> Duration {
        let (mut decoded, mut prefill_tokens) = (0, 0);
        for sequence in &self.running {
            if sequence.decodes() {
                decoded += 1;
            } else {
                prefill_tokens += sequence.chunk;
            }
        }
        let prefill = Duration::try_from_secs_f64(prefill_tokens as f64 / self.prefill_tokens_per_second);
        self.iteration + self.iteration_per_sequence * decoded + prefill.unwrap_or(Duration::ZERO)
    }

    /// Ends the iteration that [`Self::begin`] planned: tokens come out, finished sequences leave.
    pub(super) fn finish(&mut self, now: Instant) {
        let mut metrics = self.metrics.lock();
        let mut kept = Vec::with_capacity(self.running.len());
        for mut sequence in self.running.drain(..) {
            let decoded = sequence.decodes();
            sequence.computed += std::mem::take(&mut sequence.chunk);
            if sequence.todo() > 0 {
                kept.push(sequence);
                continue;
            }
            if !decoded {
                self.cache.publish(&mut sequence.held, &sequence.job.prefix);
            }
            if sequence.generated == 0 {
                metrics.prompt_tokens += u64::from(sequence.job.prompt_tokens);
            }
            sequence.generated += 1;
            metrics.generation_tokens += 1;
            if let Some(previous) = sequence.last_token.replace(now) {
                metrics.inter_token.observe(seconds(previous, now));
            } else {
                sequence.first_token = Some(now);
                metrics.first_token.observe(seconds(sequence.job.arrived, now));
            }
            let done = sequence.generated >= sequence.job.target;
            if done {
                metrics.finish(sequence.job.ending);
                if let (Some(admitted), Some(first)) = (sequence.admitted, sequence.first_token) {
                    metrics.whole.observe(seconds(sequence.job.arrived, now));
                    metrics.queue.observe(seconds(sequence.job.arrived, admitted));
                    metrics.inference.observe(seconds(admitted, now));
                    metrics.prefill.observe(seconds(admitted, first));
                    metrics.decode.observe(seconds(first, now));
                }
            }
            // The client learns of the token only after it is counted: the lock is held until the end.
            sequence.tell(Progress::Token);
            if done {
                self.cache.release(sequence.held);
            } else {
                kept.push(sequence);
            }
        }
        self.running = kept;
        metrics.running = self.running.len() as u64;
        metrics.waiting = self.waiting.len() as u64;
        metrics.kv_usage = self.cache.usage();
    }

    /// Brings the gauges up to date.
    fn show(&self) {
        let mut metrics = self.metrics.lock();
        metrics.running = self.running.len() as u64;
        metrics.waiting = self.waiting.len() as u64;
        metrics.kv_usage = self.cache.usage();
    }
}

/// The blocks of a prompt that may come from the prefix cache. The last prompt token is always computed: its output
/// is the first token.
fn reusable(job: &Job) -> &[u64] {
    let complete = u64::from(job.prompt_tokens) == job.prefix.len() as u64 * token::BLOCK;
    let blocks = job.prefix.len() - usize::from(complete && !job.prefix.is_empty());
    &job.prefix[..blocks]
}

/// Says how many tokens the sequence processes in this iteration, and gives its share of the prefill budget.
fn plan_chunk(sequence: &mut Sequence, budget: u64) -> u64 {
    if sequence.decodes() {
        sequence.chunk = 1;
        return 0;
    }
    sequence.chunk = sequence.todo().min(budget);
    sequence.chunk
}

fn seconds(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64()
}

#[cfg(test)]
mod tests;
