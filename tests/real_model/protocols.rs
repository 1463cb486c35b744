//! Protocols on the shared corpora, written for one engine.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::engine::Engine;

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn write(path: &Path, lines: &[Value]) {
    let lines: Vec<_> = lines.iter().map(Value::to_string).collect();
    std::fs::write(path, lines.join("\n")).unwrap();
}

/// Copies some documents with their references.
fn corpus(source: &Path, folder: &Path, choose: impl FnOnce(&mut Vec<Value>)) {
    let mut documents = lines(&source.join("documents.jsonl"));
    choose(&mut documents);
    let mut references = lines(&source.join("references.jsonl"));
    references.retain(|reference| documents.iter().any(|document| document["id"] == reference["id"]));
    write(&folder.join("documents.jsonl"), &documents);
    write(&folder.join("references.jsonl"), &references);
}

/// The 12 shortest receipts, three fields each, the form of the answer enforced by the engine.
pub(crate) fn receipts(shared: &Path, folder: &Path, engine: &Engine) -> PathBuf {
    corpus(&shared.join("corpus/receipts"), folder, |documents| {
        documents.sort_by_key(|document| document["text"].as_str().unwrap().len());
        documents.truncate(12);
    });
    let rule = r#"
[quality]
parse = "json"
threshold = 0.9
[quality.fields]
date = { compare = "date", order = "day-first" }
amount = { compare = "decimal", tolerance = "0.00" }
category = { compare = "text", fold_case = true }
"#;
    let extra = r#"
[generation.extra.response_format]
type = "json_schema"
[generation.extra.response_format.json_schema]
name = "receipt"
[generation.extra.response_format.json_schema.schema]
type = "object"
required = ["date", "amount", "category"]
additionalProperties = false
[generation.extra.response_format.json_schema.schema.properties]
date = { type = "string", pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$" }
amount = { type = "string", pattern = "^[0-9]{1,5}\\.[0-9]{2}$" }
category = { enum = ["receipt", "invoice", "advertising"] }
"#;
    let prompt = "Give the date, the total amount and the category of this document as JSON.\\n\\n{{text}}";
    protocol(folder, engine, "receipts", 12, prompt, extra, rule)
}

/// 20 short news, one label each.
pub(crate) fn news(shared: &Path, folder: &Path, engine: &Engine) -> PathBuf {
    corpus(&shared.join("corpus/classify/ag_news"), folder, |documents| documents.truncate(20));
    let rule = r#"
[quality]
parse = "choice"
choices = ["World", "Sports", "Business", "Sci/Tech"]
threshold = 0.5
[quality.fields]
category = { compare = "text", fold_case = true }
"#;
    let prompt = "{{text}}\\n\\nIs this news about World, Sports, Business or Sci/Tech? Answer with one of these words.";
    protocol(folder, engine, "news", 20, prompt, "", rule)
}

fn protocol(
    folder: &Path,
    engine: &Engine,
    name: &str,
    documents: usize,
    prompt: &str,
    extra: &str,
    rule: &str,
) -> PathBuf {
    let (url, model) = (&engine.url, &engine.model);
    let text = format!(
        r#"
name = "{name}"
[corpus]
documents = "documents.jsonl"
references = "references.jsonl"
expect = {documents}
[prompt]
user = "{prompt}"
[generation]
max_tokens = 48
temperature = 0
seed = 7
{extra}
[engine]
kind = "openai"
base_url = "{url}"
model = "{model}"
{rule}
[measure]
warm_up = {{ documents = 2 }}
repetitions = 2
[baseline]
concurrency = 1
[[sweep]]
parameter = "concurrency"
values = [2, 4]
"#
    );
    let path = folder.join("protocol.toml");
    std::fs::write(&path, text).unwrap();
    path
}
