//! The corpus: what is accepted, and each refusal.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use aforo::protocol::corpus::{Corpus, CorpusErrors, ImageFormat, load};
use aforo::protocol::{CorpusSource, Override, QualityRule, read};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// A folder with a corpus in it.
struct Folder(tempfile::TempDir);

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n rest";

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn with(self, name: &str, contents: impl AsRef<[u8]>) -> Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn source(&self, documents: &str, references: &str) -> CorpusSource {
        CorpusSource { documents: self.path(documents), references: self.path(references), expect: None }
    }

    fn load(&self, documents: &str, references: &str) -> Result<Corpus, CorpusErrors> {
        load(&self.source(documents, references), &rule())
    }

    /// What is said, one mistake a line, without the folder.
    fn refusals(&self, documents: &str, references: &str) -> Vec<String> {
        self.said(&self.load(documents, references).unwrap_err())
    }

    fn said(&self, errors: &CorpusErrors) -> Vec<String> {
        let folder = format!("{}/", self.0.path().display());
        errors.to_string().lines().map(|line| line.replace(&folder, "")).collect()
    }
}

fn rule_of(case: &str, changes: &[&str]) -> QualityRule {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/protocols/valid").join(case);
    let changes: Vec<Override> = changes.iter().map(|change| change.parse().unwrap()).collect();
    read(&path, &changes).unwrap().protocol.quality
}

/// One field, `amount`, compared as a decimal.
fn rule() -> QualityRule {
    rule_of("minimal.toml", &[])
}

const TWO: &str =
    "{\"id\": \"a\", \"text\": \"one\"}\n{\"id\": \"b\", \"text\": \"two\", \"fields\": null}\n";
const TWO_REFERENCES: &str =
    "{\"id\": \"b\", \"amount\": 2, \"note\": [1]}\n{\"id\": \"a\", \"amount\": \"1.00\"}\n";

fn two() -> Folder {
    Folder::new().with("d.jsonl", TWO).with("r.jsonl", TWO_REFERENCES)
}

fn ids(corpus: &Corpus) -> Vec<&str> {
    corpus.documents.iter().map(|document| document.id.as_str()).collect()
}

#[test]
fn json_lines_are_read_in_order_with_their_references() {
    let corpus = two().load("d.jsonl", "r.jsonl").unwrap();
    assert_eq!(ids(&corpus), ["a", "b"]);
    assert_eq!(corpus.documents[1].text, "two");
    assert_eq!(corpus.documents[0].reference.0["amount"], json!("1.00"));
    assert_eq!(serde_json::to_value(&corpus.documents[1].reference.0).unwrap(), json!({"amount": 2}));
}

#[test]
fn csv_is_read_with_quotes_line_breaks_and_columns_in_any_order() {
    let folder = Folder::new()
        .with("d.csv", "text,ignored,id\r\n\"one, \"\"two\"\"\nthree\",x,a\r\nfour,y,b\r\n")
        .with("r.csv", "amount,id,note\n1.00,a,\n,b,x\n");
    let errors = folder.refusals("d.csv", "r.csv");
    assert_eq!(errors, ["r.csv: document `b` has no reference value for any field of the rule"]);
    let corpus = folder.with("r.csv", "amount,id\n1.00,a\n2.00,b\n").load("d.csv", "r.csv").unwrap();
    assert_eq!(corpus.documents[0].text, "one, \"two\"\nthree");
    assert_eq!(corpus.documents[1].reference.0["amount"], json!("2.00"));
}

#[test]
fn a_folder_is_read_sorted_by_id() {
    let folder =
        two().with("texts/b.txt", "two\r\n").with("texts/a.txt", "\u{feff}one").with("texts/notes.md", "no");
    let corpus = folder.load("texts", "r.jsonl").unwrap();
    assert_eq!(ids(&corpus), ["a", "b"]);
    assert_eq!((corpus.documents[0].text.as_str(), corpus.documents[1].text.as_str()), ("one", "two\r\n"));
}

