//! The thread that runs the scheduler against the clock, and the ticket that a request holds.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{mpsc, oneshot};

use super::metrics::FinishedReason;
use super::scheduler::{Job, Progress, Scheduler};

/// A sleep is cut in parts of this length, so that a stop during a long iteration is noticed.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);
/// An iteration that ends later than planned is made up for by the next ones, unless it is later than this: then
/// the machine was not running, and a burst of tokens would be no model of an engine.
const LARGEST_LAG: Duration = Duration::from_millis(100);

enum Command {
    Submit(Job),
    Abort(u64),
    ResetPrefixCache(oneshot::Sender<bool>),
}

/// Access to the scheduler's thread, which ends when the last `Batch` and [`Ticket`] are gone or on
/// [`Stopping::stop`].
#[derive(Clone)]
pub(super) struct Batch {
    commands: Sender<Command>,
    in_flight: Arc<AtomicU64>,
    next_id: Arc<AtomicU64>,
}

/// Ends the thread without waiting for its requests.
#[derive(Clone, Default)]
pub(super) struct Stopping(Arc<AtomicBool>);

impl Stopping {
    pub(super) fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a request asks of the scheduler.
pub(super) struct Work {
    pub(super) prompt_tokens: u32,
    pub(super) prefix: Vec<u64>,
    pub(super) target: u32,
    pub(super) ending: FinishedReason,
    pub(super) arrived: Instant,
}

impl Batch {
    /// Starts the thread. `alive` is dropped when it has ended.
    pub(super) fn start(
        scheduler: Scheduler,
        stopping: Stopping,
        alive: mpsc::Sender<()>,
    ) -> io::Result<Self> {
        let (commands, queue) = channel();
        thread::Builder::new().name("simulated-batch".to_owned()).spawn(move || {
            run(scheduler, &queue, &stopping);
            drop(alive);
        })?;
        Ok(Self { commands, in_flight: Arc::default(), next_id: Arc::default() })
    }

    /// Queues a request.
    pub(super) fn submit(&self, work: Work) -> Ticket {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, progress) = unbounded_channel();
        let target = work.target.max(1);
        let job = Job {
            id,
            prompt_tokens: work.prompt_tokens,
            prefix: work.prefix,
            target,
            ending: work.ending,
            progress: sender,
            arrived: work.arrived,
        };
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        // When the thread has ended, the job and its sender are dropped here and the ticket reports the end.
        let _ = self.commands.send(Command::Submit(job));
        Ticket { id, batch: self.clone(), progress, left: target }
    }

    /// Forgets cached prefixes; false when a request was running or the thread has ended.
    pub(super) async fn reset_prefix_cache(&self) -> bool {
        let (reply, done) = oneshot::channel();
        self.commands.send(Command::ResetPrefixCache(reply)).is_ok() && done.await.unwrap_or(false)
    }

    /// Requests whose response has not ended.
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }
}

/// A request in the scheduler. Dropping it before its last token aborts the request.
pub(super) struct Ticket {
    id: u64,
    batch: Batch,
    progress: UnboundedReceiver<Progress>,
    /// Tokens still to come; 0 once the scheduler has ended the request.
    left: u32,
}

impl Ticket {
    /// The next news; `None` after the last token, or when the engine is stopping.
    pub(super) async fn next(&mut self) -> Option<Progress> {
        if self.left == 0 {
            return None;
        }
        let progress = self.progress.recv().await;
        match progress {
            Some(Progress::Token) => self.left -= 1,
            Some(Progress::Admitted { .. }) => {}
            Some(Progress::OutOfMemory) | None => self.left = 0,
        }
        progress
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.batch.in_flight.fetch_sub(1, Ordering::Relaxed);
        if self.left > 0 {
            let _ = self.batch.commands.send(Command::Abort(self.id));
        }
    }
}

fn run(mut scheduler: Scheduler, queue: &Receiver<Command>, stopping: &Stopping) {
    let mut planned = Instant::now();
    while !stopping.asked() {
        if scheduler.is_idle() {
            let Ok(command) = queue.recv() else { return };
            apply(&mut scheduler, command);
            planned = Instant::now();
        }
        while let Ok(command) = queue.try_recv() {
            apply(&mut scheduler, command);
        }
        let Some(duration) = scheduler.begin(Instant::now()) else { continue };
        let now = Instant::now();
        if now.saturating_duration_since(planned) > LARGEST_LAG {
            planned = now;
        }
        planned += duration;
        sleep_until(planned, stopping);
        scheduler.finish(Instant::now());
    }
}

fn apply(scheduler: &mut Scheduler, command: Command) {
    match command {
        Command::Submit(job) => scheduler.submit(job),
        Command::Abort(id) => scheduler.abort(id),
        Command::ResetPrefixCache(reply) => {
            // The connection that asked may have gone.
            let _ = reply.send(scheduler.reset_prefix_cache());
        }
    }
}

fn sleep_until(end: Instant, stopping: &Stopping) {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || stopping.asked() {
            return;
        }
        thread::sleep(left.min(LONGEST_SLEEP));
    }
}
