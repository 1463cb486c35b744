//! Where rows go: CSV and JSON.

use serde_json::{Map, Value, json};

use super::columns::COLUMNS;
use super::row::Row;
use super::step::StepSummary;
use crate::run::decision::Choice;
use crate::run::event::RunEnd;
use crate::run::state::{Decided, State};

/// Rows cannot be written as CSV.
#[derive(Debug, thiserror::Error)]
#[error("the results cannot be written as CSV: {0}")]
pub struct CsvError(String);

/// `results.csv`: a header and one line per pass.
pub fn csv(rows: &[Row<'_>]) -> Result<Vec<u8>, CsvError> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer
        .write_record(COLUMNS.iter().map(|column| column.name))
        .map_err(|error| CsvError(error.to_string()))?;
    for row in rows {
        let cells = COLUMNS.iter().map(|column| (column.cell)(row).csv());
        writer.write_record(cells).map_err(|error| CsvError(error.to_string()))?;
    }
    writer.into_inner().map_err(|error| CsvError(error.to_string()))
}

/// A row as a JSON object, a key per column.
pub fn row_json(row: &Row<'_>) -> Value {
    COLUMNS
        .iter()
        .map(|column| (column.name.to_owned(), (column.cell)(row).json()))
        .collect::<Map<_, _>>()
        .into()
}

fn decision(decided: &Decided) -> Value {
    let (parameter, value) = match decided.choice {
        Choice::Set { parameter, value } => (Some(parameter.word()), Some(value)),
        _ => (None, None),
    };
    json!({
        "at": decided.at,
        "step": decided.step + 1,
        "choice": decided.choice.word(),
        "parameter": parameter,
        "value": value,
        "who": decided.who,
        "reason": decided.reason,
    })
}

/// The whole result of a run as JSON.
pub fn json(state: &State, rows: &[Row<'_>], steps: &[StepSummary<'_>]) -> Value {
    let started = state.started.as_ref();
    let end = match &state.end {
        Some(RunEnd::Done) => "done",
        Some(RunEnd::Stopped) => "stopped",
        Some(RunEnd::Failed { .. }) => "failed",
        None => "interrupted",
    };
    json!({
        "run": started.map(|s| &s.run),
        "protocol": started.map(|s| &s.protocol),
        "fingerprint": started.map(|s| &s.fingerprint),
        "model": started.map(|s| &s.model),
        "engine": state.engine.as_ref().and_then(|e| e.found.engine.as_ref()),
        "simulated": state.simulated(),
        "documents": started.map(|s| s.documents),
        "threshold": started.map(|s| s.threshold),
        "end": end,
        "why": match &state.end {
            Some(RunEnd::Failed { why }) => Some(why),
            _ => None,
        },
        "resumptions": state.resumptions,
        "decisions": state.decisions.iter().map(decision).collect::<Vec<_>>(),
        "cautions": state.cautions,
        "steps": steps.iter().map(StepSummary::json).collect::<Vec<_>>(),
        "passes": rows.iter().map(row_json).collect::<Vec<_>>(),
    })
}