#[test]
fn a_byte_order_mark_and_cr_lf_are_accepted() {
    let marked = |text: &str| format!("\u{feff}{}", text.replace('\n', "\r\n"));
    let folder = Folder::new()
        .with("d.jsonl", marked(TWO))
        .with("r.jsonl", marked(TWO_REFERENCES))
        .with("d.csv", marked("id,text\na,one\nb,two\n"))
        .with("r.csv", marked("id,amount\na,1\nb,2\n"));
    for (documents, references) in [("d.jsonl", "r.jsonl"), ("d.csv", "r.csv")] {
        let corpus = folder.load(documents, references).unwrap();
        assert_eq!((ids(&corpus), corpus.documents[1].text.as_str()), (vec!["a", "b"], "two"));
    }
}

#[test]
fn whole_numbers_are_ids_and_blank_lines_are_nothing() {
    let folder = Folder::new()
        .with("d.jsonl", "{\"id\": 7, \"text\": \"x\"}\n\n   \n{\"id\": \"-8\", \"text\": \"y\"}")
        .with("r.jsonl", "{\"id\": \"7\", \"amount\": 1}\n{\"id\": -8, \"amount\": 1}\n");
    assert_eq!(ids(&folder.load("d.jsonl", "r.jsonl").unwrap()), ["7", "-8"]);
}

#[test]
fn an_id_that_is_missing_or_unusable_is_refused() {
    let long = "x".repeat(513);
    let folder = two().with(
        "d.jsonl",
        format!(
            "{{\"text\": \"x\"}}\n{{\"id\": null, \"text\": \"x\"}}\n{{\"id\": \" \", \"text\": \"x\"}}\n\
             {{\"id\": 1.5, \"text\": \"x\"}}\n{{\"id\": \"a\\nb\", \"text\": \"x\"}}\n{{\"id\": \"{long}\", \"text\": \"x\"}}\n"
        ),
    );
    assert_eq!(
        folder.refusals("d.jsonl", "r.jsonl"),
        [
            "d.jsonl:1: the id is missing",
            "d.jsonl:2: the id is missing",
            "d.jsonl:3: the id is empty",
            "d.jsonl:4: the id is neither text nor a whole number",
            "d.jsonl:5: the id `a\\nb` holds a control character",
            "d.jsonl:6: the id has 513 bytes; at most 512 are allowed",
        ]
    );
}

#[test]
fn an_id_that_is_there_twice_is_refused_in_both_files() {
    let folder = two()
        .with("d.jsonl", format!("{TWO}{{\"id\": \"a\", \"text\": \"again\"}}\n"))
        .with("r.jsonl", format!("{TWO_REFERENCES}{{\"id\": \"b\", \"amount\": 3}}\n"));
    assert_eq!(
        folder.refusals("d.jsonl", "r.jsonl"),
        [
            "d.jsonl:3: id `a` is there twice, first on line 1",
            "r.jsonl:3: id `b` is there twice, first on line 1",
        ]
    );
}

#[test]
fn a_key_that_is_there_twice_in_one_object_is_refused() {
    let folder = two().with("d.jsonl", "{\"id\": \"a\", \"id\": \"b\", \"text\": \"x\"}\n").with(
        "r.jsonl",
        "{\"id\": \"a\", \"id\": \"b\", \"amount\": 1}\n{\"id\": \"a\", \"amount\": 1, \"amount\": 2}\n",
    );
    let said = folder.refusals("d.jsonl", "r.jsonl");
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(said[0].starts_with("d.jsonl:1:") && said[0].contains("duplicate field `id`"), "{}", said[0]);
    assert!(said[1].starts_with("r.jsonl:1:") && said[1].contains("duplicate field `id`"), "{}", said[1]);
    assert!(said[2].starts_with("r.jsonl:2:") && said[2].contains("duplicate field `amount`"), "{}", said[2]);
}

#[test]
fn empty_text_is_refused_unless_there_are_images() {
    let folder = two()
        .with("d.jsonl", "{\"id\": \"a\", \"text\": \" \\n\"}\n{\"id\": \"b\"}\n{\"id\": \"c\", \"images\": [\"i/x.PNG\"]}\n")
        .with("i/x.PNG", PNG)
        .with("r.jsonl", "{\"id\": \"c\", \"amount\": 1}\n");
    assert_eq!(
        folder.refusals("d.jsonl", "r.jsonl"),
        ["d.jsonl:1: document `a` has no text", "d.jsonl:2: document `b` has no text",]
    );
    let folder = folder.with("d.jsonl", "{\"id\": \"c\", \"text\": \"\", \"images\": [\"i/x.PNG\"]}\n");
    let corpus = folder.load("d.jsonl", "r.jsonl").unwrap();
    let image = &corpus.documents[0].images[0];
    assert_eq!((image.path.clone(), image.format), (folder.path("i/x.PNG"), ImageFormat::Png));
}

