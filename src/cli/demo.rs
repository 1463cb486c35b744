//! `aforo demo`: the whole job on the receipts that ship with aforo, against the simulated engine.

use std::path::{Path, PathBuf};

use super::exit::{CliError, Exit};
use super::run;
use super::{DemoArgs, ProtocolArgs};
use crate::run::folder::{FolderError, write_atomically};

/// The sample, as it is in `sample-protocols/receipts`.
const SAMPLE: [(&str, &[u8]); 3] = [
    ("protocol.toml", include_bytes!("../../sample-protocols/receipts/protocol.toml")),
    ("documents.jsonl", include_bytes!("../../sample-protocols/receipts/documents.jsonl")),
    ("references.jsonl", include_bytes!("../../sample-protocols/receipts/references.jsonl")),
];

pub(super) fn execute(args: DemoArgs) -> Result<Exit, CliError> {
    let protocol = unpack(&args.output.runs)?;
    run::take(&ProtocolArgs { protocol, overrides: args.overrides }, &args.output, true)
}

/// Writes the sample where a person can read and copy it.
pub(super) fn unpack(runs: &Path) -> Result<PathBuf, CliError> {
    let folder = runs.join(".samples").join("receipts");
    std::fs::create_dir_all(&folder)
        .map_err(|source| CliError::failed(FolderError { path: folder.clone(), source }))?;
    for (name, bytes) in SAMPLE {
        write_atomically(&folder.join(name), bytes).map_err(CliError::failed)?;
    }
    Ok(folder.join("protocol.toml"))
}
