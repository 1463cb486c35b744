//! The pages of a server besides its completions: models, version, metrics, resetting the prefix cache.
//!
//! Nothing here is timed, so a whole HTTP client with its own pool does the work.

use std::time::Duration;

use reqwest::header::AUTHORIZATION;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Stamp;
use super::metrics::{Dialect, Reading};
use super::openai::{AGENT, Endpoint, Isolation, short};
use crate::protocol::PrefixCache;

/// A page that has not come by then is not waited for.
const PAGE_LIMIT: Duration = Duration::from_secs(5);
/// A cache that cannot be emptied within this is not going to be.
const RESET_LIMIT: Duration = Duration::from_secs(2);
const RESET_STEP: Duration = Duration::from_millis(50);
/// Largest page that is read, in bytes.
const PAGE_SIZE: usize = 32 * 1024 * 1024;

/// A model that the server lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedModel {
    /// Name to be sent in requests.
    pub id: String,
    /// Longest prompt plus output, in tokens, where the server says it.
    pub context: Option<u64>,
    /// Who serves it, as the server says (`vllm`, `llamacpp` …).
    pub owned_by: Option<String>,
}

/// What a server says of itself before anything is measured.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Found {
    /// Name and version, for example `vLLM 0.24.0`; `None` when the server does not say.
    pub engine: Option<String>,
    /// Models it lists; `None` when it has no such page.
    pub models: Option<Vec<ListedModel>>,
    /// Metrics page and the engine that writes it; `None` when there is no page of a known engine.
    pub metrics: Option<MetricsPage>,
    /// True when the simulated engine answers: every row must say so.
    pub simulated: bool,
}

/// A metrics page that was read once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricsPage {
    /// Its URL.
    pub url: String,
    /// Which names it uses.
    pub dialect: Dialect,
}

/// Why a page could not be had.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// No answer, or a broken one.
    #[error("{url}: {why}")]
    Unreachable {
        /// The page.
        url: String,
        /// What happened.
        why: String,
    },
    /// A status other than success.
    #[error("{url}: status {status}: {body}")]
    Status {
        /// The page.
        url: String,
        /// HTTP status.
        status: u16,
        /// Beginning of what came back.
        body: String,
    },
}

/// A client for the pages of one server.
#[derive(Debug, Clone)]
pub struct Pages {
    client: reqwest::Client,
    endpoint: Endpoint,
}

