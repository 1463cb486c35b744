//! What commands print: for programs on standard output, for people with words that are defined.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use std::collections::BTreeSet;

use serde_json::Value;
use support::stub::{self, Reply};
use support::{CsvRow, Workplace};

/// A cell as JSON has it.
fn of_csv(cell: &str) -> Value {
    match cell {
        "" => Value::Null,
        "true" | "false" => (cell == "true").into(),
        _ => cell
            .parse::<u64>()
            .map(Value::from)
            .or_else(|_| cell.parse::<f64>().map(Value::from))
            .unwrap_or(cell.into()),
    }
}

fn same(json: &Value, csv: &CsvRow) {
    let json = json.as_object().unwrap();
    assert_eq!(json.len(), csv.len());
    for (column, value) in json {
        let cell = of_csv(&csv[column]);
        let equal = match (value.as_f64(), cell.as_f64()) {
            (Some(value), Some(cell)) => value.total_cmp(&cell).is_eq(),
            _ => *value == cell,
        };
        assert!(equal, "{column}: {value} in JSON, {:?} in CSV", csv[column]);
    }
}

#[test]
fn json_parses_and_holds_the_numbers_of_results_csv() {
    let place = Workplace::new(20);
    place.append("[[sweep]]\nparameter = \"concurrency\"\nvalues = [4]");
    let mut arguments =
        Workplace::run_arguments(&["measure.repetitions=2", "engine.simulated.error_rate=0.1"]);
    arguments.push("--json");
    let said = place.aforo(&arguments);
    let result: Value = serde_json::from_str(&said.out).unwrap();
    let rows = place.run_folder().csv();
    let passes = result["passes"].as_array().unwrap();
    assert_eq!((passes.len(), rows.len()), (4, 4));
    for (json, csv) in passes.iter().zip(&rows) {
        same(json, csv);
    }
    assert_eq!((result["end"].as_str(), result["simulated"].as_bool()), (Some("done"), Some(true)));
    assert_eq!((result["documents"].as_u64(), result["threshold"].as_f64()), (Some(20), Some(0.75)));
    let steps = result["steps"].as_array().unwrap();
    assert_eq!(
        steps[0]["accepted_share"]["max"],
        of_csv(rows[0]["accepted_share"].as_str().max(&rows[1]["accepted_share"]))
    );
    assert_eq!(steps[0]["accepted_share"]["n"], 2);
    assert!(steps[0]["first_token_p90_s"].is_null(), "20 requests do not carry a 90th percentile");
}

#[test]
fn f64_nothing_that_is_no_number_is_written() {
    // Nothing is accepted and no engine counts anything: every ratio is 0/0 or unknown.
    let url = stub::start(|asked| match asked.path.as_str() {
        "/v1/models" => stub::models("m"),
        "/metrics" => Reply::Text(
            200,
            "text/plain",
            "vllm:num_requests_running NaN\nvllm:kv_cache_usage_perc +Inf\n".to_owned(),
        ),
        "/v1/chat/completions" if asked.number == 0 => Reply::Answer(String::new(), "stop"),
        "/v1/chat/completions" => Reply::Page(500, Value::Null),
        _ => Reply::Page(404, Value::Null),
    });
    let place = Workplace::with_server(4, &url);
    let mut arguments = Workplace::run_arguments(&[]);
    arguments.push("--json");
    let said = place.aforo(&arguments).expect(3);
    let result: Value = serde_json::from_str(&said.out).unwrap();
    same(&result["passes"][0], &place.run_folder().csv()[0]);
    let text = String::from_utf8(place.run_folder().csv_bytes()).unwrap() + &said.out;
    for no_number in ["NaN", "nan", "inf"] {
        let found = text.split([',', '\n', ' ']).any(|word| word.trim_start_matches(['-', '+']) == no_number);
        assert!(!found, "{no_number} in {text}");
    }
}

