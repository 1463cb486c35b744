//! What the engine says of itself: its metrics page (Prometheus text), read into the few figures that are used.

use serde::{Deserialize, Serialize};

/// Which engine wrote a metrics page, told by the prefix of its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// `vllm:` names (also the simulated engine's).
    Vllm,
    /// `sglang:` names.
    Sglang,
    /// `llamacpp:` names.
    LlamaCpp,
}

/// A histogram's sum and count, as far as its page gives both.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Total {
    /// Seconds, over all observations.
    pub seconds: f64,
    /// Number of observations.
    pub count: f64,
}

/// One reading of a metrics page. A figure that the engine does not report is `None`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Reading {
    /// Requests being processed.
    pub running: Option<f64>,
    /// Requests waiting in the engine's queue.
    pub waiting: Option<f64>,
    /// Share of the KV cache in use, 0 to 1.
    pub kv_usage: Option<f64>,
    /// Prompt tokens received, cached ones included (counter).
    pub prompt_tokens: Option<f64>,
    /// Output tokens generated (counter).
    pub generation_tokens: Option<f64>,
    /// Requests finished, whatever the reason (counter).
    pub finished: Option<f64>,
    /// Requests preempted (counter).
    pub preemptions: Option<f64>,
    /// Prompt tokens looked up in the prefix cache (counter).
    pub prefix_queries: Option<f64>,
    /// Prompt tokens found in the prefix cache (counter).
    pub prefix_hits: Option<f64>,
    /// Time to first token, as the engine measures it.
    pub first_token: Option<Total>,
    /// Time in the engine's queue.
    pub queue: Option<Total>,
    /// Time in prefill.
    pub prefill: Option<Total>,
    /// Time in decode.
    pub decode: Option<Total>,
}

impl Reading {
    /// Reads a page; `None` when it holds no name of a known engine.
    pub fn parse(page: &str) -> Option<(Dialect, Self)> {
        let samples = Samples(page);
        let dialect = samples.dialect()?;
        let reading = match dialect {
            Dialect::Vllm => samples.vllm(),
            Dialect::Sglang => samples.sglang(),
            Dialect::LlamaCpp => samples.llama_cpp(),
        };
        Some((dialect, reading))
    }
}

/// What the counters did between two readings.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Delta {
    /// Prompt tokens received, cached ones included.
    pub prompt_tokens: Option<f64>,
    /// Output tokens generated.
    pub generation_tokens: Option<f64>,
    /// Requests finished.
    pub finished: Option<f64>,
    /// Requests preempted.
    pub preemptions: Option<f64>,
    /// Prompt tokens looked up in the prefix cache.
    pub prefix_queries: Option<f64>,
    /// Prompt tokens found there.
    pub prefix_hits: Option<f64>,
    /// Mean time to first token as the engine measures it, in seconds.
    pub mean_first_token: Option<f64>,
    /// Mean time in the engine's queue, in seconds.
    pub mean_queue: Option<f64>,
    /// Mean time in prefill, in seconds.
    pub mean_prefill: Option<f64>,
    /// Mean time in decode, in seconds.
    pub mean_decode: Option<f64>,
    /// True when a counter went down: the engine was restarted, and the figures are `None`.
    pub reset: bool,
}

impl Delta {
    /// The difference of two readings of one page.
    pub fn between(before: &Reading, after: &Reading) -> Self {
        let counters = [
            (before.prompt_tokens, after.prompt_tokens),
            (before.generation_tokens, after.generation_tokens),
            (before.finished, after.finished),
        ];
        if counters.iter().any(|pair| matches!(pair, (Some(b), Some(a)) if a < b)) {
            return Self { reset: true, ..Self::default() };
        }
        let counter = |before: Option<f64>, after: Option<f64>| Some(after? - before?);
        let mean = |before: Option<Total>, after: Option<Total>| {
            let (before, after) = (before?, after?);
            let count = after.count - before.count;
            (count > 0.0).then(|| (after.seconds - before.seconds) / count)
        };
        Self {
            prompt_tokens: counter(before.prompt_tokens, after.prompt_tokens),
            generation_tokens: counter(before.generation_tokens, after.generation_tokens),
            finished: counter(before.finished, after.finished),
            preemptions: counter(before.preemptions, after.preemptions),
            prefix_queries: counter(before.prefix_queries, after.prefix_queries),
            prefix_hits: counter(before.prefix_hits, after.prefix_hits),
            mean_first_token: mean(before.first_token, after.first_token),
            mean_queue: mean(before.queue, after.queue),
            mean_prefill: mean(before.prefill, after.prefill),
            mean_decode: mean(before.decode, after.decode),
            reset: false,
        }
    }

    /// Share of looked-up prompt tokens that the prefix cache held, 0 to 1.
    pub fn hit_rate(&self) -> Option<f64> {
        let queries = self.prefix_queries?;
        (queries > 0.0).then_some(self.prefix_hits? / queries)
    }
}

/// The samples of a page in the Prometheus text format.
struct Samples<'a>(&'a str);

