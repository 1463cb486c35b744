//! `aforo schema`: formats as JSON Schema.

use super::SchemaFormat;
use super::exit::{CliError, Exit};
use super::print::print;
use crate::protocol;
use crate::run::journal;

pub(super) fn execute(format: SchemaFormat) -> Result<Exit, CliError> {
    match format {
        SchemaFormat::Protocol => print(&format!("{:#}\n", protocol::schema()))?,
        SchemaFormat::Journal => print(journal::SCHEMA_JSON)?,
    }
    Ok(Exit::Done)
}
