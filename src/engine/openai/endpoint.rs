//! Where a server is and how one authenticates to it.

use std::fmt;

use hyper::Uri;
use hyper::header::HeaderValue;

use crate::protocol::{Api, Server};

/// A key, kept out of every `Debug` output and every message.
#[derive(Clone)]
pub struct ApiKey {
    key: Box<str>,
    header: HeaderValue,
}

/// What stands where a key stood.
const HIDDEN: &str = "[removed]";
/// Characters of a key that may remain at the cut end of a text: fewer cannot be told from other words.
const TELLS_NOTHING: usize = 3;

impl ApiKey {
    /// Reads the key from the environment variable of that name.
    pub fn from_env(variable: &str) -> Result<Self, EndpointError> {
        let key = std::env::var(variable).map_err(|_| EndpointError::KeyMissing(variable.to_owned()))?;
        if key.trim().is_empty() {
            return Err(EndpointError::KeyMissing(variable.to_owned()));
        }
        Self::new(&key).ok_or_else(|| EndpointError::KeyUnusable(variable.to_owned()))
    }

    /// A key; `None` when an HTTP header cannot carry it.
    pub fn new(key: &str) -> Option<Self> {
        let key = key.trim();
        let mut header = HeaderValue::try_from(format!("Bearer {key}")).ok()?;
        header.set_sensitive(true);
        Some(Self { key: key.into(), header })
    }

    /// The value of the `Authorization` header, marked as sensitive.
    pub fn header(&self) -> HeaderValue {
        self.header.clone()
    }

    /// Takes the key out of a text that came back from a server. Where the text was cut (it ends in `…`) within the
    /// key, the beginning of the key goes as well.
    pub fn hide_in(&self, text: &mut String) {
        if self.key.is_empty() {
            return;
        }
        if text.contains(&*self.key) {
            *text = text.replace(&*self.key, HIDDEN);
        }
        let Some(whole) = text.strip_suffix('…') else { return };
        let starts = self.key.char_indices().map(|(end, _)| &self.key[..end]).skip(TELLS_NOTHING + 1);
        if let Some(start) = starts.filter(|start| whole.ends_with(start)).last() {
            let kept = whole.len() - start.len();
            text.replace_range(kept..kept + start.len(), HIDDEN);
        }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

/// Why an endpoint cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The environment variable is unset or empty.
    #[error(
        "the environment variable {0}, named by engine.api_key_env, is not set; export it and start again"
    )]
    KeyMissing(String),
    /// The value cannot be sent as a header.
    #[error("the value of the environment variable {0} holds characters that an HTTP header cannot carry")]
    KeyUnusable(String),
    /// The URL cannot be used.
    #[error("{url}: {why}; engine.base_url looks like http://127.0.0.1:8000/v1")]
    Url {
        /// The URL as written.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// A server's address, request path and key.
#[derive(Debug, Clone)]
pub struct Endpoint {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) tls: bool,
    pub(super) authority: HeaderValue,
    pub(super) path: Uri,
    pub(super) key: Option<ApiKey>,
    base_url: String,
}

impl Endpoint {
    /// The endpoint of a protocol's server; reads the key from the environment.
    pub fn new(server: &Server) -> Result<Self, EndpointError> {
        let key = server.api_key_env.as_deref().map(ApiKey::from_env).transpose()?;
        Self::with_key(&server.base_url, server.api, key)
    }

