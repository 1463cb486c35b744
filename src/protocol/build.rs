//! From the checked values to a [`Protocol`].

use super::keys::ROOT;
use super::tree::{Tree, Value};
use super::{
    Accept, Api, Compare, CorpusSource, DateOrder, Deadline, DeadlineFigure, DecimalMark, Engine, EngineKind,
    FieldRule, Generation, Measure, Missing, Objective, Parameter, Parse, PrefixCache, Prompt, Protocol,
    QualityRule, Server, Setting, Simulated, Sweep, Threshold, WarmUp,
};
use regex::Regex;
use std::path::Path;

/// The protocol, or `None` when a check before this one has refused a value that it needs.
///
/// `folder` is the absolute folder that paths are relative to; `user` the user message, read from its file if need be.
pub(super) fn protocol(tree: &Tree, folder: &Path, user: String) -> Option<Protocol> {
    let corpus = tree.table("corpus")?;
    let generation = tree.table("generation")?;
    let measure = tree.table("measure")?;
    Some(Protocol {
        name: tree.owned("name")?,
        purpose: tree.owned("purpose"),
        corpus: CorpusSource {
            documents: folder.join(corpus.text("documents")?),
            references: folder.join(corpus.text("references")?),
            expect: corpus.integer("expect"),
        },
        prompt: Prompt { system: tree.table("prompt")?.owned("system"), user },
        generation: Generation {
            max_tokens: generation.integer("max_tokens")?,
            temperature: generation.number("temperature"),
            seed: generation.integer("seed"),
            extra: generation.free("extra")?.clone(),
        },
        engine: engine(tree.table("engine")?)?,
        quality: quality(tree.table("quality")?)?,
        measure: Measure {
            warm_up: measure.table("warm_up")?.integer("documents").map_or(WarmUp::Usual, WarmUp::Documents),
            repetitions: measure.integer("repetitions")?,
            timeout: measure.duration("timeout")?,
            chunk_timeout: measure.duration("chunk_timeout")?,
            max_error_rate: measure.number("max_error_rate")?,
            prefix_cache: match measure.text("prefix_cache")? {
                "as-is" => PrefixCache::AsIs,
                _ => PrefixCache::Isolated,
            },
        },
        baseline: Setting { concurrency: tree.table("baseline")?.integer("concurrency")? },
        sweeps: tree.tables("sweep")?.iter().map(sweep).collect::<Option<_>>()?,
        objective: objective(tree.table("objective")?),
    })
}

fn engine(tree: &Tree) -> Option<Engine> {
    let kind = match tree.text("kind")? {
        "simulated" => EngineKind::Simulated(Box::new(simulated(tree.table("simulated")?)?)),
        _ => EngineKind::OpenAi(Server {
            base_url: tree.owned("base_url")?,
            api: match tree.text("api")? {
                "completions" => Api::Completions,
                _ => Api::Chat,
            },
            model: tree.owned("model")?,
            api_key_env: tree.owned("api_key_env"),
            metrics_url: tree.owned("metrics_url"),
        }),
    };
    Some(Engine {
        kind,
        revision: tree.owned("revision"),
        tokenizer: tree.owned("tokenizer"),
        precision: tree.owned("precision"),
    })
}

fn simulated(tree: &Tree) -> Option<Simulated> {
    Some(Simulated {
        seed: tree.integer("seed")?,
        wrong_rate: tree.number("wrong_rate")?,
        broken_rate: tree.number("broken_rate")?,
        error_rate: tree.number("error_rate")?,
        slots: tree.integer("slots")?,
        kv_tokens: tree.integer("kv_tokens")?,
        context: tree.integer("context")?,
        prefill_tokens_per_second: tree.number("prefill_tokens_per_second")?,
        iteration: tree.duration("iteration")?,
        iteration_per_sequence: tree.duration("iteration_per_sequence")?,
        tokens_per_event: tree.integer("tokens_per_event")?,
        prefix_cache: tree.boolean("prefix_cache")?,
    })
}

fn quality(tree: &Tree) -> Option<QualityRule> {
    let parse = match tree.text("parse")? {
        "text" => Parse::Text,
        "regex" => Parse::Regex(Regex::new(tree.text("pattern")?).ok()?),
        "choice" => Parse::Choice(texts(tree.list("choices")?)),
        _ => Parse::Json,
    };
    let fields = tree.named("fields")?.iter().map(|(name, field)| Some((name.clone(), field_rule(field)?)));
    Some(QualityRule {
        parse,
        accept: Accept::AllFields,
        threshold: Threshold::new(tree.number("threshold")?)?,
        fields: fields.collect::<Option<_>>()?,
    })
}

/// The texts of a list of texts.
pub(super) fn texts(list: &[Value]) -> Vec<String> {
    list.iter()
        .filter_map(|value| if let Value::Text(text) = value { Some(text.clone()) } else { None })
        .collect()
}

fn field_rule(tree: &Tree) -> Option<FieldRule> {
    let compare = match tree.text("compare")? {
        "date" => Compare::Date {
            order: tree.text("order").map(|order| match order {
                "month-first" => DateOrder::MonthFirst,
                _ => DateOrder::DayFirst,
            }),
        },
        "decimal" => Compare::Decimal {
            tolerance: tree.text("tolerance")?.parse().ok()?,
            mark: tree.text("mark").map(|mark| match mark {
                "comma" => DecimalMark::Comma,
                _ => DecimalMark::Point,
            }),
        },
        "integer" => Compare::Integer,
        "set" => Compare::Set {
            fold_case: tree.boolean("fold_case")?,
            fold_accents: tree.boolean("fold_accents")?,
        },
        _ => Compare::Text {
            fold_case: tree.boolean("fold_case")?,
            fold_accents: tree.boolean("fold_accents")?,
            fold_spaces: tree.boolean("fold_spaces")?,
        },
    };
    let missing = match tree.text("missing")? {
        "null-matches-null" => Missing::NullMatchesNull,
        _ => Missing::Wrong,
    };
    Some(FieldRule { compare, missing })
}

fn sweep(tree: &Tree) -> Option<Sweep> {
    let values = tree.list("values")?.iter().map(|value| match value {
        Value::Integer(number) => u32::try_from(*number).ok(),
        _ => None,
    });
    match tree.text("parameter")? {
        "concurrency" => {
            Some(Sweep { parameter: Parameter::Concurrency, values: values.collect::<Option<_>>()? })
        }
        _ => None,
    }
}

fn objective(tree: &Tree) -> Objective {
    let names = ROOT.key("objective").into_iter().flat_map(|key| match &key.kind {
        super::keys::Kind::Table(table) => table.keys,
        _ => &[],
    });
    let deadline = |name: &str| {
        let (figure, percentile) = name.rsplit_once("_p")?;
        let figure = match figure {
            "first_token" => DeadlineFigure::FirstToken,
            _ => DeadlineFigure::WholeAnswer,
        };
        Some(Deadline { figure, percentile: percentile.parse().ok()?, limit: tree.duration(name)? })
    };
    Objective { deadlines: names.filter_map(|key| deadline(key.name)).collect() }
}
