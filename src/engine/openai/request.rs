//! The request for one document.

use std::io;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::protocol::corpus::{Document, Image};
use crate::protocol::{Api, Generation, Prompt};

/// How one pass is kept from hitting what another left in the engine's prefix cache.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// The cache is left as it is.
    None,
    /// `cache_salt` in each request (vLLM): only requests of the same pass share prefixes.
    CacheSalt,
    /// `cache_prompt: false` in each request (llama.cpp): nothing is reused.
    CachePromptOff,
    /// The cache was emptied over HTTP before the pass.
    Reset,
    /// A line that differs per pass stands before the prompt.
    NonceLine,
}

impl Isolation {
    /// The word used in files and on screen.
    pub fn word(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::CacheSalt => "cache-salt",
            Self::CachePromptOff => "cache-prompt-off",
            Self::Reset => "reset",
            Self::NonceLine => "nonce-line",
        }
    }

    /// The highest prefix-cache hit rate that agrees with the isolation, given what the prompts of a pass share;
    /// `None` where any rate does.
    pub fn expected_hit_rate(&self, shared_share: Option<f64>) -> Option<f64> {
        match self {
            Self::None => None,
            Self::CachePromptOff => Some(0.0),
            Self::CacheSalt | Self::Reset | Self::NonceLine => shared_share,
        }
    }
}

/// Documents made ready to be sent: images are read and encoded before any time is taken.
#[derive(Debug)]
pub struct Prepared {
    /// Position in the corpus.
    pub index: usize,
    /// The document's id.
    pub id: Arc<str>,
    text: Arc<str>,
    images: Vec<String>,
}

impl Prepared {
    /// Reads the document's images; the error names the file.
    pub fn new(index: usize, document: &Document) -> io::Result<Self> {
        let images = document.images.iter().map(data_url).collect::<io::Result<_>>()?;
        Ok(Self { index, id: document.id.as_str().into(), text: document.text.as_str().into(), images })
    }
}

fn data_url(image: &Image) -> io::Result<String> {
    let bytes = std::fs::read(&image.path)
        .map_err(|error| io::Error::new(error.kind(), format!("image {}: {error}", image.path.display())))?;
    Ok(format!("data:{};base64,{}", image.format.media_type(), BASE64_STANDARD.encode(bytes)))
}

/// Makes request bodies for one pass.
#[derive(Debug, Clone)]
pub struct RequestForm {
    api: Api,
    prompt: Prompt,
    /// Everything but the prompt, in the order in which it is sent.
    fields: Map<String, Value>,
    nonce: Option<String>,
}

impl RequestForm {
    /// The form of a pass. `pass_key` differs per pass and is the salt or nonce where the isolation needs one.
    pub fn new(
        api: Api,
        model: &str,
        prompt: &Prompt,
        generation: &Generation,
        isolation: &Isolation,
        pass_key: &str,
    ) -> Self {
        let mut fields = Map::new();
        fields.insert("model".into(), model.into());
        fields.insert("max_tokens".into(), generation.max_tokens.into());
        if let Some(temperature) = generation.temperature {
            fields.insert("temperature".into(), temperature.into());
        }
        if let Some(seed) = generation.seed {
            fields.insert("seed".into(), seed.into());
        }
        fields.insert("stream".into(), true.into());
        fields.insert("stream_options".into(), json!({ "include_usage": true }));
        match isolation {
            Isolation::CacheSalt => {
                fields.insert("cache_salt".into(), pass_key.into());
            }
            Isolation::CachePromptOff => {
                fields.insert("cache_prompt".into(), false.into());
            }
            Isolation::None | Isolation::Reset | Isolation::NonceLine => {}
        }
        fields.extend(generation.extra.clone());
        Self {
            api,
            prompt: prompt.clone(),
            fields,
            nonce: (*isolation == Isolation::NonceLine).then(|| format!("[pass {pass_key}]\n")),
        }
    }

    /// The body for one document, as JSON.
    pub fn body(&self, document: &Prepared) -> Bytes {
        let user = self.prompt.user_message(&document.id, &document.text);
        let mut body = self.fields.clone();
        match self.api {
            Api::Chat => {
                let mut messages = Vec::with_capacity(2);
                let nonce = self.nonce.as_deref().unwrap_or_default();
                // The nonce comes first of all: what stands before it would be shared between passes.
                let user_nonce = if let Some(system) = &self.prompt.system {
                    messages.push(json!({ "role": "system", "content": format!("{nonce}{system}") }));
                    ""
                } else {
                    nonce
                };
                messages
                    .push(json!({ "role": "user", "content": content(user_nonce, user, &document.images) }));
                body.insert("messages".into(), messages.into());
            }
            Api::Completions => {
                let nonce = self.nonce.as_deref().unwrap_or_default();
                let system = self.prompt.system.as_ref().map(|s| format!("{s}\n\n")).unwrap_or_default();
                body.insert("prompt".into(), format!("{nonce}{system}{user}").into());
            }
        }
        Bytes::from(Value::Object(body).to_string())
    }

