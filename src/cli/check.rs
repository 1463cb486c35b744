//! `aforo check`: everything that can be known before anything is sent.

use std::fmt::Write as _;

use super::ProtocolArgs;
use super::exit::{CliError, Exit};
use super::print::print;
use super::protocol_file::{read_protocol, show_cautions};
use crate::run::plan;
use crate::terminal::safe::safe;

pub(super) fn execute(args: &ProtocolArgs) -> Result<Exit, CliError> {
    let frozen = read_protocol(&args.protocol, &args.overrides)?;
    let corpus = frozen.protocol.load_corpus().map_err(|error| CliError::WrongUse(error.to_string()))?;
    let fingerprint = crate::protocol::fingerprint(&frozen.protocol, &corpus);
    let steps = plan::steps(&frozen.protocol);
    show_cautions(&args.protocol, &frozen);
    let passes: u64 = steps.iter().map(|step| u64::from(step.repetitions)).sum();
    let documents = corpus.documents.len();
    let requests: u64 = steps
        .iter()
        .map(|step| {
            let warm_up = frozen.protocol.measure.warm_up_at(step.setting.concurrency, documents);
            u64::from(step.repetitions) * (documents + warm_up) as u64
        })
        .sum();
    let mut text = format!(
        "{} is good: {} documents, {} steps, {passes} passes, {requests} requests with warm-up\nfingerprint {fingerprint}\n",
        frozen.protocol.name,
        corpus.documents.len(),
        steps.len(),
    );
    for (number, step) in steps.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {:>3}  {}  × {}", number + 1, step.label, step.repetitions);
    }
    print(&safe(&text))?;
    Ok(Exit::Done)
}
