//! `aforo simulate`: the simulated engine as a server, until a signal ends it.

use std::net::SocketAddr;

use super::exit::{CliError, Exit};
use super::foreground::runtime;
use super::print::print;
use super::protocol_file::read_protocol;
use super::{SimulateArgs, demo};
use crate::engine::simulated::{Answers, SimulatedEngine};
use crate::protocol::EngineKind;

pub(super) fn execute(args: &SimulateArgs) -> Result<Exit, CliError> {
    let path = match &args.protocol {
        Some(path) => path.clone(),
        None => demo::unpack(&args.runs)?,
    };
    let protocol = read_protocol(&path, &[])?.protocol;
    let EngineKind::Simulated(model) = &protocol.engine.kind else {
        let text =
            format!("{}: engine.kind is not \"simulated\", so there is nothing to simulate", path.display());
        return Err(CliError::WrongUse(text));
    };
    let corpus = protocol.load_corpus().map_err(|error| CliError::WrongUse(error.to_string()))?;
    let documents = corpus.documents.into_iter();
    let answers = Answers::new(documents.map(|d| (d.text, d.reference.0.into_iter().collect())));
    runtime()?.block_on(serve(model, answers, args.port))
}

async fn serve(model: &crate::protocol::Simulated, answers: Answers, port: u16) -> Result<Exit, CliError> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let engine = SimulatedEngine::start(model, answers, address).await.map_err(CliError::failed)?;
    print(&format!("READY {} model=simulated\n", engine.base_url()))?;
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .map_err(CliError::failed)?;
    tokio::select! {
        result = tokio::signal::ctrl_c() => result.map_err(CliError::failed)?,
        _ = terminate.recv() => {}
    }
    engine.stop().await;
    Ok(Exit::Done)
}