impl Pages {
    /// A client that never uses a proxy and follows no redirect: both would hide where an answer came from.
    pub fn new(endpoint: Endpoint) -> Result<Self, PageError> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(PAGE_LIMIT)
            .user_agent(AGENT)
            .build()
            .map_err(|error| unreachable(endpoint.base_url(), &error))?;
        Ok(Self { client, endpoint })
    }

    /// Asks the server what it is. Pages that it does not have are left unknown; only a server that cannot be
    /// reached at all is an error.
    pub async fn look(&self, metrics_url: Option<&str>) -> Result<Found, PageError> {
        let models = match self.json(&format!("{}/models", self.endpoint.base_url())).await {
            Ok(page) => listed_models(&page),
            Err(PageError::Status { status: 404 | 405 | 501, .. }) => None,
            Err(error) => return Err(error),
        };
        let metrics = self.find_metrics(metrics_url).await?;
        let owner = models.iter().flatten().find_map(|model| model.owned_by.clone());
        let simulated = owner.as_deref() == Some("aforo");
        let engine = self.engine_name(owner.as_deref(), metrics.as_ref()).await;
        Ok(Found { engine, models, metrics, simulated })
    }

    async fn find_metrics(&self, named: Option<&str>) -> Result<Option<MetricsPage>, PageError> {
        let url = named.map_or_else(|| format!("{}/metrics", self.endpoint.root_url()), str::to_owned);
        match self.text(&url).await {
            Ok(page) => Ok(Reading::parse(&page).map(|(dialect, _)| MetricsPage { url, dialect })),
            // A page that the protocol names must be there; one that was only looked for need not.
            Err(error) if named.is_some() => Err(error),
            Err(_) => Ok(None),
        }
    }

    async fn engine_name(&self, owner: Option<&str>, metrics: Option<&MetricsPage>) -> Option<String> {
        let root = self.endpoint.root_url();
        let version = self.json(&format!("{root}/version")).await.ok();
        let version = version.as_ref().and_then(|page| page["version"].as_str());
        match (owner, metrics.map(|m| m.dialect)) {
            (Some("aforo"), _) => Some("aforo simulated".to_owned()),
            (Some("vllm"), _) | (None, Some(Dialect::Vllm)) => Some(named("vLLM", version)),
            (Some("llamacpp"), _) | (None, Some(Dialect::LlamaCpp)) => {
                let props = self.json(&format!("{root}/props")).await.ok();
                Some(named("llama.cpp", props.as_ref().and_then(|page| page["build_info"].as_str())))
            }
            (Some("sglang"), _) | (None, Some(Dialect::Sglang)) => Some(named("SGLang", version)),
            (Some(other), _) => Some(named(other, version)),
            (None, None) => None,
        }
    }

    /// One reading of the metrics page.
    pub async fn metrics(&self, page: &MetricsPage) -> Result<Reading, PageError> {
        let text = self.text(&page.url).await?;
        Reading::parse(&text).map(|(_, reading)| reading).ok_or_else(|| PageError::Unreachable {
            url: page.url.clone(),
            why: "holds no metrics of a known engine any more".to_owned(),
        })
    }

    /// How passes are isolated on this engine, given what was found. A cache that can be emptied over HTTP is asked
    /// once, now; a server that is not known to have one may answer anything with success.
    pub async fn isolation(&self, wanted: PrefixCache, found: &Found) -> Isolation {
        if wanted == PrefixCache::AsIs {
            return Isolation::None;
        }
        let owner = found.models.iter().flatten().find_map(|model| model.owned_by.as_deref());
        match (found.metrics.as_ref().map(|page| page.dialect), owner) {
            (Some(Dialect::Vllm), _) | (None, Some("vllm" | "aforo")) => Isolation::CacheSalt,
            (Some(Dialect::LlamaCpp), _) | (None, Some("llamacpp")) => Isolation::CachePromptOff,
            (Some(Dialect::Sglang), _) | (None, Some("sglang"))
                if self.reset_prefix_cache().await.is_ok() =>
            {
                Isolation::Reset
            }
            _ => Isolation::NonceLine,
        }
    }

    /// Empties `SGLang`'s prefix cache. It refuses while a request is still on its way out, so it is asked again for
    /// a while.
    pub async fn reset_prefix_cache(&self) -> Result<(), PageError> {
        let url = format!("{}/flush_cache", self.endpoint.root_url());
        let begun = Stamp::now();
        loop {
            match self.post(&url).await {
                Err(PageError::Status { .. }) if Stamp::now().since(begun) < RESET_LIMIT => {
                    tokio::time::sleep(RESET_STEP).await;
                }
                answered => return answered,
            }
        }
    }

    async fn post(&self, url: &str) -> Result<(), PageError> {
        self.fetch(self.client.post(url), url).await.map(drop)
    }

    async fn text(&self, url: &str) -> Result<String, PageError> {
        self.fetch(self.client.get(url), url).await
    }

    async fn json(&self, url: &str) -> Result<Value, PageError> {
        let text = self.text(url).await?;
        serde_json::from_str(&text).map_err(|_| PageError::Unreachable {
            url: url.to_owned(),
            why: format!("answered with something that is not JSON: {}", self.said(text.as_bytes())),
        })
    }

    async fn fetch(&self, request: reqwest::RequestBuilder, url: &str) -> Result<String, PageError> {
        let request = match self.endpoint.key() {
            Some(key) if self.endpoint.serves(url) => request.header(AUTHORIZATION, key.header()),
            _ => request,
        };
        let mut response = request.send().await.map_err(|error| unreachable(url, &error))?;
        let status = response.status();
        let mut page = Vec::new();
        while let Some(bytes) = response.chunk().await.map_err(|error| unreachable(url, &error))? {
            if page.len() + bytes.len() > PAGE_SIZE {
                let why = format!("answered with more than {PAGE_SIZE} bytes");
                return Err(PageError::Unreachable { url: url.to_owned(), why });
            }
            page.extend_from_slice(&bytes);
        }
        if status.is_success() {
            Ok(String::from_utf8_lossy(&page).into_owned())
        } else {
            Err(PageError::Status { url: url.to_owned(), status: status.as_u16(), body: self.said(&page) })
        }
    }

    /// One line of what a server said, without the key that it may repeat.
    fn said(&self, text: &[u8]) -> String {
        let mut line = short(text);
        if let Some(key) = self.endpoint.key() {
            key.hide_in(&mut line);
        }
        line
    }
}

fn named(engine: &str, version: Option<&str>) -> String {
    version.map_or_else(|| engine.to_owned(), |version| format!("{engine} {version}"))
}

fn unreachable(url: &str, error: &reqwest::Error) -> PageError {
    // The client's own message repeats the URL; the innermost cause says what happened.
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    PageError::Unreachable { url: url.to_owned(), why: cause.to_string() }
}

fn listed_models(page: &Value) -> Option<Vec<ListedModel>> {
    let listed = page["data"].as_array()?.iter().filter_map(|model| {
        Some(ListedModel {
            id: model["id"].as_str()?.to_owned(),
            context: model["max_model_len"].as_u64().or_else(|| model["meta"]["n_ctx"].as_u64()),
            owned_by: model["owned_by"].as_str().map(str::to_owned),
        })
    });
    Some(listed.collect())
}
