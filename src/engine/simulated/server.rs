//! The HTTP side: connections and routes.

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue, LOCATION, RETRY_AFTER, SERVER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use super::answer::{Answers, Outcome, filler};
use super::batch::{Batch, Work};
use super::event::{Finish, Writer};
use super::fault::{Cut, How, Instead};
use super::hash;
use super::metrics::{FinishedReason, SharedMetrics};
use super::record::{Recorder, Stamps, now_ns};
use super::refusal::{GENERATION_FAILED, Refusal};
use super::request::{self, Generation, MODEL};
use super::scheduler::Progress;
use super::stream::{Answering, EventStream, Layout, Reply, Severed};
use super::token::{self, Pieces};
use crate::protocol::{Api, Simulated};

/// Largest request body, in bytes.
const LARGEST_BODY: usize = 64 << 20;

/// What all connections share.
pub(super) struct Server {
    pub(super) config: Simulated,
    pub(super) answers: Answers,
    pub(super) batch: Batch,
    pub(super) metrics: SharedMetrics,
    pub(super) recorder: Recorder,
    pub(super) served: AtomicU64,
}

/// Accepts connections for ever.
pub(super) async fn accept(server: Arc<Server>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(connection(server.clone(), stream));
            }
            Err(error) => {
                // Out of descriptors, most often: the connections that hold them end by themselves.
                tracing::warn!(%error, "simulated engine: no connection accepted");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

async fn connection(server: Arc<Server>, stream: TcpStream) {
    // Without it a small event would wait for the acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let server = server.clone();
        Box::pin(async move { Ok::<_, Infallible>(server.respond(request).await) })
    });
    let mut connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let ended = std::future::poll_fn(|context| connection.poll_without_shutdown(context)).await;
    let mut stream = connection.into_parts().io.into_inner();
    match ended {
        Err(error) if error.source().is_some_and(<dyn Error>::is::<Severed>) => {
            // The head of a chunk and less than it promises; then a reset in place of an orderly end.
            let _ = stream.write_all(b"200\r\ndata: {\"id\":\"").await;
            let _ = stream.set_zero_linger();
        }
        _ => {
            let _ = stream.shutdown().await;
        }
    }
}

impl Server {
    async fn respond(&self, request: Request<Incoming>) -> Response<Reply> {
        let response = match (request.method(), request.uri().path()) {
            (&Method::POST, "/v1/chat/completions") => self.generate(Api::Chat, request).await,
            (&Method::POST, "/v1/completions") => self.generate(Api::Completions, request).await,
            (&Method::POST, "/tokenize") => self.tokenize(request).await,
            (&Method::POST, "/reset_prefix_cache") => {
                self.batch.reset_prefix_cache().await;
                Ok(whole(StatusCode::OK, "application/json", Bytes::new()))
            }
            (&Method::GET, "/v1/models") => Ok(json_response(&self.models())),
            (&Method::GET, "/version") => {
                Ok(json_response(&json!({ "version": concat!(env!("CARGO_PKG_VERSION"), "+simulated") })))
            }
            (&Method::GET, "/health") => Ok(whole(StatusCode::OK, "text/plain", Bytes::new())),
            (&Method::GET, "/load") => Ok(json_response(&json!({ "server_load": self.batch.in_flight() }))),
            (&Method::GET, "/metrics") => {
                let page = self.metrics.lock().to_string();
                Ok(whole(StatusCode::OK, "text/plain; version=1.0.0; charset=utf-8", page))
            }
            (&Method::GET, "/record") => Ok(self.record()),
            _ => Ok(not_found()),
        };
        let mut response = response
            .unwrap_or_else(|refusal: Refusal| whole(refusal.status, "application/json", refusal.body()));
        response.headers_mut().insert(SERVER, HeaderValue::from_static("aforo-simulated"));
        response
    }

