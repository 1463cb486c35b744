//! `--set key=value`: changed like the file, checked like the file, comments kept.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use aforo::protocol::{EngineKind, Frozen, Override, Problem, ReadError, read};
use std::path::Path;

fn set(case: &str, changes: &[&str]) -> Result<Frozen, Vec<Problem>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/protocols/valid").join(case);
    let changes: Vec<Override> = changes.iter().map(|change| change.parse().unwrap()).collect();
    read(&path, &changes).map_err(|error| match error {
        ReadError::Problems(problems) => problems,
        ReadError::Unreadable { .. } => panic!("{error}"),
    })
}

fn said(case: &str, changes: &[&str]) -> Vec<String> {
    set(case, changes).unwrap_err().iter().map(ToString::to_string).collect()
}

#[test]
fn a_value_is_changed_and_the_comments_stay() {
    let frozen =
        set("design.toml", &["baseline.concurrency=3", "sweep.0.values=[5, 7]", "corpus.expect=12"]).unwrap();
    assert_eq!(frozen.protocol.baseline.concurrency, 3);
    assert_eq!(frozen.protocol.sweeps[0].values, [5, 7]);
    assert_eq!(frozen.protocol.corpus.expect, Some(12));
    assert!(frozen.source.contains("# name of a variable, never the key"));
    assert!(frozen.source.contains("expect = 12\n"));
}

#[test]
fn text_needs_no_quotes() {
    let changes = ["engine.base_url=http://10.0.0.1:8000/v1", "engine.revision=2024", "measure.timeout=5s"];
    let protocol = set("design.toml", &changes).unwrap().protocol;
    let EngineKind::OpenAi(server) = &protocol.engine.kind else { panic!("{:?}", protocol.engine.kind) };
    assert_eq!(server.base_url, "http://10.0.0.1:8000/v1");
    assert_eq!(protocol.engine.revision.as_deref(), Some("2024"));
    assert_eq!(protocol.measure.timeout.as_secs(), 5);
    let quoted = set("design.toml", &["engine.revision=\"a b\""]).unwrap().protocol;
    assert_eq!(quoted.engine.revision.as_deref(), Some("a b"));
}

#[test]
fn tables_that_are_not_there_are_added() {
    let changes = ["measure.repetitions=2", "engine.simulated.slots=4", "measure.warm_up.documents=0"];
    let frozen = set("minimal.toml", &changes).unwrap();
    assert_eq!(frozen.protocol.measure.repetitions, 2);
    assert_eq!(frozen.protocol.measure.warm_up_documents(100), 0);
    let EngineKind::Simulated(simulated) = &frozen.protocol.engine.kind else { panic!() };
    assert_eq!(simulated.slots, 4);
    let inline = set("design.toml", &["measure.warm_up.documents=3", "generation.extra.top_k=1"]).unwrap();
    assert_eq!(inline.protocol.measure.warm_up_documents(100), 3);
    assert_eq!(inline.protocol.generation.extra["top_k"], 1);
}

#[test]
fn one_element_of_a_list_is_changed() {
    assert_eq!(
        set("design.toml", &["sweep.0.values.3=32"]).unwrap().protocol.sweeps[0].values,
        [2, 4, 8, 32]
    );
}

#[test]
fn a_mistake_in_a_change_is_told_like_one_in_the_file() {
    assert_eq!(
        said("design.toml", &["engine.modl=x"]),
        ["--set: error: engine.modl: unknown key; allowed: `kind`, `base_url`, `api`, `model`, `revision`, \
          `tokenizer`, `precision`, `api_key_env`, `metrics_url`, `simulated`; nearest: model"]
    );
    assert_eq!(
        said("design.toml", &["baseline.concurrency=0", "sweep.0.values=[1000000000]"]),
        [
            "--set: error: baseline.concurrency: `0` is out of bounds; allowed: a whole number from 1 to 16384",
            "--set: error: sweep.0.values.0: `1000000000` is out of bounds; allowed: a whole number from 1 to 16384",
        ]
    );
}

#[test]
fn a_mistake_in_the_file_keeps_its_place_when_a_change_adds_lines() {
    let problems =
        set("design.toml", &["engine.precision=bf16", "sweep.0.parameter=concurency"]).unwrap_err();
    assert_eq!(problems.len(), 1);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p.toml");
    let source = include_str!("protocols/valid/design.toml").replace("timeout = \"120s\"", "timeout = 120");
    std::fs::write(&file, &source).unwrap();
    let ReadError::Problems(before) = read(&file, &[]).unwrap_err() else { panic!() };
    let change = "engine.precision=bf16".parse().unwrap();
    let ReadError::Problems(after) = read(&file, &[change]).unwrap_err() else { panic!() };
    assert_eq!(before, after);
}

#[test]
fn a_change_can_mend_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p.toml");
    std::fs::write(&file, include_str!("protocols/valid/minimal.toml").replace("0.9", "90")).unwrap();
    assert!(read(&file, &[]).is_err());
    assert!(read(&file, &["quality.threshold=0.9".parse().unwrap()]).is_ok());
}

#[test]
fn a_place_that_is_not_there_is_refused() {
    for change in ["sweep.1.values=[2]", "sweep.first.values=[2]", "name.x=1", "sweep.0.values.9=2"] {
        let said = said("design.toml", &[change]);
        assert_eq!(said.len(), 1, "{change}: {said:?}");
        assert!(said[0].starts_with("--set: error: "), "{}", said[0]);
    }
}

#[test]
fn a_secret_in_a_change_is_not_repeated() {
    for change in
        ["engine.api_key_env=sk-hunter2hunter2", "engine.base_url=http://u:hunter2@h/v1", "name.x=hunter2"]
    {
        let said = said("design.toml", &[change]);
        assert!(!said.is_empty() && !said.concat().contains("hunter2"), "{said:?}");
    }
}

#[test]
fn what_is_not_key_and_value_is_wrong_use() {
    for text in ["", "baseline.concurrency", "=2", "a..b=1", "a b=1"] {
        assert!(text.parse::<Override>().is_err(), "{text:?}");
    }
}
