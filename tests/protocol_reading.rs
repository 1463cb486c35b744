//! Reading: defaults, files that are no text, and texts of any kind.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use aforo::protocol::{
    Compare, EngineKind, Missing, Override, PrefixCache, ReadError, Simulated, Unreadable, WarmUp, read,
};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn valid(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/protocols/valid").join(case)
}

#[test]
fn defaults_are_those_of_the_design() {
    let protocol = read(&valid("minimal.toml"), &[]).unwrap().protocol;
    assert_eq!(protocol.measure.warm_up, WarmUp::Usual);
    assert_eq!((protocol.measure.warm_up_documents(300), protocol.measure.warm_up_documents(5)), (8, 5));
    assert_eq!(protocol.measure.repetitions, 3);
    assert_eq!(protocol.measure.timeout, Duration::from_secs(120));
    assert_eq!(protocol.measure.chunk_timeout, Duration::from_secs(60));
    assert_eq!(protocol.measure.prefix_cache, PrefixCache::Isolated);
    assert_eq!(protocol.baseline.concurrency, 1);
    assert!(protocol.sweeps.is_empty() && protocol.objective.deadlines.is_empty());
    assert_eq!(protocol.quality.fields["amount"].missing, Missing::Wrong);
    let simulated = Simulated {
        seed: 7,
        wrong_rate: 0.04,
        broken_rate: 0.01,
        error_rate: 0.0,
        slots: 64,
        kv_tokens: 65_536,
        context: 8192,
        prefill_tokens_per_second: 20_000.0,
        iteration: Duration::from_millis(5),
        iteration_per_sequence: Duration::from_micros(100),
        tokens_per_event: 1,
        prefix_cache: true,
    };
    assert_eq!(protocol.engine.kind, EngineKind::Simulated(Box::new(simulated)));
}

#[test]
fn what_the_file_says_is_what_the_protocol_holds() {
    let design = read(&valid("design.toml"), &[]).unwrap().protocol;
    assert_eq!(design.name, "receipts");
    assert_eq!(design.corpus.documents, valid("documents.jsonl"));
    assert_eq!(design.sweeps[0].values, [2, 4, 8, 16]);
    assert_eq!(design.quality.fields.keys().collect::<Vec<_>>(), ["date", "amount", "category"]);
    assert_eq!(
        design.quality.fields["category"].compare,
        Compare::Text { fold_case: true, fold_accents: false, fold_spaces: true }
    );
    let limits: Vec<_> =
        design.objective.deadlines.iter().map(|d| (d.percentile, d.limit.as_secs())).collect();
    assert_eq!(limits, [(90, 2), (95, 20)]);
    let user = read(&valid("user-file.toml"), &[]).unwrap().protocol.prompt.user_message("7", "x");
    assert_eq!(user, "Document 7: \"x\"\nAnswer as {\"amount\": {\"value\": 1}}.\n");
    let cr_lf = read(&valid("bom-crlf.toml"), &[]).unwrap().protocol;
    assert_eq!(cr_lf.name, "bom-crlf");
}

fn unreadable(bytes: &[u8]) -> Unreadable {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p.toml");
    std::fs::write(&file, bytes).unwrap();
    match read(&file, &[]).unwrap_err() {
        ReadError::Unreadable { fault, .. } => fault,
        ReadError::Problems(problems) => panic!("{problems:?}"),
    }
}

#[test]
fn bytes_that_are_not_utf_8_are_told_with_their_offset() {
    assert!(matches!(unreadable(b"name = \"a\"\nx = \"\xff\""), Unreadable::NotUtf8 { offset: 16, line: 2 }));
}

#[test]
fn a_file_that_is_too_large_is_refused() {
    assert!(matches!(unreadable(&vec![b'\n'; (4 << 20) + 1]), Unreadable::TooLarge));
}

#[test]
fn a_file_that_is_not_there_is_told_by_name() {
    let error = read(Path::new("nowhere/protocol.toml"), &[]).unwrap_err();
    assert!(error.to_string().starts_with("nowhere/protocol.toml: "), "{error}");
}

#[test]
fn a_flood_of_mistakes_ends() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p.toml");
    let keys: String =
        (0..20_000).flat_map(|n| ["key".to_owned(), n.to_string(), " = 1\n".to_owned()]).collect();
    std::fs::write(&file, keys).unwrap();
    let ReadError::Problems(problems) = read(&file, &[]).unwrap_err() else { panic!() };
    assert_eq!(problems.len(), 201);
    assert!(problems[200].message.contains("more problems"), "{}", problems[200]);
}

fn read_any(text: &[u8], change: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p.toml");
    std::fs::write(&file, text).unwrap();
    let changes: Vec<Override> = change.parse().into_iter().collect();
    if let Err(error) = read(&file, &changes) {
        assert!(!error.to_string().is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        read_any(&bytes, "a=1");
    }

    #[test]
    fn any_text_is_read_without_a_panic(text in "(\\PC|\\n){0,200}", change in "\\PC{0,30}=\\PC{0,30}") {
        read_any(text.as_bytes(), &change);
    }

    /// Texts near a valid one: a piece cut out, a piece put in.
    #[test]
    fn any_damage_is_read_without_a_panic(
        at in 0_usize..1200, cut in 0_usize..40, put in "[\\[\\]{}=\"'.,#\\\\a-z0-9 \\n]{0,12}",
        key in "(sweep|quality|engine|measure|name|corpus)(\\.(0|values|fields|simulated|amount|x)){0,3}",
        value in "[\\[\\]{}=\"'.,a-z0-9 ]{0,8}",
    ) {
        let text = include_str!("protocols/valid/design.toml");
        let at = at.min(text.len());
        let end = (at + cut).min(text.len());
        read_any(format!("{}{put}{}", &text[..at], &text[end..]).as_bytes(), &format!("{key}={value}"));
        read_any(text.as_bytes(), &format!("{key}={value}"));
    }
}
