//! `aforo columns`: the data dictionary of `results.csv`.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::ColumnsArgs;
use super::exit::{CliError, Exit};
use super::print::print;
use crate::results::columns::COLUMNS;

pub(super) fn execute(args: &ColumnsArgs) -> Result<Exit, CliError> {
    if args.json {
        let columns: Value = COLUMNS
            .iter()
            .map(
                |c| json!({ "name": c.name, "unit": c.unit, "source": c.source, "definition": c.definition }),
            )
            .collect();
        print(&format!("{columns:#}\n"))?;
        return Ok(Exit::Done);
    }
    let mut text = "An empty cell is unknown; nothing missing is ever 0.\n\n".to_owned();
    for column in COLUMNS {
        let unit = if column.unit.is_empty() { String::new() } else { format!(" [{}]", column.unit) };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}{unit}\n    {} Source: {}.", column.name, column.definition, column.source);
    }
    print(&text)?;
    Ok(Exit::Done)
}
