//! Each fault that a request can ask of the simulated engine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::float_cmp, missing_docs, unreachable_pub)]

mod simulated_client;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use simulated_client::{answer, ask, chat, config, metrics_until, post, sample, start, with};

fn faulty(fault: &Value) -> Value {
    with(chat(2), json!({ "simulate": fault }))
}

#[tokio::test]
async fn a_status_is_answered_with_retry_after_where_it_belongs() {
    let engine = start(&config()).await;
    for (fault, status, retry_after) in [
        (json!({"status": 500}), 500, None),
        (json!({"status": 429}), 429, Some("1")),
        (json!({"status": 503, "retry_after": 7}), 503, Some("7")),
    ] {
        let response = post(&engine, "/v1/chat/completions", &faulty(&fault)).await;
        assert_eq!(response.status(), status);
        assert_eq!(response.headers().get("retry-after").map(|value| value.to_str().unwrap()), retry_after);
        assert_eq!(response.json::<Value>().await.unwrap()["error"]["code"], status);
    }
}

#[tokio::test]
async fn memory_is_a_500_with_the_text_of_cuda() {
    let engine = start(&config()).await;
    let response = post(&engine, "/v1/chat/completions", &faulty(&json!({"memory": true}))).await;
    assert_eq!(response.status(), 500);
    assert!(response.text().await.unwrap().contains("CUDA out of memory. Tried to allocate"));
    let stream = ask(&engine, &faulty(&json!({"memory": true, "error_in_stream": 2}))).await;
    assert_eq!(stream.content(), answer(2)[..8]);
    assert!(stream.error().unwrap().contains("CUDA out of memory"));
}

#[tokio::test]
async fn an_error_in_the_stream_comes_after_the_tokens_asked_for() {
    let engine = start(&config()).await;
    for after in [0, 3, 10_000] {
        let stream = ask(&engine, &faulty(&json!({"error_in_stream": after}))).await;
        assert_eq!(stream.content(), answer(2)[..(after * 4).min(answer(2).len())]);
        assert!(stream.error().unwrap().contains("Internal server error"));
        assert_eq!(stream.finish_reason(), None);
        assert!(stream.done && stream.complete);
    }
    let whole = with(faulty(&json!({"error_in_stream": 3})), json!({"stream": false}));
    assert_eq!(post(&engine, "/v1/chat/completions", &whole).await.status(), 500);
    let page = simulated_client::metrics(&engine).await;
    assert_eq!(sample(&page, &["request_success_total", "\"error\""]), 4.0);
}

#[tokio::test]
async fn f43_a_clean_close_has_no_finish_reason() {
    let engine = start(&config()).await;
    let stream = ask(&engine, &faulty(&json!({"close_clean": 4}))).await;
    assert_eq!(stream.content(), answer(2)[..16]);
    assert!(stream.complete && !stream.done && stream.rest.is_empty());
    assert_eq!((stream.finish_reason(), stream.usage()), (None, None));
}

#[tokio::test]
async fn a_reset_leaves_a_chunk_and_an_event_unfinished() {
    let engine = start(&config()).await;
    let stream = ask(&engine, &faulty(&json!({"reset": 4}))).await;
    assert_eq!(stream.content(), answer(2)[..16]);
    assert!(!stream.complete && !stream.done);
    assert_eq!(stream.rest, "data: {\"id\":\"");
    assert_eq!(ask(&engine, &chat(2)).await.content(), answer(2), "the server goes on");
}

#[tokio::test]
async fn f80_a_stall_is_silent_until_the_client_leaves() {
    let engine = start(&config()).await;
    let mut response = post(&engine, "/v1/chat/completions", &faulty(&json!({"stall": 2}))).await;
    let mut text = String::new();
    while text.matches("\n\n").count() < 3 {
        text.push_str(std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap());
    }
    let silence = tokio::time::timeout(Duration::from_millis(200), response.chunk()).await;
    assert!(silence.is_err(), "{silence:?}");
    let load: Value = simulated_client::get(&engine, "/load").await.json().await.unwrap();
    assert_eq!(load["server_load"], 1);
    drop(response);
    let left = async {
        while simulated_client::get(&engine, "/load").await.json::<Value>().await.unwrap()["server_load"] != 0
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), left).await.unwrap();
}