#[test]
fn images_that_cannot_be_sent_are_refused() {
    let line = |path: &str| format!("{{\"id\": \"{path}\", \"text\": \"x\", \"images\": [\"{path}\"]}}\n");
    let folder = two()
        .with("d.jsonl", ["x.gif", "no.png", "text.png", "http://h/x.jpg"].map(line).concat())
        .with("x.gif", "GIF89a")
        .with("text.png", "hello");
    let said = folder.refusals("d.jsonl", "r.jsonl");
    assert_eq!(said.len(), 4, "{said:?}");
    assert!(said[0].ends_with("image `x.gif` is not one of .png, .jpg, .jpeg, .webp"), "{}", said[0]);
    assert!(said[1].contains("image `no.png` cannot be read"), "{}", said[1]);
    assert!(said[2].ends_with("image `text.png` does not hold a PNG, JPEG or WebP image"), "{}", said[2]);
    assert!(said[3].contains("cannot be read"), "{}", said[3]);
}

#[test]
fn the_contents_of_an_image_are_known() {
    let digest = |contents: &[u8]| {
        let folder = two()
            .with("d.jsonl", "{\"id\": \"a\", \"text\": \"x\", \"images\": [\"x.png\"]}\n")
            .with("r.jsonl", "{\"id\": \"a\", \"amount\": 1}\n")
            .with("x.png", contents);
        folder.load("d.jsonl", "r.jsonl").unwrap().documents[0].images[0].sha256
    };
    assert_eq!(digest(PNG), digest(PNG));
    assert_ne!(digest(PNG), digest(b"\x89PNG\r\n\x1a\n rist"));
}

#[test]
fn another_count_than_expected_is_refused() {
    let folder = two();
    let source = CorpusSource { expect: Some(3), ..folder.source("d.jsonl", "r.jsonl") };
    let said = folder.said(&load(&source, &rule()).unwrap_err());
    assert_eq!(said, ["d.jsonl: has 2 documents; the protocol expects 3 (corpus.expect)"]);
}

#[test]
fn an_empty_corpus_is_refused() {
    let folder = two().with("d.jsonl", "\n").with("r.jsonl", "").with("empty/notes.md", "");
    assert_eq!(folder.refusals("d.jsonl", "r.jsonl"), ["d.jsonl: has no documents"]);
    assert_eq!(folder.refusals("empty", "r.jsonl"), ["empty: has no documents"]);
}

#[test]
fn a_reference_without_a_document_is_refused() {
    let folder = two().with("r.jsonl", format!("{TWO_REFERENCES}{{\"id\": \"c\", \"amount\": 3}}\n"));
    assert_eq!(
        folder.refusals("d.jsonl", "r.jsonl"),
        ["r.jsonl:3: reference for `c`, which is not the id of a document"]
    );
}

#[test]
fn a_document_for_which_nothing_would_be_checked_is_refused() {
    let folder = two().with("r.jsonl", "{\"id\": \"a\", \"amount\": null}\n");
    let nothing = |id| format!("r.jsonl: document `{id}` has no reference value for any field of the rule");
    assert_eq!(folder.refusals("d.jsonl", "r.jsonl"), [nothing("a"), nothing("b")]);
}

#[test]
fn an_expected_null_is_checked_where_the_rule_says_so() {
    let folder = two().with("r.jsonl", "{\"id\": \"a\", \"amount\": null}\n{\"id\": \"b\", \"amount\": 1}\n");
    let rule = rule_of("minimal.toml", &["quality.fields.amount.missing=null-matches-null"]);
    let corpus = load(&folder.source("d.jsonl", "r.jsonl"), &rule).unwrap();
    assert_eq!(corpus.documents[0].reference.0["amount"], json!(null));
}

