//! The command line: one file per command.

mod ask;
mod check;
mod columns;
mod demo;
mod exit;
mod keep;
mod log;
mod progress;
mod run;
mod safe;
mod schema;
mod score;
mod simulate;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub use exit::{CliError, Exit};

use crate::protocol::Override;

/// Measures your own workload on a GPU's inference engine, one parameter at a time, and judges every answer.
#[derive(Debug, Parser)]
#[command(name = "aforo", version, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit status: 0 done · 1 failed · 2 wrong use or protocol · \
    3 done, but no step met the quality threshold · 4 stopped or interrupted";

#[derive(Debug, Subcommand)]
enum Command {
    /// Take a protocol's baseline and sweeps against its engine
    Run(RunArgs),
    /// Do the whole job on 300 sample receipts against the simulated engine
    Demo(DemoArgs),
    /// Check a protocol and its corpus; nothing is sent
    Check(ProtocolArgs),
    /// Judge an outputs file, of aforo or in the OpenAI batch format
    Score(ScoreArgs),
    /// Start the simulated engine as a server
    Simulate(SimulateArgs),
    /// Print the JSON Schema of a file format
    Schema(SchemaArgs),
    /// Define every column of results.csv
    Columns(ColumnsArgs),
}

#[derive(Debug, Args)]
struct ProtocolArgs {
    /// The protocol file
    protocol: PathBuf,
    /// Change one value, with the same checks (may be repeated)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<Override>,
}

#[derive(Debug, Args)]
struct OutputArgs {
    /// Folder in which run folders are made
    #[arg(long, value_name = "DIR", default_value = "aforo-runs")]
    runs: PathBuf,
    /// Lines on standard error instead of the screen (this version has no screen yet)
    #[arg(long)]
    headless: bool,
    /// Print the result as JSON instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct RunArgs {
    #[command(flatten)]
    protocol: ProtocolArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// Go from step to step without asking
    #[arg(long)]
    auto: bool,
}

#[derive(Debug, Args)]
struct DemoArgs {
    #[command(flatten)]
    output: OutputArgs,
    /// Change one value of the sample protocol (may be repeated)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<Override>,
}

#[derive(Debug, Args)]
struct ScoreArgs {
    /// The protocol whose corpus and quality rule judge
    #[arg(long)]
    protocol: PathBuf,
    /// Outputs: aforo's own lines, or the OpenAI batch format
    #[arg(long)]
    outputs: PathBuf,
    /// Also write the outputs in the OpenAI batch format
    #[arg(long, value_name = "FILE")]
    to_batch: Option<PathBuf>,
    /// Print every verdict as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct SimulateArgs {
    /// Port on loopback; 0 takes a free one
    #[arg(long, default_value_t = 8000)]
    port: u16,
    /// A protocol whose corpus the engine knows the answers of, and whose [engine.simulated] it follows (default:
    /// the sample receipts)
    #[arg(long)]
    protocol: Option<PathBuf>,
    /// Folder in which the sample is unpacked
    #[arg(long, value_name = "DIR", default_value = "aforo-runs")]
    runs: PathBuf,
}

#[derive(Debug, Args)]
struct SchemaArgs {
    /// Which format
    #[arg(value_enum)]
    format: SchemaFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum SchemaFormat {
    /// The protocol file
    Protocol,
    /// A line of a run's journal: each event and what it means
    Journal,
}

#[derive(Debug, Args)]
struct ColumnsArgs {
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Does what the arguments say.
pub fn execute(cli: Cli) -> Result<Exit, CliError> {
    match cli.command {
        Command::Run(args) => run::execute(&args),
        Command::Demo(args) => demo::execute(args),
        Command::Check(args) => check::execute(&args),
        Command::Score(args) => score::execute(&args),
        Command::Simulate(args) => simulate::execute(&args),
        Command::Schema(args) => schema::execute(args.format),
        Command::Columns(args) => columns::execute(&args),
    }
}
