//! The pages of a server besides its completions.

use std::sync::mpsc;

use aforo::engine::openai::{ApiKey, Endpoint};
use aforo::engine::pages::{PageError, Pages};
use aforo::protocol::Api;

use crate::server::Server;
use crate::wire::page;

fn pages(server: &Server) -> Pages {
    Pages::new(Endpoint::with_key(&server.base_url(), Api::Chat, ApiKey::new("s3cret-key")).unwrap()).unwrap()
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// A server whose pages are all this one, and the `Authorization` of each request to it.
fn always(response: String) -> (Server, mpsc::Receiver<Option<String>>) {
    let (keys, seen) = mpsc::channel();
    let server = Server::start(move |peer| {
        while let Some(request) = peer.request() {
            keys.send(request.header("authorization").map(str::to_owned)).unwrap();
            peer.send(&response);
        }
    });
    (server, seen)
}

const METRICS: &str = "vllm:num_requests_running 3\n";
const MODELS: &str = r#"{"data":[{"id":"m","owned_by":"vllm","max_model_len":4096}]}"#;

#[test]
fn the_key_goes_to_the_engine_and_to_no_other_server() {
    let (engine, engine_keys) = always(page("200 OK", "Content-Type: application/json\r\n", MODELS));
    let (exporter, exporter_keys) = always(page("200 OK", "", METRICS));
    let url = format!("http://{}/metrics", exporter.address());
    let found = wait(pages(&engine).look(Some(&url))).unwrap();
    assert_eq!(found.metrics.unwrap().url, url);
    assert_eq!(found.models.unwrap()[0].context, Some(4096));
    let keys: Vec<_> = engine_keys.try_iter().collect();
    assert!(!keys.is_empty() && keys.iter().all(|key| key.as_deref() == Some("Bearer s3cret-key")));
    assert_eq!(exporter_keys.try_iter().collect::<Vec<_>>(), [None]);
}

#[test]
fn a_redirect_is_not_followed() {
    let (elsewhere, asked) = always(page("200 OK", "", MODELS));
    let target = format!("Location: http://{}/v1/models\r\n", elsewhere.address());
    let (server, _keys) = always(page("302 Found", &target, ""));
    let error = wait(pages(&server).look(None)).unwrap_err();
    assert!(matches!(error, PageError::Status { status: 302, .. }), "{error}");
    assert_eq!(asked.try_iter().count(), 0);
}

#[test]
fn a_page_without_an_end_is_given_up() {
    let server = Server::start(|peer| {
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\n\r\n");
        let part = " ".repeat(1 << 20);
        for _ in 0..40 {
            peer.send(&part);
        }
    });
    let error = wait(pages(&server).look(None)).unwrap_err().to_string();
    assert!(error.contains("more than 33554432 bytes"), "{error}");
}

#[test]
fn a_server_without_a_list_of_models_is_an_engine_all_the_same() {
    let (server, _keys) = always(page("404 Not Found", "", "no such page"));
    let found = wait(pages(&server).look(None)).unwrap();
    assert_eq!((found.models, found.metrics, found.engine), (None, None, None));
    let named = format!("http://{}/metrics", server.address());
    let error = wait(pages(&server).look(Some(&named))).unwrap_err().to_string();
    assert!(error.contains(&named) && error.contains("404"), "{error}");
}

#[test]
fn a_server_that_is_not_there_or_answers_something_else_says_so() {
    let gone = Server::limited(0, |_| {});
    let error = wait(pages(&gone).look(None)).unwrap_err().to_string();
    assert!(error.contains("/v1/models") && error.contains("refused"), "{error}");
    let (web, _keys) = always(page("200 OK", "Content-Type: text/html\r\n", "<html>hello</html>"));
    let error = wait(pages(&web).look(None)).unwrap_err().to_string();
    assert!(error.contains("not JSON") && error.contains("hello"), "{error}");
}
