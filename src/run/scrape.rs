//! Reading the engine's metrics page while a phase runs.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use crate::engine::Stamp;
use crate::engine::metrics::{Delta, Reading};
use crate::engine::pages::{MetricsPage, PageError, Pages};

/// Time between two readings.
const PERIOD: Duration = Duration::from_millis(333);
/// An engine counts a request a moment after its last byte is out; its page is asked again for so long.
const SETTLE: Duration = Duration::from_secs(2);
const SETTLE_STEP: Duration = Duration::from_millis(50);

/// What the engine's metrics page said over a phase.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct EngineFigures {
    /// What the counters did from before the first request to after the last.
    pub delta: Delta,
    /// Highest number of requests running that a reading showed.
    pub running_peak: Option<f64>,
    /// Highest number of requests waiting in the engine that a reading showed.
    pub waiting_peak: Option<f64>,
    /// Highest share of the KV cache in use that a reading showed, 0 to 1.
    pub kv_peak: Option<f64>,
    /// Readings behind the peaks.
    pub readings: u32,
    /// Readings that failed.
    pub failed_readings: u32,
    /// Seconds between two readings.
    pub period_s: f64,
}

impl EngineFigures {
    fn see(&mut self, reading: &Reading) {
        let raise = |peak: &mut Option<f64>, seen: Option<f64>| {
            *peak = [*peak, seen].into_iter().flatten().reduce(f64::max);
        };
        raise(&mut self.running_peak, reading.running);
        raise(&mut self.waiting_peak, reading.waiting);
        raise(&mut self.kv_peak, reading.kv_usage);
        self.readings += 1;
    }
}

/// Reads a metrics page until told to finish.
pub struct Scrape {
    pages: Pages,
    page: MetricsPage,
    before: Reading,
    finish: oneshot::Sender<()>,
    task: JoinHandle<EngineFigures>,
}

impl Scrape {
    /// Takes the first reading, once the engine has counted what went before, and starts the others.
    pub async fn start(pages: &Pages, page: &MetricsPage) -> Result<Self, PageError> {
        let mut last: Option<Reading> = None;
        let before = read_until(pages, page, |reading| {
            let is_idle = reading.running.is_none_or(|running| running == 0.0);
            // Two readings that agree: nothing of the warm-up is still on its way into the counters.
            let agrees = last.replace(reading.clone()).is_some_and(|last| last == *reading);
            is_idle && agrees
        })
        .await?;
        let (finish, finished) = oneshot::channel();
        let task = tokio::spawn(watch(pages.clone(), page.clone(), finished));
        Ok(Self { pages: pages.clone(), page: page.clone(), before, finish, task })
    }

    /// Ends the readings and compares the counters; `answered` requests of the phase ended with an answer.
    pub async fn finish(self, answered: u64) -> EngineFigures {
        let Self { pages, page, before, finish, task } = self;
        // The task may have ended by itself; what it saw is taken either way.
        let _ = finish.send(());
        let mut figures = task.await.unwrap_or_default();
        figures.period_s = PERIOD.as_secs_f64();
        let expected = before.finished.map(|before| before + answered as f64);
        let after = read_until(&pages, &page, |reading| {
            // What the page does not say cannot be waited for.
            let finished =
                reading.finished.zip(expected).is_none_or(|(finished, expected)| finished >= expected);
            finished && reading.running.is_none_or(|running| running == 0.0)
        });
        match after.await {
            Ok(after) => figures.delta = Delta::between(&before, &after),
            Err(error) => {
                tracing::warn!(%error, "no last reading of the metrics page");
                figures.failed_readings += 1;
            }
        }
        figures
    }
}

/// The first reading that is as it should be, or the last one before the wait is over.
async fn read_until(
    pages: &Pages,
    page: &MetricsPage,
    mut is_settled: impl FnMut(&Reading) -> bool,
) -> Result<Reading, PageError> {
    let begun = Stamp::now();
    let mut last = None;
    loop {
        match (pages.metrics(page).await, last.take()) {
            (Ok(reading), _) if is_settled(&reading) => return Ok(reading),
            (Ok(reading), _) | (Err(_), Some(reading)) => last = Some(reading),
            (Err(error), None) => return Err(error),
        }
        if Stamp::now().since(begun) >= SETTLE
            && let Some(reading) = last
        {
            return Ok(reading);
        }
        tokio::time::sleep(SETTLE_STEP).await;
    }
}

async fn watch(pages: Pages, page: MetricsPage, mut finished: oneshot::Receiver<()>) -> EngineFigures {
    let mut figures = EngineFigures::default();
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let next = async {
            ticks.tick().await;
            pages.metrics(&page).await
        };
        let reading = tokio::select! {
            // A page that does not come is not waited for.
            _ = &mut finished => return figures,
            reading = next => reading,
        };
        match reading {
            Ok(reading) => figures.see(&reading),
            Err(error) => {
                tracing::debug!(%error, "a reading of the metrics page failed");
                figures.failed_readings += 1;
            }
        }
    }
}
