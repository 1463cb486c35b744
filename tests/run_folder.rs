//! What a run leaves behind: a complete folder that says the same however it is read.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use aforo::measure::Phase;
use aforo::protocol::{fingerprint, read};
use aforo::run::event::{Event, PassEnd, RunEnd};
use aforo::run::outputs::OutputLine;
use serde_json::Value;
use support::{RunFiles, Workplace, count, id};

const SWEEP: &str = "[[sweep]]\nparameter = \"concurrency\"\nvalues = [4]";
const MIXED: [&str; 4] = [
    "engine.simulated.wrong_rate=0.15",
    "engine.simulated.broken_rate=0.1",
    "engine.simulated.error_rate=0.1",
    "measure.repetitions=2",
];

fn mixed_run() -> (Workplace, RunFiles) {
    let place = Workplace::new(24);
    place.append(SWEEP);
    let said = place.run(&MIXED);
    assert!(matches!(said.code, Some(0 | 3)), "{said:?}");
    let folder = place.run_folder();
    (place, folder)
}

#[test]
fn the_folder_is_complete_and_its_owners_alone() {
    let (_place, folder) = mixed_run();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder.path), 0o700);
    assert_eq!(mode(&folder.path.join("outputs")), 0o700);
    let names: BTreeSet<_> = fs::read_dir(&folder.path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let expected = [
        "aforo.log",
        "journal.jsonl",
        "machine.json",
        "outputs",
        "protocol.toml",
        "results.csv",
        "runner.lock",
    ];
    assert_eq!(names, expected.map(str::to_owned).into());
    for file in expected.iter().filter(|name| **name != "outputs") {
        assert_eq!(mode(&folder.path.join(file)), 0o600, "{file}");
    }
    let outputs: Vec<_> = folder.outputs();
    let names: Vec<_> = outputs.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    let expected =
        ["step-01-pass-1.jsonl", "step-01-pass-2.jsonl", "step-02-pass-1.jsonl", "step-02-pass-2.jsonl"];
    assert_eq!(names, expected);
    assert!(outputs.iter().all(|path| mode(path) == 0o600));
    let machine: Value =
        serde_json::from_slice(&fs::read(folder.path.join("machine.json")).unwrap()).unwrap();
    assert!(machine["kernel"].as_str().unwrap().starts_with("Linux"));
    assert!(machine["cores"].as_u64().unwrap() >= 1 && machine["memory_bytes"].as_u64().unwrap() > 0);
    assert_eq!(fs::read_to_string(folder.path.join("aforo.log")).unwrap(), "");
}

#[test]
fn every_document_has_one_line_in_each_outputs_file_and_one_in_the_journal() {
    let (_place, folder) = mixed_run();
    let expected: BTreeSet<_> = (0..24).map(id).collect();
    for path in folder.outputs() {
        let documents: Vec<_> = RunFiles::json_lines(&path)
            .into_iter()
            .map(|line| serde_json::from_value::<OutputLine>(line).unwrap().document)
            .collect();
        assert_eq!(documents.len(), 24);
        assert_eq!(documents.into_iter().collect::<BTreeSet<_>>(), expected, "{}", path.display());
    }
    for step in &folder.state().steps {
        assert_eq!(step.passes.len(), 2);
        for pass in &step.passes {
            assert_eq!(pass.end, Some(PassEnd::Complete));
            let documents: Vec<_> = pass.requests.iter().map(|request| request.document.clone()).collect();
            assert_eq!(documents.len(), 24);
            assert_eq!(documents.into_iter().collect::<BTreeSet<_>>(), expected);
        }
    }
    for row in folder.csv() {
        assert_eq!(count(&row, "ids_recovered") + count(&row, "failed_engine"), 24);
        assert!(count(&row, "failed_engine") > 0, "the faults never happened");
    }
}

#[test]
fn the_journal_alone_gives_results_csv_byte_by_byte() {
    let (_place, folder) = mixed_run();
    let journal = folder.journal();
    assert!(!journal.torn);
    assert_eq!(folder.csv_of_journal(), folder.csv_bytes());
    let state = folder.state();
    assert_eq!(state.end, Some(RunEnd::Done));
    assert_eq!(state.next_seq, journal.lines.len() as u64);
    assert!(matches!(journal.lines[0].event, Event::RunStarted(_)));
    assert!(matches!(journal.lines.last().unwrap().event, Event::RunEnded { .. }));
    assert!(journal.lines.windows(2).all(|pair| pair[0].clock <= pair[1].clock));
}

#[test]
fn the_frozen_protocol_reads_again_to_the_same_fingerprint() {
    let (_place, folder) = mixed_run();
    let frozen = read(&folder.path.join("protocol.toml"), &[]).unwrap();
    let corpus = frozen.protocol.load_corpus().unwrap();
    let started = folder.state().started.unwrap();
    assert_eq!(fingerprint(&frozen.protocol, &corpus).to_string(), started.fingerprint);
    assert_eq!(frozen.protocol.measure.repetitions, 2, "--set is part of the frozen text");
    assert_eq!(aforo::run::plan::steps(&frozen.protocol), started.steps);
}

