//! The simulated engine's responses: shapes, counts, refusals, the same answers for the same seed.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

mod simulated_client;

use aforo::protocol::Simulated;
use serde_json::{Value, json};
use simulated_client::{answer, ask, chat, config, document, get, post, read, reference, start, with};

#[tokio::test]
async fn a_chat_stream_has_the_events_of_vllm() {
    let engine = start(&config()).await;
    let stream = ask(&engine, &chat(12)).await;
    assert!(stream.done && stream.complete);
    assert_eq!(stream.content(), answer(12));
    let choices: Vec<_> = stream.events.iter().map(|event| &event["choices"][0]).collect();
    assert_eq!(choices[0]["delta"], json!({"role": "assistant", "content": ""}));
    let [.., finish, usage] = &stream.events[..] else { panic!("{stream:?}") };
    assert_eq!(finish["choices"][0]["delta"], json!({"content": ""}));
    assert_eq!(finish["choices"][0]["finish_reason"], "stop");
    assert_eq!(usage["choices"], json!([]));
    let id = stream.events[0]["id"].as_str().unwrap();
    assert!(id.starts_with("chatcmpl-"));
    for event in &stream.events {
        assert_eq!(event["id"], id);
        assert_eq!(event["object"], "chat.completion.chunk");
        assert_eq!(event["model"], "simulated");
    }
}

#[tokio::test]
async fn usage_counts_the_pieces() {
    let engine = start(&config()).await;
    let stream = ask(&engine, &chat(3)).await;
    let usage = stream.usage().unwrap();
    let pieces = stream.content_events().len();
    assert_eq!(usage["completion_tokens"], pieces);
    assert_eq!(pieces, answer(3).len().div_ceil(4), "ASCII only: four bytes a piece");
    let prompt = format!("<system>\nRead the receipt.\n<user>\nGive JSON. {}\n", document(3));
    assert_eq!(usage["prompt_tokens"], prompt.len().div_ceil(4));
    assert_eq!(usage["total_tokens"], prompt.len().div_ceil(4) + pieces);
    assert_eq!(usage["prompt_tokens_details"], json!({"cached_tokens": 0}));

    let asked = json!({"messages": chat(3)["messages"], "model": "simulated"});
    let tokenized: Value = post(&engine, "/tokenize", &asked).await.json().await.unwrap();
    assert_eq!(tokenized["count"], usage["prompt_tokens"]);
    assert_eq!(tokenized["tokens"].as_array().unwrap().len(), prompt.len().div_ceil(4));
}

#[tokio::test]
async fn usage_comes_with_every_event_when_asked() {
    let engine = start(&config()).await;
    let options = json!({"include_usage": true, "continuous_usage_stats": true});
    let stream = ask(&engine, &with(chat(3), json!({"stream_options": options}))).await;
    let counts: Vec<_> =
        stream.events.iter().map(|event| event["usage"]["completion_tokens"].as_u64().unwrap()).collect();
    let pieces = stream.content_events().len() as u64;
    let mut expected: Vec<u64> = (0..=pieces).collect();
    expected.extend([pieces, pieces]);
    assert_eq!(counts, expected);

    let stream = ask(&engine, &with(chat(3), json!({"stream_options": null}))).await;
    assert!(stream.events.iter().all(|event| event.get("usage").is_none()));
    assert!(stream.done);
}

#[tokio::test]
async fn max_tokens_ends_with_length_on_the_last_piece() {
    let engine = start(&config()).await;
    for name in ["max_tokens", "max_completion_tokens"] {
        let stream = ask(&engine, &with(chat(3), json!({name: 5}))).await;
        assert_eq!(stream.content(), answer(3)[..20]);
        assert_eq!(stream.usage().unwrap()["completion_tokens"], 5);
        assert_eq!(stream.finish_reason(), Some("length"));
        let [.., last, _usage] = &stream.events[..] else { panic!("{stream:?}") };
        assert_eq!(last["choices"][0]["delta"]["content"], answer(3)[16..20]);
        assert_eq!(last["choices"][0]["finish_reason"], "length");
    }
}

#[tokio::test]
async fn ignore_eos_goes_on_to_max_tokens() {
    let engine = start(&config()).await;
    let stream = ask(&engine, &with(chat(3), json!({"max_tokens": 200, "ignore_eos": true}))).await;
    assert_eq!(stream.content_events().len(), 200);
    assert_eq!(stream.usage().unwrap()["completion_tokens"], 200);
    assert_eq!(stream.finish_reason(), Some("length"));
}