    async fn generate(&self, api: Api, request: Request<Incoming>) -> Result<Response<Reply>, Refusal> {
        let request_id =
            request.headers().get("x-request-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
        let body = read(request).await?;
        let (arrived, arrived_ns) = (Instant::now(), now_ns());
        let mut generation = Generation::read(api, &body, self.config.context)?;
        if let Some(instead) = generation.faults.instead.take() {
            return instead_of_answer(instead);
        }
        if token::blocks(u64::from(generation.prompt_tokens)) > self.config.kv_tokens / token::BLOCK {
            return Err(Refusal::out_of_memory());
        }
        let answering = self.start(&generation, arrived);
        if !generation.stream {
            return answer_whole(answering).await;
        }
        let layout = Layout {
            tokens_per_event: self.config.tokens_per_event,
            usage: generation.usage,
            faults: generation.faults,
        };
        let stamps = Stamps::new(self.recorder.clone(), request_id, arrived_ns, answering.prompt_tokens);
        let mut response =
            Response::new(Reply::Stream(Box::new(EventStream::new(answering, layout, stamps))));
        let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        Ok(response)
    }

    /// Finds the answer and queues the request.
    fn start(&self, generation: &Generation, arrived: Instant) -> Answering {
        let answer = self.answers.answer(&generation.prompt, generation.json, &self.config);
        let mut text = answer.text;
        if generation.ignore_eos {
            text.push_str(&filler(
                hash::of(self.config.seed, text.as_bytes()),
                generation.max_tokens as usize,
            ));
        }
        let pieces = Pieces::of(text);
        let total = pieces.len().min(generation.max_tokens);
        let finish = if pieces.len() > total { Finish::Length } else { Finish::Stop };
        let own_error =
            (answer.outcome == Outcome::ErrorInStream).then_some(Cut { after: total / 2, how: How::Error });
        let cut = generation.faults.cut.or(own_error);
        let ending = match (cut.map(|cut| cut.how), finish) {
            (Some(How::Error | How::MemoryError), _) => FinishedReason::Error,
            (Some(How::CloseClean | How::Reset | How::Stall), _) => FinishedReason::Abort,
            (None, Finish::Stop) => FinishedReason::Stop,
            (None, Finish::Length) => FinishedReason::Length,
        };
        let ticket = self.batch.submit(Work {
            prompt_tokens: generation.prompt_tokens,
            prefix: if self.config.prefix_cache {
                token::block_hashes(&generation.prompt, generation.cache_salt.as_deref())
            } else {
                Vec::new()
            },
            target: cut.map_or(total, |cut| cut.after.min(total)),
            ending,
            arrived,
        });
        let number = hash::mix(self.config.seed ^ self.served.fetch_add(1, Ordering::Relaxed));
        Answering {
            ticket,
            pieces,
            total,
            finish,
            cut,
            writer: Writer::new(generation.api, number, seconds_since_1970()),
            prompt_tokens: generation.prompt_tokens,
            prefix_cache: self.config.prefix_cache,
        }
    }

    async fn tokenize(&self, request: Request<Incoming>) -> Result<Response<Reply>, Refusal> {
        let prompt = request::prompt_to_tokenize(&read(request).await?)?;
        Ok(json_response(&json!({
            "count": token::count(&prompt),
            "max_model_len": self.config.context,
            "tokens": token::ids(&prompt).collect::<Vec<_>>(),
            "token_strs": null,
        })))
    }

    fn models(&self) -> Value {
        json!({ "object": "list", "data": [{
            "id": MODEL, "object": "model", "created": seconds_since_1970(), "owned_by": "aforo",
            "root": MODEL, "parent": null, "max_model_len": self.config.context, "permission": [],
        }]})
    }

    fn record(&self) -> Response<Reply> {
        match self.recorder.read() {
            Some(records) => json_response(&json!(records)),
            None => not_found(),
        }
    }
}

async fn read(request: Request<Incoming>) -> Result<Bytes, Refusal> {
    let body = Limited::new(request.into_body(), LARGEST_BODY).collect().await;
    body.map(http_body_util::Collected::to_bytes)
        .map_err(|error| Refusal::bad_request(None, error.to_string()))
}

async fn answer_whole(mut answering: Answering) -> Result<Response<Reply>, Refusal> {
    let (mut made, mut cached) = (0, 0);
    while let Some(progress) = answering.ticket.next().await {
        match progress {
            Progress::Admitted { cached_tokens } => cached = cached_tokens,
            Progress::Token => made += 1,
            Progress::OutOfMemory => return Err(Refusal::out_of_memory()),
        }
    }
    let failed = || Refusal::failure(StatusCode::INTERNAL_SERVER_ERROR, GENERATION_FAILED);
    if made < answering.length() {
        return Err(failed());
    }
    match answering.cut.map(|cut| cut.how) {
        None => {}
        Some(How::Error) => return Err(failed()),
        Some(How::MemoryError) => return Err(Refusal::out_of_memory()),
        Some(How::CloseClean) => return Ok(whole(StatusCode::OK, "application/json", Bytes::new())),
        Some(How::Reset) => return Ok(Response::new(Reply::Severed)),
        Some(How::Stall) => std::future::pending().await,
    }
    let text = answering.pieces.slice(0, answering.total);
    let usage = answering.usage(answering.total.max(1), cached);
    let body = answering.writer.whole(text, answering.finish, usage);
    Ok(whole(StatusCode::OK, "application/json", body))
}

fn instead_of_answer(instead: Instead) -> Result<Response<Reply>, Refusal> {
    let status_of = |number| {
        StatusCode::from_u16(number)
            .map_err(|_| Refusal::bad_request(Some("simulate"), format!("no HTTP status: {number}")))
    };
    match instead {
        Instead::Memory => Err(Refusal::out_of_memory()),
        Instead::Html { status } => {
            let page = "<html><head><title>502 Bad Gateway</title></head><body>Bad Gateway</body></html>";
            Ok(whole(status_of(status)?, "text/html", page))
        }
        Instead::Redirect { location } => {
            let mut response = whole(StatusCode::TEMPORARY_REDIRECT, "text/plain", Bytes::new());
            let location = HeaderValue::from_str(&location)
                .map_err(|_| Refusal::bad_request(Some("simulate"), "redirect: no header value"))?;
            response.headers_mut().insert(LOCATION, location);
            Ok(response)
        }
        Instead::Status { status, retry_after } => {
            let refusal = Refusal::failure(status_of(status)?, "asked for by the request");
            let mut response = whole(refusal.status, "application/json", refusal.body());
            if let Some(seconds) = retry_after {
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
            }
            Ok(response)
        }
    }
}

fn whole(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Reply> {
    let mut response = Response::new(Reply::Whole(Full::new(body.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn json_response(body: &Value) -> Response<Reply> {
    whole(StatusCode::OK, "application/json", body.to_string())
}

fn not_found() -> Response<Reply> {
    whole(StatusCode::NOT_FOUND, "application/json", r#"{"detail":"Not Found"}"#)
}

fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
