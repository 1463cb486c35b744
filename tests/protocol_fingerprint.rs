//! The fingerprint: each fixed input changes it, nothing else does.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use aforo::protocol::corpus::{Corpus, Document, Image, ImageFormat};
use aforo::protocol::{
    Api, Compare, DateOrder, Deadline, DeadlineFigure, DecimalMark, EngineKind, FieldRule, Fingerprint,
    Missing, Parameter, Parse, PrefixCache, Protocol, Reference, Server, Simulated, Sweep, Threshold, WarmUp,
    fingerprint, read,
};
use indexmap::indexmap;
use serde_json::json;
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

type Change = (&'static str, Box<dyn Fn(&mut Protocol, &mut Corpus)>);

fn protocol(case: &str) -> Protocol {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/protocols/valid").join(case);
    read(&path, &[]).unwrap().protocol
}

fn document(id: &str, text: &str, amount: &str) -> Document {
    let reference =
        Reference(indexmap! { "date".to_owned() => json!(null), "amount".to_owned() => json!(amount) });
    Document { id: id.to_owned(), text: text.to_owned(), images: Vec::new(), reference }
}

fn image(name: &str, first: u8) -> Image {
    let mut sha256 = [0; 32];
    sha256[0] = first;
    Image { path: name.into(), format: ImageFormat::Png, sha256 }
}

fn corpus() -> Corpus {
    let mut documents = vec![document("a", "one", "1.00"), document("b", "two", "2.00")];
    documents[0].images = vec![image("a.png", 1), image("b.png", 2)];
    documents.extend((0..10).map(|n| document(&format!("n{n}"), "more", "3.00")));
    Corpus { documents }
}

fn changed(base: &Protocol, change: &Change) -> Fingerprint {
    let (mut protocol, mut corpus) = (base.clone(), corpus());
    (change.1)(&mut protocol, &mut corpus);
    fingerprint(&protocol, &corpus)
}

fn change(name: &'static str, with: impl Fn(&mut Protocol, &mut Corpus) + 'static) -> Change {
    (name, Box::new(with))
}

fn server(protocol: &mut Protocol) -> &mut Server {
    let EngineKind::OpenAi(server) = &mut protocol.engine.kind else { panic!("not a server") };
    server
}

fn simulated(protocol: &mut Protocol) -> &mut Simulated {
    let EngineKind::Simulated(simulated) = &mut protocol.engine.kind else { panic!("not simulated") };
    simulated
}

fn compare(field: &'static str, with: Compare) -> impl Fn(&mut Protocol, &mut Corpus) {
    move |p, _| p.quality.fields[field].compare = with.clone()
}

fn text(fold_case: bool, fold_accents: bool, fold_spaces: bool) -> Compare {
    Compare::Text { fold_case, fold_accents, fold_spaces }
}

/// Checks that the changes give fingerprints that differ from the base and from each other.
fn all_differ(base: &Protocol, changes: &[Change]) {
    let mut seen = HashMap::from([(fingerprint(base, &corpus()), "nothing")]);
    for change in changes {
        if let Some(before) = seen.insert(changed(base, change), change.0) {
            panic!("`{}` gives the fingerprint of `{before}`", change.0);
        }
    }
}

fn none_differs(base: &Protocol, changes: &[Change]) {
    for change in changes {
        assert_eq!(changed(base, change), fingerprint(base, &corpus()), "{}", change.0);
    }
}

#[test]
fn each_part_of_the_corpus_and_the_prompt_changes_it() {
    all_differ(
        &protocol("design.toml"),
        &[
            change("an id", |_, c| c.documents[0].id = "A".into()),
            change("a text", |_, c| c.documents[0].text.push(' ')),
            change("text moved into the id", |_, c| {
                c.documents[0].id = "ao".into();
                c.documents[0].text = "ne".into();
            }),
            change("an image", |_, c| c.documents[0].images[1].sha256[31] = 1),
            change("the order of images", |_, c| c.documents[0].images.swap(0, 1)),
            change("an image less", |_, c| c.documents[0].images.truncate(1)),
            change("an image moved to the next document", |_, c| {
                let moved = c.documents[0].images.pop().unwrap();
                c.documents[1].images.push(moved);
            }),
            change("a reference value", |_, c| c.documents[0].reference.0["amount"] = json!("1.01")),
            change("text for a number", |_, c| c.documents[0].reference.0["amount"] = json!(1.0)),
            change("null for absent", |_, c| drop(c.documents[0].reference.0.shift_remove("date"))),
            change("a document less", |_, c| drop(c.documents.pop())),
            change("the order of documents", |_, c| c.documents.swap(0, 1)),
            change("prompt.system", |p, _| p.prompt.system = Some("x".into())),
            change("prompt.system away", |p, _| p.prompt.system = None),
            change("prompt.system empty", |p, _| p.prompt.system = Some(String::new())),
            change("prompt.user", |p, _| p.prompt.user.push('.')),
        ],
    );
}

#[test]
fn generation_model_and_timer_scope_change_it() {
    all_differ(
        &protocol("design.toml"),
        &[
            change("max_tokens", |p, _| p.generation.max_tokens += 1),
            change("temperature", |p, _| p.generation.temperature = Some(f64::from_bits(1))),
            change("temperature away", |p, _| p.generation.temperature = None),
            change("seed", |p, _| p.generation.seed = Some(8)),
            change("seed away", |p, _| p.generation.seed = None),
            change("extra", |p, _| drop(p.generation.extra.insert("top_k".into(), json!(1)))),
            change("extra, other value", |p, _| drop(p.generation.extra.insert("top_k".into(), json!([1])))),
            change("api", |p, _| server(p).api = Api::Completions),
            change("model", |p, _| server(p).model.push('x')),
            change("kind", |p, _| p.engine.kind = protocol("minimal.toml").engine.kind),
            change("revision", |p, _| p.engine.revision = Some("x".into())),
            change("tokenizer", |p, _| p.engine.tokenizer = Some("x".into())),
            change("precision", |p, _| p.engine.precision = Some("x".into())),
            change("warm_up", |p, _| p.measure.warm_up = WarmUp::Documents(7)),
            change("timeout", |p, _| p.measure.timeout += Duration::from_nanos(1)),
            change("chunk_timeout", |p, _| p.measure.chunk_timeout += Duration::from_nanos(1)),
            change("prefix_cache", |p, _| p.measure.prefix_cache = PrefixCache::AsIs),
        ],
    );
}

#[test]
fn the_quality_rule_changes_it() {
    let field = FieldRule { compare: Compare::Integer, missing: Missing::Wrong };
    let date = |order| Compare::Date { order };
    let decimal = |tolerance: &str, mark| Compare::Decimal { tolerance: tolerance.parse().unwrap(), mark };
    let choice = |labels: &[&str]| Parse::Choice(labels.iter().map(ToString::to_string).collect());
    let (ab, a_b, ba) = (choice(&["a b"]), choice(&["a", "b"]), choice(&["b", "a"]));
    all_differ(
        &protocol("design.toml"),
        &[
            change("parse text", |p, _| p.quality.parse = Parse::Text),
            change("parse regex", |p, _| p.quality.parse = Parse::Regex("(?P<a>.)".parse().unwrap())),
            change("another pattern", |p, _| p.quality.parse = Parse::Regex("(?P<b>.)".parse().unwrap())),
            change("one choice", move |p, _| p.quality.parse = ab.clone()),
            change("two choices", move |p, _| p.quality.parse = a_b.clone()),
            change("other order of choices", move |p, _| p.quality.parse = ba.clone()),
            change("threshold", |p, _| p.quality.threshold = Threshold::new(0.9 + f64::EPSILON).unwrap()),
            change("a field more", move |p, _| {
                p.quality.fields.insert("count".into(), field.clone());
            }),
            change("a field less", |p, _| {
                p.quality.fields.shift_remove("category");
            }),
            change("missing", |p, _| p.quality.fields["date"].missing = Missing::NullMatchesNull),
            change("date order", compare("date", date(Some(DateOrder::DayFirst)))),
            change("other date order", compare("date", date(Some(DateOrder::MonthFirst)))),
            change("tolerance", compare("amount", decimal("0.01", None))),
            change("point", compare("amount", decimal("0", Some(DecimalMark::Point)))),
            change("comma", compare("amount", decimal("0", Some(DecimalMark::Comma)))),
            change("integer", compare("amount", Compare::Integer)),
            change("fold nothing", compare("category", text(false, false, false))),
            change("fold accents", compare("category", text(false, true, false))),
            change("fold spaces", compare("category", text(false, false, true))),
            change("set", compare("category", Compare::Set { fold_case: false, fold_accents: false })),
            change("set, case", compare("category", Compare::Set { fold_case: true, fold_accents: false })),
            change(
                "set, accents",
                compare("category", Compare::Set { fold_case: false, fold_accents: true }),
            ),
        ],
    );
}

#[test]
fn the_answers_of_the_simulated_engine_change_it_and_its_speed_does_not() {
    let base = protocol("minimal.toml");
    all_differ(
        &base,
        &[
            change("seed", |p, _| simulated(p).seed = 8),
            change("wrong_rate", |p, _| simulated(p).wrong_rate = 0.5),
            change("broken_rate", |p, _| simulated(p).broken_rate = 0.5),
            change("error_rate", |p, _| simulated(p).error_rate = 0.5),
        ],
    );
    none_differs(
        &base,
        &[
            change("slots", |p, _| simulated(p).slots = 1),
            change("kv_tokens", |p, _| simulated(p).kv_tokens = 99),
            change("context", |p, _| simulated(p).context = 99),
            change("prefill", |p, _| simulated(p).prefill_tokens_per_second = 1.0),
            change("iteration", |p, _| simulated(p).iteration = Duration::from_secs(1)),
            change("iteration_per_sequence", |p, _| {
                simulated(p).iteration_per_sequence = Duration::from_secs(1);
            }),
            change("tokens_per_event", |p, _| simulated(p).tokens_per_event = 9),
            change("prefix_cache", |p, _| simulated(p).prefix_cache = false),
        ],
    );
}

#[test]
fn nothing_else_changes_it() {
    none_differs(
        &protocol("design.toml"),
        &[
            change("name", |p, _| p.name = "other".into()),
            change("purpose", |p, _| p.purpose = None),
            change("paths", |p, _| {
                p.corpus.documents = "elsewhere.csv".into();
                p.corpus.references = "elsewhere.csv".into();
            }),
            change("expect", |p, _| p.corpus.expect = None),
            change("base_url", |p, _| server(p).base_url = "https://other/v1".into()),
            change("metrics_url", |p, _| server(p).metrics_url = None),
            change("api_key_env", |p, _| server(p).api_key_env = None),
            change("repetitions", |p, _| p.measure.repetitions = 1),
            change("baseline", |p, _| p.baseline.concurrency = 2),
            change("sweeps", |p, _| {
                p.sweeps = vec![Sweep { parameter: Parameter::Concurrency, values: vec![3] }];
            }),
            change("objective", |p, _| {
                let limit = Duration::from_secs(1);
                p.objective.deadlines =
                    vec![Deadline { figure: DeadlineFigure::FirstToken, percentile: 50, limit }];
            }),
            change("the same warm-up by default", |p, _| p.measure.warm_up = WarmUp::Usual),
            change("path of an image", |_, c| c.documents[0].images[0].path = "elsewhere.png".into()),
            change("order of the rule's fields", |p, _| p.quality.fields.reverse()),
            change("order of a reference's fields", |_, c| c.documents[0].reference.0.reverse()),
            change(
                "zeros at the end of the tolerance",
                compare("amount", Compare::Decimal { tolerance: "0.0000".parse().unwrap(), mark: None }),
            ),
        ],
    );
}

#[test]
fn the_order_of_keys_in_extra_fields_does_not_change_it() {
    let with = |text: &str| {
        let mut protocol = protocol("design.toml");
        protocol.generation.extra = serde_json::from_str(text).unwrap();
        fingerprint(&protocol, &corpus())
    };
    assert_eq!(
        with(r#"{"a": {"x": 1, "y": [1, 2]}, "b": 1}"#),
        with(r#"{"b": 1, "a": {"y": [1, 2], "x": 1}}"#)
    );
    assert_ne!(with(r#"{"a": {"y": [1, 2]}}"#), with(r#"{"a": {"y": [2, 1]}}"#));
}

/// A change of the canonical form makes old runs incomparable; it must be meant, and needs another version in it.
#[test]
fn the_form_is_stable() {
    // Computed from the description of the form, in another language.
    const EXPECTED: &str = "4123ae08fd1d4efbd3d5afabb77268b369d2cb1a56c70c349af70970e662d82a";
    let fingerprint = fingerprint(&protocol("design.toml"), &corpus());
    assert_eq!(fingerprint.as_str(), EXPECTED);
    assert_eq!(fingerprint.short(), &EXPECTED[..12]);
    let json = serde_json::to_string(&fingerprint).unwrap();
    assert_eq!(serde_json::from_str::<Fingerprint>(&json).unwrap(), fingerprint);
    assert!(serde_json::from_str::<Fingerprint>("\"12\"").is_err());
}