#[tokio::test]
async fn usage_and_done_can_be_missing() {
    let engine = start(&config()).await;
    let stream = ask(&engine, &faulty(&json!({"no_usage": true}))).await;
    assert!(stream.usage().is_none() && stream.done);
    let stream = ask(&engine, &faulty(&json!({"no_done": true}))).await;
    assert!(stream.usage().is_some() && !stream.done && stream.complete);
    assert_eq!(stream.finish_reason(), Some("stop"));
}

#[tokio::test]
async fn f73_usage_can_be_late() {
    let engine = start(&config()).await;
    let body = faulty(&json!({"late_usage_ms": 150}));
    let mut response = post(&engine, "/v1/chat/completions", &body).await;
    let (mut finished, mut text) = (None, String::new());
    while let Some(chunk) = response.chunk().await.unwrap() {
        text.push_str(std::str::from_utf8(&chunk).unwrap());
        if text.contains("\"finish_reason\":\"stop\"") {
            finished.get_or_insert_with(Instant::now);
        }
    }
    assert!(text.contains("\"choices\":[],\"usage\""));
    assert!(finished.unwrap().elapsed() >= Duration::from_millis(140));
}

#[tokio::test]
async fn f72_the_role_can_come_long_before_the_first_token() {
    let engine = start(&config()).await;
    let body = faulty(&json!({"role_first_ms": 150}));
    let sent = Instant::now();
    let mut response = post(&engine, "/v1/chat/completions", &body).await;
    let first = response.chunk().await.unwrap().unwrap();
    let first = std::str::from_utf8(&first).unwrap();
    assert!(first.contains("\"role\":\"assistant\""));
    assert_eq!(first.matches("data: ").count(), 1, "{first}");
    let second = response.chunk().await.unwrap().unwrap();
    assert!(std::str::from_utf8(&second).unwrap().contains("{\\\"da"));
    assert!(sent.elapsed() >= Duration::from_millis(150));
}

#[tokio::test]
async fn comments_come_between_events() {
    let engine = start(&config()).await;
    let stream = ask(&engine, &faulty(&json!({"comments": true}))).await;
    assert_eq!(stream.comments, stream.content_events().len());
    assert_eq!(stream.content(), answer(2));
}

#[tokio::test]
async fn a_page_or_a_redirect_can_stand_in_the_way() {
    let engine = start(&config()).await;
    for (fault, status) in [(json!({"html": true}), 502), (json!({"html": true, "status": 200}), 200)] {
        let response = post(&engine, "/v1/chat/completions", &faulty(&fault)).await;
        assert_eq!(response.status(), status);
        assert_eq!(response.headers()["content-type"], "text/html");
        assert!(response.text().await.unwrap().starts_with("<html>"));
    }
    let response = post(&engine, "/v1/chat/completions", &faulty(&json!({"redirect": "/login"}))).await;
    assert_eq!(response.status(), 307);
    assert_eq!(response.headers()["location"], "/login");
}

#[tokio::test]
async fn a_client_that_leaves_aborts_its_request() {
    let slow = aforo::protocol::Simulated { iteration: Duration::from_millis(5), ..config() };
    let engine = start(&slow).await;
    let body = with(chat(2), json!({"ignore_eos": true, "max_tokens": 3_000}));
    let mut response = post(&engine, "/v1/chat/completions", &body).await;
    response.chunk().await.unwrap();
    let waiting = tokio::spawn({
        let whole = with(body.clone(), json!({"stream": false}));
        let url = format!("{}/chat/completions", engine.base_url());
        async move { simulated_client::http().post(url).json(&whole).send().await }
    });
    metrics_until(&engine, |page| sample(page, &["num_requests_running{"]) == 2.0).await;
    drop(response);
    waiting.abort();
    let page =
        metrics_until(&engine, |page| sample(page, &["request_success_total", "\"abort\""]) == 2.0).await;
    assert_eq!(sample(&page, &["num_requests_running{"]), 0.0);
    assert_eq!(sample(&page, &["kv_cache_usage_perc{"]), 0.0);
}