#[test]
fn a_field_that_no_reference_has_is_refused_with_the_nearest() {
    let folder = two()
        .with("r.jsonl", TWO_REFERENCES.replace("amount", "ammount"))
        .with("r.csv", "id,Amount\na,1\nb,2\n");
    for references in ["r.jsonl", "r.csv"] {
        let said = folder.refusals("d.jsonl", references);
        assert!(said[0].contains("no reference has the field `amount`"), "{said:?}");
        assert!(said[0].to_lowercase().contains("; nearest: am"), "{said:?}");
    }
}

#[test]
fn values_that_the_comparison_cannot_read_are_refused() {
    let folder =
        two().with("r.jsonl", "{\"id\": \"a\", \"amount\": [1]}\n{\"id\": \"b\", \"amount\": \"none\"}\n");
    assert_eq!(
        folder.refusals("d.jsonl", "r.jsonl"),
        [
            "r.jsonl:1: the reference of `a` for `amount` is a list; allowed: a number, or text with one",
            "r.jsonl:2: the reference of `b` for `amount` is text; allowed: a number, or text with one",
        ]
    );
}

#[test]
fn a_label_that_is_no_choice_is_refused_with_the_nearest() {
    let folder = two().with(
        "r.jsonl",
        "{\"id\": \"a\", \"category\": \"World\"}\n{\"id\": \"b\", \"category\": \"Sport\"}\n",
    );
    let errors = load(&folder.source("d.jsonl", "r.jsonl"), &rule_of("choice.toml", &[])).unwrap_err();
    assert_eq!(
        folder.said(&errors),
        [
            "r.jsonl:2: the reference of `b` for `category` is `Sport`, which is not among quality.choices; nearest: Sports"
        ]
    );
}

#[test]
fn broken_utf_8_is_told_with_its_byte() {
    let folder = two()
        .with("d.jsonl", [TWO.as_bytes(), b"{\"id\": \"c\", \"text\": \"\xff\"}\n"].concat())
        .with("d.csv", b"id,text\na,one\nb,\"t\xc3\xb3\"\"\n\xc3(\"\n")
        .with("texts/a.txt", b"one\xe2\x82")
        .with("r.jsonl", [TWO_REFERENCES.as_bytes(), b"\xf0\x9f\n"].concat());
    let documents = TWO.len() + "{\"id\": \"c\", \"text\": \"".len();
    let references = TWO_REFERENCES.len();
    let said = folder.refusals("d.jsonl", "r.jsonl");
    assert_eq!(
        said,
        [
            format!("d.jsonl:3: not UTF-8 at byte {documents} of the file"),
            format!("r.jsonl:3: not UTF-8 at byte {references} of the file"),
        ]
    );
    assert_eq!(folder.refusals("d.csv", "r.jsonl")[0], "d.csv:3: not UTF-8 at byte 23 of the file");
    assert_eq!(folder.refusals("texts", "r.jsonl")[0], "texts/a.txt: not UTF-8 at byte 3");
}

#[test]
fn a_line_of_50_mb_is_read_and_one_beyond_the_bound_is_refused() {
    let line =
        |id: &str, bytes: usize| format!("{{\"id\": \"{id}\", \"text\": \"{}\"}}\n", "x".repeat(bytes));
    let folder = two().with("d.jsonl", line("a", 50_000_000) + &line("b", 1));
    assert_eq!(folder.load("d.jsonl", "r.jsonl").unwrap().documents[0].text.len(), 50_000_000);
    let folder = folder.with("d.jsonl", line("a", 1) + &line("b", 64 << 20) + "{\"id\": \"\"}\n");
    let bytes = line("b", 64 << 20).len() - 1;
    assert_eq!(
        folder.refusals("d.jsonl", "r.jsonl"),
        [
            format!("d.jsonl:2: a line of {bytes} bytes; at most 67108864 are allowed"),
            "d.jsonl:3: the id is empty".to_owned(),
        ]
    );
}

#[test]
fn files_that_cannot_be_read_are_refused() {
    let folder = Folder::new().with("documents.json", "[]").with("r.csv/x", "");
    for (documents, references, said) in [
        ("nowhere.jsonl", "r.csv", "nowhere.jsonl: cannot be read: "),
        (
            "documents.json",
            "r.csv",
            "documents.json: is none of .jsonl, .ndjson, .csv and a folder of .txt files",
        ),
    ] {
        let refusals = folder.refusals(documents, references);
        assert!(refusals[0].starts_with(said), "{refusals:?}");
        assert!(refusals[1].starts_with("r.csv: cannot be read: "), "{refusals:?}");
        assert_eq!(refusals.len(), 2, "{refusals:?}");
    }
}

