//! Documents from JSONL, from CSV, or from a folder of text files.

use super::Document;
use super::image::Image;
use super::lines::{each_line, each_record, text_file};
use super::refusal::Refusals;
use crate::protocol::Reference;
use crate::protocol::problem::shown;
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Most documents of a corpus.
const MAX_DOCUMENTS: usize = 10_000_000;

/// Most images of a document.
const MAX_IMAGES: usize = 64;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Those without mistakes; their references are still empty.
    pub documents: Vec<Document>,
    /// How many the source has, with and without mistakes.
    pub count: usize,
    /// Whether one was refused.
    pub refused: bool,
    /// Whether the source was read to its end.
    pub complete: bool,
    ids: HashMap<String, Option<u64>>,
}

/// Reads all documents of a source.
pub(super) fn read(source: &Path, refusals: &mut Refusals) -> Found {
    let mut found = Found::default();
    found.complete = if source.is_dir() {
        folder(source, &mut found, refusals)
    } else {
        match format(source) {
            Some(Format::JsonLines) => each_line(source, refusals, |number, line, refusals| {
                found.add(source, Some(number), from_json(source, line), refusals);
            }),
            Some(Format::Csv) => each_record(source, &["id", "text"], refusals, |record, refusals| {
                let cell = |name| record.cell(name).unwrap_or_default().to_owned();
                let entry = Entry { id: cell("id"), text: cell("text"), images: Vec::new() };
                found.add(source, Some(record.line), Ok(entry), refusals);
            }),
            None => {
                refusals.add(source, None, "is none of .jsonl, .ndjson, .csv and a folder of .txt files");
                false
            }
        }
    };
    found
}

/// How a file of documents or references is written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Format {
    JsonLines,
    Csv,
}

/// The format that a file's name tells.
pub(super) fn format(path: &Path) -> Option<Format> {
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "jsonl" | "ndjson" => Some(Format::JsonLines),
        "csv" => Some(Format::Csv),
        _ => None,
    }
}

struct Entry {
    id: String,
    text: String,
    images: Vec<PathBuf>,
}

impl Found {
    fn add(&mut self, file: &Path, line: Option<u64>, entry: Result<Entry, String>, refusals: &mut Refusals) {
        self.count += 1;
        let checked = entry.and_then(|entry| self.checked(line, entry));
        match checked {
            Ok(document) if self.documents.len() < MAX_DOCUMENTS => self.documents.push(document),
            Ok(_) => self.refuse(file, line, format!("more than {MAX_DOCUMENTS} documents"), refusals),
            Err(message) => self.refuse(file, line, message, refusals),
        }
    }

    fn refuse(&mut self, file: &Path, line: Option<u64>, message: String, refusals: &mut Refusals) {
        self.refused = true;
        refusals.add(file, line, message);
    }

    fn checked(&mut self, line: Option<u64>, entry: Entry) -> Result<Document, String> {
        let Entry { id, text, images } = entry;
        if let Some(fault) = id_fault(&id) {
            return Err(fault);
        }
        if let Some(before) = self.ids.insert(id.clone(), line) {
            let place = before.map(|line| format!(", first on line {line}")).unwrap_or_default();
            return Err(format!("id {} is there twice{place}", shown(&id)));
        }
        if text.trim().is_empty() && images.is_empty() {
            return Err(format!("document {} has no text", shown(&id)));
        }
        if images.len() > MAX_IMAGES {
            return Err(format!(
                "document {} has {} images; at most {MAX_IMAGES} are allowed",
                shown(&id),
                images.len()
            ));
        }
        let read = |path: PathBuf| {
            let name = shown(&path.to_string_lossy());
            Image::read(path).map_err(|fault| format!("document {}: image {name} {fault}", shown(&id)))
        };
        let images = images.into_iter().map(read).collect::<Result<_, _>>()?;
        Ok(Document { id, text, images, reference: Reference::default() })
    }
}

/// What is wrong with an id, or nothing.
pub(super) fn id_fault(id: &str) -> Option<String> {
    const LONGEST: usize = 512;
    if id.trim().is_empty() {
        Some("the id is empty".to_owned())
    } else if id.len() > LONGEST {
        Some(format!("the id has {} bytes; at most {LONGEST} are allowed", id.len()))
    } else if id.chars().any(char::is_control) {
        Some(format!("the id {} holds a control character", shown(id)))
    } else {
        None
    }
}

/// The id of a JSON object: text, or a whole number kept as text.
pub(super) fn id_text(id: Option<Value>) -> Result<String, String> {
    match id {
        None | Some(Value::Null) => Err("the id is missing".to_owned()),
        Some(Value::String(id)) => Ok(id),
        Some(Value::Number(id)) if id.is_i64() || id.is_u64() => Ok(id.to_string()),
        Some(_) => Err("the id is neither text nor a whole number".to_owned()),
    }
}

#[derive(Deserialize)]
struct JsonDocument {
    id: Option<Value>,
    text: Option<String>,
    images: Option<Vec<PathBuf>>,
}

fn from_json(source: &Path, line: &str) -> Result<Entry, String> {
    let JsonDocument { id, text, images } = serde_json::from_str(line).map_err(|error| json_fault(&error))?;
    let beside = source.parent().unwrap_or(Path::new(""));
    Ok(Entry {
        id: id_text(id)?,
        text: text.unwrap_or_default(),
        images: images.unwrap_or_default().into_iter().map(|path| beside.join(path)).collect(),
    })
}

/// What is wrong with a line of JSON, with the column, and without the line number of its own that serde adds.
pub(super) fn json_fault(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    format!("not a document or reference in JSON: {} at byte {} of the line", shown(what), error.column())
}

/// Every `.txt` file of a folder, by id. Other files and folders in it are not documents.
fn folder(source: &Path, found: &mut Found, refusals: &mut Refusals) -> bool {
    let entries = std::fs::read_dir(source).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = match entries {
        Ok(entries) => entries,
        Err(error) => {
            refusals.add(source, None, format!("cannot be read: {error}"));
            return false;
        }
    };
    let is_text = |path: &PathBuf| path.extension().is_some_and(|end| end.eq_ignore_ascii_case("txt"));
    let mut files: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).filter(is_text).collect();
    files.sort_by(|a, b| a.file_stem().cmp(&b.file_stem()));
    for file in files {
        let entry = match file.file_stem().and_then(|stem| stem.to_str()) {
            Some(id) => text_file(&file).map(|text| Entry { id: id.to_owned(), text, images: Vec::new() }),
            None => Err("has a name that is not UTF-8, so that it gives no id".to_owned()),
        };
        found.add(&file, None, entry, refusals);
    }
    true
}
