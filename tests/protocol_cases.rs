//! One file, one case: protocols that are accepted, and protocols that are refused with exactly these words.
//!
//! `X.expected` beside `X.toml` holds what is said about it; a valid protocol without cautions has none. With
//! `AFORO_WRITE_EXPECTED=1` the files are written anew, to be read in the diff.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use aforo::protocol::{Problem, ReadError, read, schema};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn cases(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/protocols").join(folder);
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut cases: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
    cases.sort();
    cases
}

fn said(case: &Path, problems: &[Problem]) -> String {
    let name = Path::new(case.file_name().unwrap());
    problems.iter().flat_map(|problem| [problem.at(name).to_string(), "\n".to_owned()]).collect()
}

fn compare(case: &Path, said: &str) -> Option<String> {
    let expected = case.with_extension("expected");
    if std::env::var_os("AFORO_WRITE_EXPECTED").is_some() {
        if said.is_empty() {
            let _ = fs::remove_file(&expected);
        } else {
            fs::write(&expected, said).unwrap();
        }
    }
    let wanted = fs::read_to_string(&expected).unwrap_or_default();
    (said != wanted).then(|| format!("{}\n--- expected\n{wanted}--- said\n{said}", case.display()))
}

fn json_of(text: &str) -> serde_json::Value {
    toml_edit::de::from_str(text.trim_start_matches('\u{feff}')).unwrap()
}

#[test]
fn valid_protocols_are_accepted() {
    let mut wrong = Vec::new();
    for case in cases("valid") {
        match read(&case, &[]) {
            Ok(frozen) => wrong.extend(compare(&case, &said(&case, &frozen.cautions))),
            Err(error) => wrong.push(format!("{}: {error}", case.display())),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn invalid_protocols_are_refused_with_every_mistake() {
    let mut wrong = Vec::new();
    for case in cases("invalid") {
        match read(&case, &[]) {
            Ok(_) => wrong.push(format!("{}: accepted", case.display())),
            Err(ReadError::Problems(problems)) => wrong.extend(compare(&case, &said(&case, &problems))),
            Err(error) => wrong.push(format!("{}: {error}", case.display())),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn no_secret_is_repeated() {
    for case in cases("invalid") {
        let error = read(&case, &[]).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{}: {error}", case.display());
    }
}

#[test]
fn a_file_with_ten_mistakes_reports_ten() {
    let case = cases("invalid").into_iter().find(|case| case.ends_with("ten-mistakes.toml")).unwrap();
    let ReadError::Problems(problems) = read(&case, &[]).unwrap_err() else { panic!("readable") };
    assert_eq!(problems.len(), 10, "{}", said(&case, &problems));
    let places: BTreeSet<_> = problems.iter().map(|problem| (problem.line, problem.column)).collect();
    assert_eq!(places.len(), problems.len());
}

#[test]
fn a_frozen_protocol_reads_as_the_same_from_another_folder() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("protocol.toml");
    for case in cases("valid") {
        let frozen = read(&case, &[]).unwrap();
        fs::write(&copy, &frozen.source).unwrap();
        let again = read(&copy, &[]).unwrap_or_else(|error| panic!("{}: {error}", case.display()));
        assert_eq!(again.protocol, frozen.protocol, "{}", case.display());
        assert_eq!(again.source, frozen.source, "{}", case.display());
    }
}

#[test]
fn a_frozen_protocol_keeps_its_comments() {
    let case = cases("valid").into_iter().find(|case| case.ends_with("design.toml")).unwrap();
    let source = read(&case, &[]).unwrap().source;
    for comment in fs::read_to_string(&case).unwrap().lines().filter_map(|line| line.split_once('#')) {
        assert!(source.contains(comment.1), "{}", comment.1);
    }
}

#[test]
fn valid_protocols_satisfy_the_schema() {
    let validator = jsonschema::draft202012::new(&schema()).unwrap();
    for case in cases("valid") {
        let json = json_of(&fs::read_to_string(&case).unwrap());
        let errors: Vec<String> =
            validator.iter_errors(&json).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{}: {errors:?}", case.display());
    }
}

#[test]
fn what_one_key_is_refused_for_is_in_the_schema_too() {
    // What only reading finds: contradictions between tables, other files, the syntax of TOML itself.
    const BEYOND: [&str; 15] = [
        "choice-contradictions",
        "addresses",
        "duplicate-keys",
        "field-named-id",
        "fields-that-aforo-sets",
        "placeholder-in-system",
        "prompt-file-missing",
        "prompt-without-text",
        "number-overflow",
        "regex-broken",
        "regex-groups",
        "simulated-rates",
        "syntax-and-more",
        "columns-are-characters",
        "warm-up-larger-than-corpus",
    ];
    let validator = jsonschema::draft202012::new(&schema()).unwrap();
    for case in cases("invalid") {
        let name = case.file_stem().unwrap().to_str().unwrap();
        if !BEYOND.contains(&name) {
            let json = json_of(&fs::read_to_string(&case).unwrap());
            assert!(!validator.is_valid(&json), "{name}");
        }
    }
}

#[test]
fn every_default_of_the_schema_is_valid_itself() {
    fn defaults(schema: &serde_json::Value, path: &str, seen: &mut usize) {
        if let Some(default) = schema.get("default") {
            *seen += 1;
            let validator = jsonschema::draft202012::new(schema).unwrap();
            assert!(validator.is_valid(default), "{path}: {default}");
        }
        match schema {
            serde_json::Value::Object(map) => {
                map.iter().for_each(|(name, inner)| defaults(inner, &format!("{path}/{name}"), seen));
            }
            serde_json::Value::Array(list) => list.iter().for_each(|inner| defaults(inner, path, seen)),
            _ => {}
        }
    }
    let mut seen = 0;
    defaults(&schema(), "", &mut seen);
    assert!(seen >= 20, "{seen} defaults");
}