#[test]
fn what_is_not_json_is_refused_with_line_and_byte() {
    let folder =
        two().with("d.jsonl", format!("{TWO}{{\"id\": \"c\", \"text\": 5}}\nnot json\n[1]\n{{}} {{}}\n"));
    let said = folder.refusals("d.jsonl", "r.jsonl");
    assert_eq!(said.len(), 4, "{said:?}");
    for (line, said) in (3..).zip(&said) {
        assert!(
            said.starts_with(&format!("d.jsonl:{line}: not a document or reference in JSON: ")),
            "{said}"
        );
        assert!(said.contains(" at byte "), "{said}");
    }
}

#[test]
fn a_csv_without_its_columns_or_with_ragged_lines_is_refused() {
    let folder = two()
        .with("other.csv", "id;text\na;one\n")
        .with("twice.csv", "id,text,text\na,one,two\n")
        .with("ragged.csv", "id,text\na,one,more\nb,two\n\"c\",\"\"\n");
    let said = |documents| folder.refusals(documents, "r.jsonl");
    assert_eq!(
        said("other.csv"),
        [
            "other.csv:1: has no column `id`; it has `id;text`",
            "other.csv:1: has no column `text`; it has `id;text`",
        ]
    );
    assert_eq!(said("twice.csv"), ["twice.csv:1: has the column `text` twice"]);
    assert_eq!(
        said("ragged.csv"),
        ["ragged.csv:2: has 3 cells; the header has 2", "ragged.csv:4: document `c` has no text",]
    );
}

#[test]
fn a_flood_of_mistakes_is_counted() {
    let folder = two().with("d.jsonl", "{}\n".repeat(70));
    let errors = folder.load("d.jsonl", "r.jsonl").unwrap_err();
    assert_eq!((errors.refusals.len(), errors.more), (50, 20));
    assert!(errors.to_string().ends_with("\n20 more are not listed"));
}

#[test]
fn a_warm_up_larger_than_the_corpus_is_refused_when_it_is_asked_for() {
    let folder = two().with(
        "p.toml",
        include_str!("protocols/valid/minimal.toml")
            .replace("documents.jsonl", "d.jsonl")
            .replace("references.jsonl", "r.jsonl"),
    );
    let protocol = |changes: &[&str]| {
        let changes: Vec<Override> = changes.iter().map(|change| change.parse().unwrap()).collect();
        read(&folder.path("p.toml"), &changes).unwrap().protocol
    };
    let usual = protocol(&[]);
    let corpus = usual.load_corpus().unwrap();
    assert_eq!(usual.measure.warm_up_documents(corpus.documents.len()), 2);
    let errors = protocol(&["measure.warm_up.documents=3"]).load_corpus().unwrap_err();
    assert_eq!(
        folder.said(&errors),
        ["d.jsonl: has 2 documents; measure.warm_up.documents asks for 3 of them"]
    );
}

#[test]
fn the_shared_corpora_load() {
    let shared = std::env::var("AFORO_SHARED")
        .map_or_else(|_| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let receipts = shared.join("corpus/receipts");
    if !receipts.is_dir() {
        println!("skipped: no shared corpora at {}", shared.display());
        return;
    }
    let load = |folder: &str, rule: &QualityRule| {
        let folder = shared.join("corpus").join(folder);
        let (documents, references) = (folder.join("documents.jsonl"), folder.join("references.jsonl"));
        load(&CorpusSource { documents, references, expect: Some(300) }, rule)
    };
    let corpus = load("receipts", &rule_of("design.toml", &[])).unwrap();
    assert_eq!(corpus.documents.len(), 300);
    assert_eq!(corpus.documents[0].id, "sroie-416");
    assert_eq!(corpus.documents[0].reference.0.keys().collect::<Vec<_>>(), ["date", "amount", "category"]);
    load("classify/ag_news", &rule_of("choice.toml", &[])).unwrap();
}
