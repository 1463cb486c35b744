//! The simulated engine under load: queue, slots, preemption, prefix cache, counters.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::float_cmp, missing_docs, unreachable_pub)]

mod simulated_client;

use std::time::Duration;

use aforo::protocol::Simulated;
use serde_json::{Value, json};
use simulated_client::{
    answer, ask, ask_all, chat, config, metrics, metrics_until, post, sample, start, with,
};

#[tokio::test]
async fn a_queue_builds_above_the_slots_and_never_more_run() {
    let engine = start(&Simulated { slots: 4, iteration: Duration::from_millis(2), ..config() }).await;
    let load = ask_all(&engine, (0..40).map(chat).collect());
    tokio::pin!(load);
    let (mut most_running, mut most_waiting) = (0.0_f64, 0.0_f64);
    let streams = loop {
        tokio::select! {
            streams = &mut load => break streams,
            page = metrics(&engine) => {
                most_running = most_running.max(sample(&page, &["num_requests_running{"]));
                most_waiting = most_waiting.max(sample(&page, &["num_requests_waiting{"]));
            }
        }
    };
    assert!(streams.iter().enumerate().all(|(n, stream)| stream.content() == answer(n)));
    assert_eq!(most_running, 4.0);
    assert!(most_waiting > 4.0, "{most_waiting}");
    let page = metrics(&engine).await;
    assert_eq!(sample(&page, &["num_requests_running{"]), 0.0);
    assert_eq!(sample(&page, &["num_requests_waiting{"]), 0.0);
}

#[tokio::test]
async fn preempted_sequences_are_counted_and_their_answers_are_whole() {
    // Each request needs 3 blocks for its prompt and 8 at its end; 20 blocks do not hold eight of them.
    let engine = start(&Simulated {
        kv_tokens: 320,
        prefix_cache: false,
        // Slow enough for all to arrive while the first one runs.
        iteration: Duration::from_millis(2),
        ..config()
    })
    .await;
    let bodies = (0..8).map(|n| with(chat(n), json!({"ignore_eos": true, "max_tokens": 80}))).collect();
    let streams = ask_all(&engine, bodies).await;
    for (n, stream) in streams.iter().enumerate() {
        assert!(stream.content().starts_with(&answer(n)), "{stream:?}");
        assert_eq!(stream.content_events().len(), 80);
        assert_eq!(stream.usage().unwrap()["completion_tokens"], 80);
        assert!(stream.done);
    }
    let page = metrics(&engine).await;
    assert!(sample(&page, &["num_preemptions_total"]) > 0.0);
    assert_eq!(sample(&page, &["vllm:generation_tokens_total"]), 640.0, "none counted twice");
    assert_eq!(sample(&page, &["kv_cache_usage_perc{"]), 0.0);
}

#[tokio::test]
async fn a_request_alone_that_outgrows_the_cache_ends_in_a_memory_error() {
    let engine = start(&Simulated { kv_tokens: 64, ..config() }).await;
    let body = with(chat(1), json!({"ignore_eos": true, "max_tokens": 500}));
    let stream = ask(&engine, &body).await;
    assert!(stream.error().unwrap().contains("out of memory"));
    assert!(!stream.content().is_empty());
    let response = post(&engine, "/v1/chat/completions", &with(body, json!({"stream": false}))).await;
    assert_eq!(response.status(), 500);
    // A prompt that can never fit does not wait for ever.
    let prompt = json!({"messages": [{"role": "user", "content": "x".repeat(400)}]});
    let response = post(&engine, "/v1/chat/completions", &with(chat(1), prompt)).await;
    assert_eq!(response.status(), 500);
    assert!(response.text().await.unwrap().contains("out of memory"));
    let page = metrics(&engine).await;
    assert_eq!(sample(&page, &["request_success_total", "\"error\""]), 2.0);
    assert_eq!(sample(&page, &["kv_cache_usage_perc{"]), 0.0);
}

