//! Start and end of the simulated engine, and what it costs when idle.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

mod simulated_client;

use std::time::Duration;

use aforo::engine::simulated::{Answers, SimulatedEngine, StartError};
use aforo::protocol::Simulated;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use simulated_client::{ask, chat, config, start, with};

#[tokio::test]
async fn stop_frees_the_port_and_cuts_open_streams() {
    let slow = Simulated { iteration: Duration::from_secs(30), ..config() };
    let engine = start(&slow).await;
    let address = engine.address();
    let response = simulated_client::post(&engine, "/v1/chat/completions", &chat(1)).await;
    tokio::time::timeout(Duration::from_secs(10), engine.stop())
        .await
        .expect("not after the iteration of 30 s");
    let stream = simulated_client::read(response).await;
    assert!(!stream.complete);
    std::net::TcpStream::connect(address).expect_err("nobody listens");
    let again = SimulatedEngine::start(&config(), Answers::default(), address).await.unwrap();
    assert_eq!(again.address(), address);
}

#[tokio::test]
async fn dropping_the_engine_also_stops_it() {
    let engine = start(&config()).await;
    let address = engine.address();
    drop(engine);
    let refused = async {
        while tokio::net::TcpStream::connect(address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), refused).await.unwrap();
}

#[tokio::test]
async fn a_taken_port_and_an_impossible_parameter_are_refused() {
    let engine = start(&config()).await;
    let taken = SimulatedEngine::start(&config(), Answers::default(), engine.address()).await;
    assert!(matches!(taken, Err(StartError::Listen { .. })), "{taken:?}");
    for impossible in [
        Simulated { slots: 0, ..config() },
        Simulated { kv_tokens: 15, ..config() },
        Simulated { prefill_tokens_per_second: 0.0, ..config() },
    ] {
        let refused =
            SimulatedEngine::start(&impossible, Answers::default(), "127.0.0.1:0".parse().unwrap()).await;
        assert!(matches!(refused, Err(StartError::Parameter(_))), "{refused:?}");
    }
}

#[tokio::test]
async fn an_idle_engine_takes_no_cpu() {
    let engine = start(&config()).await;
    ask(&engine, &with(chat(1), json!({"stream_options": null}))).await;
    let used = || {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
    };
    let before = used();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let spent = used().saturating_sub(before);
    assert!(spent < Duration::from_millis(50), "{spent:?} of 500 ms: a loop that does not wait");
}
