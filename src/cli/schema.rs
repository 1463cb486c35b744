//! `aforo schema`: formats as JSON Schema.

use super::exit::{CliError, Exit};
use super::{SchemaFormat, run::print};
use crate::protocol;

pub(super) fn execute(format: SchemaFormat) -> Result<Exit, CliError> {
    let schema = match format {
        SchemaFormat::Protocol => protocol::schema(),
    };
    print(&format!("{schema:#}\n"))?;
    Ok(Exit::Done)
}