#[test]
fn i10_i11_text_from_outside_makes_no_formula_and_breaks_no_line() {
    let url = stub::start(|asked| match asked.path.as_str() {
        "/v1/models" => Reply::Page(
            200,
            serde_json::json!({ "data": [{ "id": "=cmd|' /C calc'!A0", "owned_by": "@SUM(1)\n+2" }] }),
        ),
        "/version" => Reply::Page(200, serde_json::json!({ "version": "-1+1\r\n=2" })),
        "/v1/chat/completions" => Reply::Answer(stub::right_answer(&asked.user()), "stop"),
        _ => Reply::Page(404, Value::Null),
    });
    let place = Workplace::with_server(6, &url);
    let documents =
        std::fs::read_to_string(place.path("documents.jsonl")).unwrap().replace("doc-0", "=1+1\\n-");
    let references =
        std::fs::read_to_string(place.path("references.jsonl")).unwrap().replace("doc-0", "=1+1\\n-");
    place.write("documents.jsonl", &documents);
    place.write("references.jsonl", &references);
    let said = place.run(&[]);
    let said = if said.code == Some(2) {
        // Such ids are refused, which is as good: they are taken back for the rest.
        assert!(said.err.contains("documents.jsonl"), "{}", said.err);
        place.write("documents.jsonl", &documents.replace("=1+1\\n-", "=1+1"));
        place.write("references.jsonl", &references.replace("=1+1\\n-", "=1+1"));
        place.run(&[])
    } else {
        said
    };
    let said = said.expect(0);
    assert!(!said.err.contains('\r') && !said.out.contains('\r'));
    let text = String::from_utf8(place.run_folder().csv_bytes()).unwrap();
    assert_eq!(text.lines().count(), 2, "a header and one pass");
    for row in place.run_folder().csv() {
        for (column, cell) in row {
            assert!(!cell.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']), "{column} is {cell:?}");
        }
    }
}

#[test]
fn j09_columns_defines_each_column_of_results_csv_in_its_order() {
    let place = Workplace::new(12);
    place.run(&[]).expect(0);
    let header = String::from_utf8(place.run_folder().csv_bytes()).unwrap();
    let header: Vec<_> = header.lines().next().unwrap().split(',').map(str::to_owned).collect();

    let said = place.aforo(&["columns", "--json"]).expect(0);
    let columns: Value = serde_json::from_str(&said.out).unwrap();
    let columns = columns.as_array().unwrap();
    let names: Vec<_> = columns.iter().map(|column| column["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names, header);
    for column in columns {
        assert!(column["definition"].as_str().is_some_and(|text| text.len() > 15), "{column}");
        assert!(column["source"].as_str().is_some_and(|text| !text.is_empty()), "{column}");
        let name = column["name"].as_str().unwrap();
        if name.ends_with("_s") && !name.ends_with("per_s") {
            assert_eq!(column["unit"], "s", "{name}");
        }
    }

    let said = place.aforo(&["columns"]).expect(0);
    let defined: BTreeSet<_> = said
        .out
        .lines()
        .filter(|line| !line.starts_with(' '))
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .collect();
    assert!(header.iter().all(|name| defined.contains(name)), "{defined:?}");
}

#[test]
fn the_protocol_schema_is_a_schema_and_the_sample_protocols_follow_it() {
    let place = Workplace::new(12);
    let said = place.aforo(&["schema", "protocol"]).expect(0);
    let schema: Value = serde_json::from_str(&said.out).unwrap();
    jsonschema::meta::validate(&schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let protocol = std::fs::read_to_string(place.path("protocol.toml")).unwrap();
    let protocol: Value = toml_edit::de::from_str(&protocol).unwrap();
    validator.validate(&protocol).unwrap();
    assert!(!validator.is_valid(&serde_json::json!({ "name": 1 })));
}

#[test]
fn check_says_what_a_run_will_take_and_sends_nothing() {
    let place = Workplace::with_server(20, "http://127.0.0.1:9/v1");
    place.append("[[sweep]]\nparameter = \"concurrency\"\nvalues = [2, 4]");
    let said = place.aforo(&["check", "protocol.toml", "--set", "measure.repetitions=3"]).expect(0);
    assert!(said.out.contains("20 documents, 3 steps, 9 passes, 207 requests"), "{}", said.out);
    assert!(said.out.contains("concurrency 4"), "{}", said.out);
    assert!(!place.path("aforo-runs").exists());
}

#[test]
fn f48_progress_says_counts_rate_and_what_is_left() {
    let place = Workplace::new(30);
    let said = place.run(&["engine.simulated.iteration=25ms", "measure.warm_up.documents=1"]).expect(0);
    let progress =
        said.err.lines().find(|line| line.contains(" ended · ")).expect("a line while the pass goes on");
    for part in ["/30 ended", "accepted", "1 in flight", "s left in this pass"] {
        assert!(progress.contains(part), "{progress}");
    }
    assert!(said.err.contains("step 1/1 · baseline · pass 1 · 30 documents"), "{}", said.err);
}

#[test]
fn help_of_each_command() {
    let place = Workplace::new(6);
    let help = |arguments: &[&str]| {
        let said = place.aforo(arguments).expect(0).out;
        let said = said.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        insta::with_settings!({ snapshot_path => "snapshots", prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!(format!("help-{}", arguments[0].trim_start_matches('-')), said);
        });
    };
    help(&["--help"]);
    for command in ["run", "demo", "check", "score", "simulate", "schema", "columns"] {
        help(&[command, "--help"]);
    }
}