#[tokio::test]
async fn an_event_can_carry_several_tokens() {
    let engine = start(&Simulated { tokens_per_event: 4, ..config() }).await;
    let stream = ask(&engine, &chat(3)).await;
    assert_eq!(stream.content(), answer(3));
    let tokens = stream.usage().unwrap()["completion_tokens"].as_u64().unwrap();
    assert_eq!(stream.content_events().len() as u64, tokens.div_ceil(4));
    let stream = ask(&engine, &with(chat(3), json!({"simulate": {"bundle": 3}}))).await;
    assert_eq!(stream.content(), answer(3));
    assert_eq!(stream.content_events().len() as u64, tokens.div_ceil(3));
}

#[tokio::test]
async fn a_whole_answer_is_the_same_as_a_streamed_one() {
    let engine = start(&config()).await;
    let body = with(chat(9), json!({"stream": false}));
    let whole: Value = post(&engine, "/v1/chat/completions", &body).await.json().await.unwrap();
    assert_eq!(whole["object"], "chat.completion");
    assert_eq!(whole["choices"][0]["message"]["content"], answer(9));
    assert_eq!(whole["choices"][0]["finish_reason"], "stop");
    assert_eq!(whole["usage"]["completion_tokens"], answer(9).len().div_ceil(4));
}

#[tokio::test]
async fn completions_have_no_role_event() {
    let engine = start(&config()).await;
    let body = json!({
        "model": "simulated", "prompt": format!("JSON of {}", document(4)), "max_tokens": 64,
        "stream": true, "stream_options": {"include_usage": true},
    });
    let stream = read(post(&engine, "/v1/completions", &body).await).await;
    assert_eq!(stream.content(), answer(4));
    assert_eq!(stream.events[0]["object"], "text_completion");
    assert_eq!(stream.events[0]["choices"][0]["text"], answer(4)[..4]);
    assert_eq!(stream.finish_reason(), Some("stop"));
    assert_eq!(stream.usage().unwrap()["completion_tokens"], answer(4).len().div_ceil(4));

    let whole = with(body, json!({"stream": false, "max_tokens": null, "ignore_eos": true}));
    let whole: Value = post(&engine, "/v1/completions", &whole).await.json().await.unwrap();
    assert_eq!(whole["usage"]["completion_tokens"], 16, "vLLM's default");
    assert_eq!(whole["choices"][0]["finish_reason"], "length");
}

#[tokio::test]
async fn multibyte_text_is_never_cut_inside_a_character() {
    let text = "Cafetería «El Ñandú» 🇪🇸 数据";
    let fields = json!({"shop": text}).as_object().unwrap().clone();
    let answers = aforo::engine::simulated::Answers::new([("the document".to_owned(), fields)]);
    let address = "127.0.0.1:0".parse().unwrap();
    let engine = aforo::engine::simulated::SimulatedEngine::start(&config(), answers, address).await.unwrap();
    let body = with(chat(0), json!({"messages": [{"role": "user", "content": "the document"}]}));
    let stream = ask(&engine, &body).await;
    assert_eq!(serde_json::from_str::<Value>(&stream.content()).unwrap()["shop"], text);
    assert_eq!(stream.usage().unwrap()["completion_tokens"], stream.content_events().len());
}

#[tokio::test]
async fn two_servers_with_one_seed_answer_alike_and_keep_the_rates() {
    let config = Simulated { wrong_rate: 0.3, broken_rate: 0.2, error_rate: 0.1, ..config() };
    let (one, other) = (start(&config).await, start(&config).await);
    let third = start(&Simulated { seed: 8, ..config }).await;
    let (mut differ, mut correct) = (0, 0);
    for n in 0..60 {
        let stream = ask(&one, &chat(n)).await;
        let again = ask(&other, &with(chat(n), json!({"cache_salt": "other"}))).await;
        assert_eq!(stream.content(), again.content());
        assert_eq!(stream.error(), again.error());
        differ += usize::from(ask(&third, &chat(n)).await.content() != stream.content());
        correct += usize::from(stream.content() == answer(n) && stream.error().is_none());
    }
    assert!(differ > 10, "{differ}");
    assert!((12..=36).contains(&correct), "24 expected, {correct}");
}