    /// The largest prefix-cache hit rate that a pass can have by itself: the share of all prompts, by bytes, that some
    /// other prompt of the pass begins with too. `None` with images, which have tokens but no bytes to compare.
    pub fn shared_share(&self, documents: &[Prepared]) -> Option<f64> {
        if documents.iter().any(|document| !document.images.is_empty()) {
            return None;
        }
        let mut users: Vec<_> =
            documents.iter().map(|document| self.prompt.user_message(&document.id, &document.text)).collect();
        // In order, the longest beginning that a prompt shares with any other is shared with a neighbour.
        users.sort_unstable();
        let common = |a: &str, b: &str| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
        let next: Vec<_> = users.windows(2).map(|pair| common(&pair[0], &pair[1])).collect();
        let before = std::iter::once(0).chain(next.iter().copied());
        let after = next.iter().copied().chain([0]);
        let shared: usize = before.zip(after).map(|(before, after)| before.max(after)).sum();
        let system = self.prompt.system.as_ref().map_or(0, String::len) * users.len();
        let all = users.iter().map(String::len).sum::<usize>() + system;
        (all > 0).then(|| (shared + system) as f64 / all as f64)
    }
}

fn content(nonce: &str, user: String, images: &[String]) -> Value {
    if images.is_empty() {
        return if nonce.is_empty() { user.into() } else { format!("{nonce}{user}").into() };
    }
    let text = json!({ "type": "text", "text": format!("{nonce}{user}") });
    let images = images.iter().map(|url| json!({ "type": "image_url", "image_url": { "url": url } }));
    std::iter::once(text).chain(images).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Prepared {
        Prepared { index: 0, id: "d1".into(), text: text.into(), images: Vec::new() }
    }

    fn form(api: Api, isolation: &Isolation) -> RequestForm {
        let prompt = Prompt { system: Some("Be brief.".into()), user: "Read: {{text}} ({{id}})".into() };
        let generation = Generation { max_tokens: 9, temperature: Some(0.0), seed: None, extra: Map::new() };
        RequestForm::new(api, "m", &prompt, &generation, isolation, "k7")
    }

    fn json(bytes: &Bytes) -> Value {
        serde_json::from_slice(bytes).unwrap()
    }

    #[test]
    fn a_document_that_holds_a_placeholder_is_not_filled_again() {
        let body = json(&form(Api::Chat, &Isolation::None).body(&document("a {{id}} {{text}} b")));
        assert_eq!(body["messages"][1]["content"], "Read: a {{id}} {{text}} b (d1)");
    }

    #[test]
    fn each_isolation_is_visible_in_the_body() {
        let salted = json(&form(Api::Chat, &Isolation::CacheSalt).body(&document("x")));
        assert_eq!(salted["cache_salt"], "k7");
        let off = json(&form(Api::Chat, &Isolation::CachePromptOff).body(&document("x")));
        assert_eq!(off["cache_prompt"], false);
        let nonce = json(&form(Api::Chat, &Isolation::NonceLine).body(&document("x")));
        assert_eq!(nonce["messages"][0]["content"], "[pass k7]\nBe brief.");
        let completions = json(&form(Api::Completions, &Isolation::NonceLine).body(&document("x")));
        assert_eq!(completions["prompt"], "[pass k7]\nBe brief.\n\nRead: x (d1)");
        let plain = json(&form(Api::Chat, &Isolation::None).body(&document("x")));
        assert!(plain.get("cache_salt").is_none() && plain.get("cache_prompt").is_none());
    }

    #[test]
    fn the_shared_share_is_what_prompts_begin_with_together() {
        let form = form(Api::Chat, &Isolation::None);
        // "Read: " and "aa" or "b" are shared with a neighbour; "Be brief." comes before each; " (d1)" ends each.
        let documents = ["aax", "aay", "bz"].map(document);
        let all = 3 * 9 + (6 + 3 + 5) + (6 + 3 + 5) + (6 + 2 + 5);
        let shared = 3 * 9 + (6 + 2) + (6 + 2) + 6;
        let share = form.shared_share(&documents).unwrap();
        assert!((share - f64::from(shared) / f64::from(all)).abs() < 1e-9, "{share}");
    }

    #[test]
    fn a_single_prompt_shares_its_system_message_alone() {
        let share = form(Api::Chat, &Isolation::None).shared_share(&[document("x")]).unwrap();
        assert!((share - 9.0 / 21.0).abs() < 1e-9, "{share}");
    }
}