fn cached(stream: &simulated_client::Stream) -> u64 {
    stream.usage().unwrap()["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap()
}

#[tokio::test]
async fn f31_a_repeated_prompt_hits_the_prefix_cache_unless_it_is_salted() {
    let engine = start(&config()).await;
    let prompt_tokens = ask(&engine, &chat(1)).await.usage().unwrap()["prompt_tokens"].as_u64().unwrap();
    let whole_blocks = (prompt_tokens - 1) / 16 * 16;
    assert!(whole_blocks > 0);
    assert_eq!(cached(&ask(&engine, &chat(1)).await), whole_blocks);
    let salted = with(chat(1), json!({"cache_salt": "pass-2"}));
    assert_eq!(cached(&ask(&engine, &salted).await), 0);
    assert_eq!(cached(&ask(&engine, &salted).await), whole_blocks);
    let page = metrics(&engine).await;
    assert_eq!(sample(&page, &["prefix_cache_queries_total"]), (4 * prompt_tokens) as f64);
    assert_eq!(sample(&page, &["prefix_cache_hits_total"]), (2 * whole_blocks) as f64);
    assert_eq!(sample(&page, &["prompt_tokens_cached_total"]), (2 * whole_blocks) as f64);

    assert_eq!(post(&engine, "/reset_prefix_cache", &json!({})).await.status(), 200);
    assert_eq!(cached(&ask(&engine, &chat(1)).await), 0);
}

#[tokio::test]
async fn without_a_prefix_cache_nothing_is_said_or_counted_about_it() {
    let engine = start(&Simulated { prefix_cache: false, ..config() }).await;
    for _ in 0..2 {
        assert_eq!(ask(&engine, &chat(1)).await.usage().unwrap().get("prompt_tokens_details"), None);
    }
    let page = metrics(&engine).await;
    assert_eq!(sample(&page, &["prefix_cache_queries_total"]), 0.0);
}

#[tokio::test]
async fn counters_equal_what_the_clients_saw() {
    let engine = start(&Simulated { slots: 16, ..config() }).await;
    let mut bodies: Vec<_> = (0..60).map(chat).collect();
    bodies.extend((60..80).map(|n| with(chat(n), json!({"max_tokens": 3}))));
    let streams = ask_all(&engine, bodies).await;
    let total = |name: &str| -> f64 {
        streams.iter().map(|stream| stream.usage().unwrap()[name].as_f64().unwrap()).sum()
    };
    let page = metrics(&engine).await;
    assert_eq!(sample(&page, &["vllm:prompt_tokens_total"]), total("prompt_tokens"));
    assert_eq!(sample(&page, &["vllm:generation_tokens_total"]), total("completion_tokens"));
    let pieces: usize = streams.iter().map(|stream| stream.content_events().len()).sum();
    assert_eq!(sample(&page, &["vllm:generation_tokens_total"]), pieces as f64);
    assert_eq!(sample(&page, &["request_success_total", "\"stop\""]), 60.0);
    assert_eq!(sample(&page, &["request_success_total", "\"length\""]), 20.0);
    for histogram in [
        "time_to_first_token_seconds",
        "e2e_request_latency_seconds",
        "request_queue_time_seconds",
        "request_prefill_time_seconds",
        "request_decode_time_seconds",
    ] {
        assert_eq!(sample(&page, &[&format!("{histogram}_count")]), 80.0);
        assert_eq!(sample(&page, &[&format!("{histogram}_bucket"), "+Inf"]), 80.0);
    }
    assert_eq!(sample(&page, &["inter_token_latency_seconds_count"]), (pieces - 80) as f64);
    let cached: u64 = streams.iter().map(cached).sum();
    assert_eq!(sample(&page, &["prefix_cache_hits_total"]), cached as f64);
}

#[tokio::test]
async fn the_page_has_the_families_of_a_real_one() {
    let shared = std::env::var("AFORO_SHARED")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../shared").to_owned());
    let Ok(real) = std::fs::read_to_string(format!("{shared}/recordings/vllm-0.24/metrics-after.prom"))
    else {
        println!("skipped: no recordings");
        return;
    };
    let engine = start(&config()).await;
    ask(&engine, &chat(0)).await;
    let page = metrics(&engine).await;
    // `name{label names and the values that are not this engine's own}`, without values that differ.
    let shape = |line: &str| {
        let series = line.rsplit_once(' ').unwrap().0;
        series.replace("smollm2", "simulated")
    };
    let real: std::collections::HashSet<_> =
        real.lines().filter(|line| line.starts_with("vllm:")).map(shape).collect();
    let ours: Vec<_> = page
        .lines()
        .filter(|line| line.starts_with("vllm:") && !line.contains("cache_config_info"))
        .map(shape)
        .collect();
    assert!(ours.len() > 100);
    for series in ours {
        assert!(real.contains(&series), "{series}");
    }
}

#[tokio::test]
async fn the_cache_fills_while_requests_run() {
    let engine =
        start(&Simulated { iteration: Duration::from_millis(2), kv_tokens: 1_600, ..config() }).await;
    let body = with(chat(1), json!({"ignore_eos": true, "max_tokens": 400}));
    let running = ask(&engine, &body);
    tokio::pin!(running);
    let mut usage: Vec<f64> = Vec::new();
    loop {
        tokio::select! {
            _ = &mut running => break,
            page = metrics(&engine) => usage.push(sample(&page, &["kv_cache_usage_perc{"])),
        }
    }
    let most = usage.iter().copied().fold(0.0, f64::max);
    assert!((0.2..0.35).contains(&most), "about 440 of 1600 tokens: {most}");
    let page = metrics_until(&engine, |page| sample(page, &["num_requests_running{"]) == 0.0).await;
    assert_eq!(sample(&page, &["kv_cache_usage_perc{"]), 0.0);
    let models: Value = simulated_client::get(&engine, "/v1/models").await.json().await.unwrap();
    assert_eq!(models["object"], "list");
}

#[tokio::test]
async fn hundreds_of_streams_at_once_are_all_answered() {
    let engine = start(&Simulated { slots: 300, kv_tokens: 1 << 20, ..config() }).await;
    let streams = ask_all(&engine, (0..300).map(|n| chat(n % 200)).collect()).await;
    for (n, stream) in streams.iter().enumerate() {
        assert_eq!(stream.content(), answer(n % 200));
        assert!(stream.done);
    }
}
