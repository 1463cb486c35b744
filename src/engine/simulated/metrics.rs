//! The metrics page: vLLM's names, label shapes and buckets.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::histogram::{FIRST_TOKEN_BOUNDS, Histogram, REQUEST_BOUNDS, TOKEN_BOUNDS};
use super::token;

/// Why a request ended, as `request_success_total` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FinishedReason {
    Stop,
    Length,
    Abort,
    Error,
}

/// Everything on the page.
#[derive(Debug)]
pub(super) struct Metrics {
    pub(super) running: u64,
    pub(super) waiting: u64,
    pub(super) kv_usage: f64,
    pub(super) prefix_queries: u64,
    pub(super) prefix_hits: u64,
    pub(super) preemptions: u64,
    pub(super) prompt_tokens: u64,
    pub(super) cached_prompt_tokens: u64,
    pub(super) generation_tokens: u64,
    finished: [u64; 4],
    pub(super) first_token: Histogram,
    pub(super) inter_token: Histogram,
    pub(super) whole: Histogram,
    pub(super) queue: Histogram,
    pub(super) inference: Histogram,
    pub(super) prefill: Histogram,
    pub(super) decode: Histogram,
    kv_blocks: u64,
    prefix_cache: bool,
    started: Duration,
}

impl Metrics {
    /// A page of zeros for an engine with so many KV blocks.
    pub(super) fn new(kv_blocks: u64, prefix_cache: bool) -> Self {
        Self {
            running: 0,
            waiting: 0,
            kv_usage: 0.0,
            prefix_queries: 0,
            prefix_hits: 0,
            preemptions: 0,
            prompt_tokens: 0,
            cached_prompt_tokens: 0,
            generation_tokens: 0,
            finished: [0; 4],
            first_token: Histogram::new(FIRST_TOKEN_BOUNDS),
            inter_token: Histogram::new(TOKEN_BOUNDS),
            whole: Histogram::new(REQUEST_BOUNDS),
            queue: Histogram::new(REQUEST_BOUNDS),
            inference: Histogram::new(REQUEST_BOUNDS),
            prefill: Histogram::new(REQUEST_BOUNDS),
            decode: Histogram::new(REQUEST_BOUNDS),
            kv_blocks,
            prefix_cache,
            started: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        }
    }

    /// Counts one ended request.
    pub(super) fn finish(&mut self, reason: FinishedReason) {
        self.finished[reason as usize] += 1;
    }

    fn counters(&self) -> [(&'static str, &'static str, u64); 6] {
        [
            (
                "prefix_cache_queries",
                "Prefix cache queries, in terms of number of queried tokens.",
                self.prefix_queries,
            ),
            (
                "prefix_cache_hits",
                "Prefix cache hits, in terms of number of cached tokens.",
                self.prefix_hits,
            ),
            ("num_preemptions", "Cumulative number of preemption from the engine.", self.preemptions),
            ("prompt_tokens", "Number of prefill tokens processed.", self.prompt_tokens),
            (
                "prompt_tokens_cached",
                "Number of cached prompt tokens (local + external).",
                self.cached_prompt_tokens,
            ),
            ("generation_tokens", "Number of generation tokens processed.", self.generation_tokens),
        ]
    }
}