/// Verdict by document, as JSON.
type Verdicts = BTreeMap<String, Value>;

fn scored(place: &Workplace, outputs: &Path, more: &[&str]) -> (Value, Verdicts) {
    let outputs = outputs.to_str().unwrap();
    let mut arguments = vec!["score", "--json", "--protocol", "protocol.toml", "--outputs", outputs];
    arguments.extend(more);
    let said = place.aforo(&arguments);
    assert!(matches!(said.code, Some(0 | 3)), "{said:?}");
    let score: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(said.code == Some(0), score["quality_met"].as_bool().unwrap());
    let verdicts = score["verdicts"].as_array().unwrap().iter();
    let verdicts = verdicts
        .map(|v| (v["document"].as_str().unwrap().to_owned(), v["judgement"]["verdict"].clone()))
        .collect();
    (score, verdicts)
}

#[test]
fn score_gives_the_verdicts_of_the_journal_for_outputs_and_for_their_batch_form() {
    let (place, folder) = mixed_run();
    let state = folder.state();
    let passes = state.steps.iter().flat_map(|step| &step.passes);
    for (path, pass) in folder.outputs().iter().zip(passes) {
        let journal: Verdicts = pass
            .requests
            .iter()
            .map(|request| (request.document.clone(), serde_json::to_value(&request.verdict).unwrap()))
            .collect();
        let (score, verdicts) = scored(&place, path, &["--to-batch", "batch.jsonl"]);
        assert_eq!(verdicts, journal);
        assert_eq!(score["accepted"], pass.requests.iter().filter(|request| request.accepted()).count());
        assert_eq!((score["expected"].as_u64(), score["duplicates"].as_u64()), (Some(24), Some(0)));

        let batch = place.path("batch.jsonl");
        let (again, verdicts) = scored(&place, &batch, &[]);
        assert_eq!(verdicts, journal, "through the batch format");
        assert_eq!(again["failed"], score["failed"]);
        for line in RunFiles::json_lines(&batch) {
            let keys: Vec<_> = line.as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(keys, ["custom_id", "response", "error"]);
            assert!(line["response"].is_null() != line["error"].is_null(), "{line}");
            let usage = &line["response"]["body"]["usage"];
            assert!(line["response"].is_null() || usage["prompt_tokens"].as_u64().unwrap() > 0, "{line}");
        }
    }
}

#[test]
fn a_recorded_batch_file_of_vllm_is_scored_with_its_duplicate_and_its_refusal() {
    let place = Workplace::new(1);
    let corpus = |ids: &[&str]| {
        let lines = |rest: &str| {
            let lines: Vec<_> = ids.iter().map(|id| format!("{{\"id\":\"{id}\",{rest}}}\n")).collect();
            lines.concat()
        };
        place.write("documents.jsonl", &lines("\"text\":\"a\""));
        place.write("references.jsonl", &lines("\"amount\":\"1\",\"shop\":\"s\""));
    };
    corpus(&["doc-1", "doc-2", "doc-3", "doc-4"]);
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/vllm-run-batch-out.jsonl");
    let (score, verdicts) = scored(&place, &recorded, &[]);
    assert_eq!(score["duplicates"], 1);
    assert_eq!(score["with_output"], 3);
    assert_eq!(score["failed"]["rejected"], 1);
    assert_eq!(verdicts["doc-3"]["failed"]["reason"], "rejected");
    let detail = verdicts["doc-3"]["failed"]["detail"].as_str().unwrap();
    assert!(detail.contains("status 400") && detail.contains("max_tokens"), "{detail}");
    assert_eq!(verdicts["doc-1"]["failed"]["reason"], "truncated");
    assert!(!verdicts.contains_key("doc-4"));

    corpus(&["doc-1", "other-1", "other-2"]);
    let (score, _) = scored(&place, &recorded, &[]);
    assert_eq!(score["strangers"], 2, "outputs of documents that the corpus does not have");
}

#[test]
fn warm_up_and_probe_are_in_the_journal_and_in_no_figure() {
    let place = Workplace::new(20);
    place.run(&["measure.warm_up.documents=7"]).expect(0);
    let folder = place.run_folder();
    let phases: Vec<_> = folder
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::Request { request, .. } => Some(request.phase),
            _ => None,
        })
        .collect();
    let of = |phase| phases.iter().filter(|p| **p == phase).count();
    assert_eq!((of(Phase::Probe), of(Phase::WarmUp), of(Phase::Measurement)), (1, 7, 20));
    let row = &folder.csv()[0];
    assert_eq!((count(row, "sent"), count(row, "warm_up_sent"), count(row, "first_token_n")), (20, 7, 20));
    assert_eq!(count(row, "engine_requests"), 20, "the engine's counters cover the measurement alone");
    assert_eq!(RunFiles::json_lines(&folder.outputs()[0]).len(), 20);
    let state = folder.state();
    let pass = &state.steps[0].passes[0];
    let first = pass.requests.iter().filter_map(|request| request.times.sent).min().unwrap();
    assert!(
        pass.warm_up.iter().all(|request| request.times.end <= first),
        "the measurement waits for the warm-up"
    );
}