    /// The endpoint at a base URL (`http://host:port/v1`).
    pub fn with_key(base_url: &str, api: Api, key: Option<ApiKey>) -> Result<Self, EndpointError> {
        let refuse = |why| EndpointError::Url { url: base_url.to_owned(), why };
        let uri: Uri = base_url.parse().map_err(|_| refuse("not a URL"))?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(refuse("neither http:// nor https://")),
        };
        let authority = uri.authority().ok_or_else(|| refuse("names no host"))?;
        if authority.as_str().contains('@') {
            return Err(refuse("holds a user name or password"));
        }
        let base_path = uri.path().trim_end_matches('/');
        let call = match api {
            Api::Chat => "chat/completions",
            Api::Completions => "completions",
        };
        Ok(Self {
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(default_port(tls)),
            tls,
            authority: HeaderValue::try_from(authority.as_str())
                .map_err(|_| refuse("names no usable host"))?,
            path: format!("{base_path}/{call}").parse().map_err(|_| refuse("has an unusable path"))?,
            key,
            base_url: base_url.trim_end_matches('/').to_owned(),
        })
    }

    /// The base URL without a trailing slash.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// The server's root: the base URL without its `/v1`.
    pub fn root_url(&self) -> &str {
        self.base_url.strip_suffix("/v1").unwrap_or(&self.base_url)
    }

    /// The key, if the protocol names one.
    pub fn key(&self) -> Option<&ApiKey> {
        self.key.as_ref()
    }

    /// Whether a page is of the same server: the key is for nobody else.
    pub fn serves(&self, url: &str) -> bool {
        let Ok(url) = url.parse::<Uri>() else { return false };
        let Some(authority) = url.authority() else { return false };
        let tls = url.scheme_str() == Some("https");
        (authority.host().trim_matches(['[', ']']), authority.port_u16().unwrap_or(default_port(tls)), tls)
            == (self.host.as_str(), self.port, self.tls)
    }

    /// The bytes of a request with this JSON body, whole, so that one write can take them. The id must consist of
    /// characters that a header can carry.
    pub(super) fn request(&self, request_id: &str, body: &[u8]) -> Vec<u8> {
        let mut request = Vec::with_capacity(512 + body.len());
        let mut header = |name: &str, value: &[u8]| {
            for part in [name.as_bytes(), b": ", value, b"\r\n"] {
                request.extend_from_slice(part);
            }
        };
        header("host", self.authority.as_bytes());
        header("user-agent", super::AGENT.as_bytes());
        header("accept", b"text/event-stream, application/json");
        header("content-type", b"application/json");
        header("content-length", body.len().to_string().as_bytes());
        header("x-request-id", request_id.as_bytes());
        if let Some(key) = &self.key {
            header("authorization", key.header().as_bytes());
        }
        let line = format!("POST {} HTTP/1.1\r\n", self.path);
        [line.as_bytes(), &request, b"\r\n", body].concat()
    }

    /// `host:port`, for messages.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

fn default_port(tls: bool) -> u16 {
    if tls { 443 } else { 80 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(base: &str) -> String {
        Endpoint::with_key(base, Api::Chat, None).unwrap().path.to_string()
    }

    #[test]
    fn base_urls_with_and_without_a_path_lead_to_the_call() {
        assert_eq!(path("http://127.0.0.1:8000/v1"), "/v1/chat/completions");
        assert_eq!(path("http://127.0.0.1:8000/v1/"), "/v1/chat/completions");
        assert_eq!(path("http://gpu.example/openai/v1"), "/openai/v1/chat/completions");
    }

    #[test]
    fn ports_follow_the_scheme_and_ipv6_loses_its_brackets() {
        let endpoint = Endpoint::with_key("https://[::1]/v1", Api::Completions, None).unwrap();
        assert_eq!((endpoint.host.as_str(), endpoint.port, endpoint.tls), ("::1", 443, true));
    }

    #[test]
    fn pages_of_another_host_port_or_scheme_are_of_another_server() {
        let endpoint = Endpoint::with_key("http://gpu.example/v1", Api::Chat, None).unwrap();
        assert!(
            endpoint.serves("http://gpu.example/metrics") && endpoint.serves("http://gpu.example:80/metrics")
        );
        for url in [
            "http://gpu.example:9090/metrics",
            "https://gpu.example:80/metrics",
            "http://gpu.example.org/",
            "",
        ] {
            assert!(!endpoint.serves(url), "{url}");
        }
    }

    #[test]
    fn a_key_is_taken_out_of_texts_even_where_they_were_cut() {
        let key = ApiKey::new(" sk-0123456789 ").unwrap();
        for (text, hidden) in [
            ("key sk-0123456789 and sk-0123456789", "key [removed] and [removed]"),
            ("the key is sk-01234…", "the key is [removed]…"),
            ("the key is sk-0…", "the key is [removed]…"),
            ("the key is sk-…", "the key is sk-…"),
            ("sk-01234 is another", "sk-01234 is another"),
        ] {
            let mut text = text.to_owned();
            key.hide_in(&mut text);
            assert_eq!(text, hidden);
        }
        assert!(!format!("{key:?} {:?}", key.header()).contains("0123"));
    }

    #[test]
    fn passwords_and_other_schemes_are_refused() {
        for url in ["http://me:secret@host/v1", "ftp://host/v1", "host:8000"] {
            let error = Endpoint::with_key(url, Api::Chat, None).unwrap_err().to_string();
            assert!(error.contains("looks like http://127.0.0.1:8000/v1"), "{error}");
        }
    }
}