impl fmt::Display for Metrics {
    fn fmt(&self, page: &mut fmt::Formatter<'_>) -> fmt::Result {
        let started = self.started.as_secs_f64();
        family(page, "process_start_time_seconds", "gauge", "Start time since unix epoch in seconds.")?;
        writeln!(page, "process_start_time_seconds {started:?}")?;

        let gauges = [
            ("num_requests_running", "Number of requests in model execution batches.", self.running as f64),
            ("num_requests_waiting", "Number of requests waiting to be processed.", self.waiting as f64),
            ("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", self.kv_usage),
        ];
        for (name, help, value) in gauges {
            family(page, &format!("vllm:{name}"), "gauge", help)?;
            sample(page, name, "", value)?;
        }
        family(
            page,
            "vllm:num_requests_waiting_by_reason",
            "gauge",
            "Number of waiting requests by reason.",
        )?;
        labelled(page, "num_requests_waiting_by_reason", "reason", "capacity", self.waiting as f64)?;
        labelled(page, "num_requests_waiting_by_reason", "reason", "deferred", 0.0)?;

        for (name, help, value) in self.counters() {
            family(page, &format!("vllm:{name}_total"), "counter", help)?;
            sample(page, name, "_total", value as f64)?;
            created(page, name, help, started)?;
        }
        let help = "Number of prompt tokens by source.";
        family(page, "vllm:prompt_tokens_by_source_total", "counter", help)?;
        let computed = self.prompt_tokens.saturating_sub(self.cached_prompt_tokens);
        for (source, value) in [
            ("local_compute", computed),
            ("local_cache_hit", self.cached_prompt_tokens),
            ("external_kv_transfer", 0),
        ] {
            labelled(page, "prompt_tokens_by_source_total", "source", source, value as f64)?;
        }

        family(page, "vllm:request_success_total", "counter", "Count of successfully processed requests.")?;
        let [stop, length, abort, error] = self.finished;
        for (reason, count) in
            [("stop", stop), ("length", length), ("abort", abort), ("error", error), ("repetition", 0)]
        {
            writeln!(
                page,
                "vllm:request_success_total{{engine=\"0\",finished_reason=\"{reason}\",model_name=\"simulated\"}} {:?}",
                count as f64
            )?;
        }

        for (name, help, histogram) in [
            (
                "time_to_first_token_seconds",
                "Histogram of time to first token in seconds.",
                &self.first_token,
            ),
            (
                "inter_token_latency_seconds",
                "Histogram of inter-token latency in seconds.",
                &self.inter_token,
            ),
            ("e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", &self.whole),
            (
                "request_queue_time_seconds",
                "Histogram of time spent in WAITING phase for request.",
                &self.queue,
            ),
            (
                "request_inference_time_seconds",
                "Histogram of time spent in RUNNING phase for request.",
                &self.inference,
            ),
            (
                "request_prefill_time_seconds",
                "Histogram of time spent in PREFILL phase for request.",
                &self.prefill,
            ),
            (
                "request_decode_time_seconds",
                "Histogram of time spent in DECODE phase for request.",
                &self.decode,
            ),
        ] {
            family(page, &format!("vllm:{name}"), "histogram", help)?;
            histogram.write(page, name)?;
            created(page, name, help, started)?;
        }

        family(page, "vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig")?;
        writeln!(
            page,
            "vllm:cache_config_info{{block_size=\"{}\",enable_prefix_caching=\"{}\",engine=\"0\",kv_cache_size_tokens=\"{}\",num_gpu_blocks=\"{}\"}} 1.0",
            token::BLOCK,
            if self.prefix_cache { "True" } else { "False" },
            self.kv_blocks * token::BLOCK,
            self.kv_blocks,
        )
    }
}

fn family(page: &mut fmt::Formatter<'_>, name: &str, kind: &str, help: &str) -> fmt::Result {
    writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

fn sample(page: &mut fmt::Formatter<'_>, name: &str, suffix: &str, value: f64) -> fmt::Result {
    writeln!(page, "vllm:{name}{suffix}{{engine=\"0\",model_name=\"simulated\"}} {value:?}")
}

fn labelled(
    page: &mut fmt::Formatter<'_>,
    name: &str,
    label: &str,
    label_value: &str,
    value: f64,
) -> fmt::Result {
    writeln!(page, "vllm:{name}{{engine=\"0\",model_name=\"simulated\",{label}=\"{label_value}\"}} {value:?}")
}

fn created(page: &mut fmt::Formatter<'_>, name: &str, help: &str, started: f64) -> fmt::Result {
    family(page, &format!("vllm:{name}_created"), "gauge", help)?;
    sample(page, name, "_created", started)
}

/// The page, written by the scheduler and read by the server.
#[derive(Debug, Clone)]
pub(super) struct SharedMetrics(Arc<Mutex<Metrics>>);

impl SharedMetrics {
    /// Shares a page.
    pub(super) fn new(metrics: Metrics) -> Self {
        Self(Arc::new(Mutex::new(metrics)))
    }

    /// Exclusive access. Counts stay usable after a panic elsewhere, so a poisoned lock is taken over.
    pub(super) fn lock(&self) -> MutexGuard<'_, Metrics> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