impl<'a> Samples<'a> {
    /// Name (without labels) and value of each sample.
    fn iter(&self) -> impl Iterator<Item = (&'a str, f64)> {
        self.0.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
            let name_end = line.find(['{', ' ', '\t'])?;
            let (name, rest) = line.split_at(name_end);
            // A label value may hold spaces and braces, but the value follows the last brace.
            let value = rest.rsplit_once('}').map_or(rest, |(_, value)| value);
            Some((name, value.split_whitespace().next()?.parse().ok()?))
        })
    }

    fn dialect(&self) -> Option<Dialect> {
        self.iter().find_map(|(name, _)| match name.split_once(':')?.0 {
            "vllm" => Some(Dialect::Vllm),
            "sglang" => Some(Dialect::Sglang),
            "llamacpp" => Some(Dialect::LlamaCpp),
            _ => None,
        })
    }

    /// The sum over all label sets (engines of one server, finish reasons); `None` when no sample has the name.
    fn sum(&self, wanted: &str) -> Option<f64> {
        let mut found = self.iter().filter(|(name, value)| *name == wanted && value.is_finite()).peekable();
        found.peek()?;
        Some(found.map(|(_, value)| value).sum())
    }

    fn largest(&self, wanted: &str) -> Option<f64> {
        self.iter()
            .filter(|(name, value)| *name == wanted && value.is_finite())
            .map(|(_, v)| v)
            .reduce(f64::max)
    }

    fn total(&self, base: &str) -> Option<Total> {
        Some(Total { seconds: self.sum(&format!("{base}_sum"))?, count: self.sum(&format!("{base}_count"))? })
    }

    fn vllm(&self) -> Reading {
        Reading {
            running: self.sum("vllm:num_requests_running"),
            waiting: self.sum("vllm:num_requests_waiting"),
            kv_usage: self
                .largest("vllm:kv_cache_usage_perc")
                .or_else(|| self.largest("vllm:gpu_cache_usage_perc")),
            prompt_tokens: self.sum("vllm:prompt_tokens_total"),
            generation_tokens: self.sum("vllm:generation_tokens_total"),
            finished: self.sum("vllm:request_success_total"),
            preemptions: self.sum("vllm:num_preemptions_total"),
            prefix_queries: self.sum("vllm:prefix_cache_queries_total"),
            prefix_hits: self.sum("vllm:prefix_cache_hits_total"),
            first_token: self.total("vllm:time_to_first_token_seconds"),
            queue: self.total("vllm:request_queue_time_seconds"),
            prefill: self.total("vllm:request_prefill_time_seconds"),
            decode: self.total("vllm:request_decode_time_seconds"),
        }
    }

    fn sglang(&self) -> Reading {
        let prompt_tokens = self.sum("sglang:prompt_tokens_total");
        Reading {
            running: self.sum("sglang:num_running_reqs"),
            waiting: self.sum("sglang:num_queue_reqs"),
            kv_usage: self.largest("sglang:token_usage"),
            prompt_tokens,
            generation_tokens: self.sum("sglang:generation_tokens_total"),
            finished: self.sum("sglang:num_requests_total"),
            prefix_queries: self.sum("sglang:cached_tokens_total").and(prompt_tokens),
            prefix_hits: self.sum("sglang:cached_tokens_total"),
            first_token: self.total("sglang:time_to_first_token_seconds"),
            ..Reading::default()
        }
    }

    fn llama_cpp(&self) -> Reading {
        // llama.cpp counts cached prompt tokens apart from the processed ones.
        let cached = self.sum("llamacpp:prompt_tokens_cached_total");
        let prompt_tokens =
            self.sum("llamacpp:prompt_tokens_total").map(|processed| processed + cached.unwrap_or(0.0));
        Reading {
            running: self.sum("llamacpp:requests_processing"),
            waiting: self.sum("llamacpp:requests_deferred"),
            prompt_tokens,
            generation_tokens: self.sum("llamacpp:tokens_predicted_total"),
            prefix_queries: cached.and(prompt_tokens),
            prefix_hits: cached,
            ..Reading::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_with_spaces_and_braces_do_not_disturb() {
        let page = "# HELP vllm:num_requests_running x\nvllm:num_requests_running{model=\"a b} c\",e=\"0\"} 3\n\
                    vllm:num_requests_running{model=\"z\"} 4.0 1700000000\n";
        let (dialect, reading) = Reading::parse(page).unwrap();
        assert_eq!(dialect, Dialect::Vllm);
        assert_eq!(reading.running, Some(7.0));
        assert_eq!(reading.waiting, None);
    }

    #[test]
    fn a_page_of_nobody_we_know_is_no_reading() {
        assert!(Reading::parse("process_cpu_seconds_total 3\n").is_none());
        assert!(Reading::parse("<html>not found</html>").is_none());
    }

    #[test]
    fn not_a_number_is_unknown_and_not_a_value() {
        let (_, reading) = Reading::parse("vllm:kv_cache_usage_perc{e=\"0\"} NaN\n").unwrap();
        assert_eq!(reading.kv_usage, None);
    }

    #[test]
    fn counters_that_went_down_mean_a_restart_and_no_figures() {
        let reading = |tokens| Reading { prompt_tokens: Some(tokens), ..Reading::default() };
        let delta = Delta::between(&reading(10.0), &reading(4.0));
        assert!(delta.reset && delta.prompt_tokens.is_none());
    }

    #[test]
    fn means_come_from_the_differences_of_sum_and_count() {
        let reading =
            |seconds, count| Reading { first_token: Some(Total { seconds, count }), ..Reading::default() };
        let delta = Delta::between(&reading(10.0, 5.0), &reading(16.0, 8.0));
        assert_eq!(delta.mean_first_token, Some(2.0));
        assert_eq!(Delta::between(&reading(1.0, 2.0), &reading(1.0, 2.0)).mean_first_token, None);
    }
}