#[tokio::test]
async fn requests_are_refused_as_vllm_does() {
    let engine = start(&config()).await;
    let long = "x".repeat(4 * 4_096);
    let message = |content: Value| json!({"messages": [{"role": "user", "content": content}]});
    let image = json!([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]);
    for (change, status, kind, text) in [
        (json!({"model": "other"}), 404, "NotFoundError", "The model `other` does not exist."),
        (message(json!(long)), 400, "BadRequestError", "maximum context length is 4096 tokens"),
        (json!({"max_tokens": 4_090}), 400, "BadRequestError", "you requested 4090 output tokens"),
        (json!({"max_tokens": 5_000}), 400, "BadRequestError", "cannot be greater than max_model_len=4096"),
        (json!({"max_tokens": 0}), 400, "BadRequestError", "must be at least 1"),
        (json!({"max_tokens": "abc"}), 400, "Bad Request", "body.max_tokens"),
        (message(image), 400, "BadRequestError", "is not a multimodal model"),
        (json!({"messages": null}), 400, "Bad Request", "body.messages"),
        (json!({"simulate": {"rest": 1}}), 400, "BadRequestError", "rest"),
    ] {
        let response = post(&engine, "/v1/chat/completions", &with(chat(0), change)).await;
        assert_eq!(response.status(), status);
        let body: Value = response.json().await.unwrap();
        assert_eq!(body["error"]["code"], status);
        assert_eq!(body["error"]["type"], kind);
        assert!(body["error"]["message"].as_str().unwrap().contains(text), "{body}");
    }
    let url = format!("{}/chat/completions", engine.base_url());
    let response = simulated_client::http().post(url).body("{\"model\":").send().await.unwrap();
    assert_eq!(response.status(), 400);
    assert!(response.text().await.unwrap().contains("json_invalid"));
    let response = get(&engine, "/nowhere").await;
    assert_eq!(response.status(), 404);
    assert_eq!(response.text().await.unwrap(), r#"{"detail":"Not Found"}"#);
}

#[tokio::test]
async fn the_server_describes_itself() {
    let engine = start(&config()).await;
    let models: Value = get(&engine, "/v1/models").await.json().await.unwrap();
    assert_eq!(models["data"][0]["id"], "simulated");
    assert_eq!(models["data"][0]["max_model_len"], 4_096);
    let version: Value = get(&engine, "/version").await.json().await.unwrap();
    assert!(version["version"].as_str().unwrap().contains("simulated"));
    assert_eq!(get(&engine, "/health").await.status(), 200);
    let load: Value = get(&engine, "/load").await.json().await.unwrap();
    assert_eq!(load, json!({"server_load": 0}));
}

#[tokio::test]
async fn a_record_has_the_moments_at_which_text_left() {
    let engine = start(&config()).await;
    assert_eq!(get(&engine, "/record").await.status(), 404);
    engine.start_recording(10);
    let url = format!("{}/chat/completions", engine.base_url());
    let request = simulated_client::http().post(url).header("x-request-id", "doc-5").json(&chat(5));
    let stream = read(request.send().await.unwrap()).await;
    let over_http: Value = get(&engine, "/record").await.json().await.unwrap();
    let records = engine.records();
    assert_eq!(over_http, json!(records));
    let [record] = &records[..] else { panic!("{records:?}") };
    assert_eq!(record.request_id.as_deref(), Some("doc-5"));
    assert_eq!(record.content_events as usize, stream.content_events().len());
    assert_eq!(record.content_tokens, record.content_events);
    assert_eq!(Some(u64::from(record.prompt_tokens)), stream.usage().unwrap()["prompt_tokens"].as_u64());
    assert!(record.arrived_ns < record.first_content_ns.unwrap());
    assert!(record.first_content_ns.unwrap() < record.last_content_ns.unwrap());
}

#[tokio::test]
async fn a_plain_answer_is_the_bare_value() {
    let fields = json!({"label": "spam"}).as_object().unwrap().clone();
    let answers = aforo::engine::simulated::Answers::new([("win a prize".to_owned(), fields)]).plain();
    let address = "127.0.0.1:0".parse().unwrap();
    let engine = aforo::engine::simulated::SimulatedEngine::start(&config(), answers, address).await.unwrap();
    let body = with(chat(0), json!({"messages": [{"role": "user", "content": "Label: win a prize"}]}));
    assert_eq!(ask(&engine, &body).await.content(), "spam");
    // No known document and no JSON asked for.
    let words = ask(&engine, &chat(reference(0).len())).await.content();
    assert!(!words.starts_with('{') && !words.is_empty());
}
