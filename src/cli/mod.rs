//! The command line: one file per command.

mod advice;
mod ask;
mod attach;
mod begun;
mod check;
mod columns;
mod demo;
mod exit;
mod foreground;
mod keep;
mod launch;
mod list;
mod log;
mod outcome;
mod print;
mod progress;
mod protocol_file;
mod resume;
mod run;
mod runner;
mod schema;
mod score;
mod signals;
mod simulate;
mod stop;
mod which;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub use exit::{CliError, Exit};

use crate::protocol::Override;
use crate::run::prepare::{HalfMeasured, Manner};

/// Measures your own workload on a GPU's inference engine, one parameter at a time, and judges every answer.
#[derive(Debug, Parser)]
#[command(name = "aforo", version, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit status: 0 done · 1 failed · 2 wrong use or protocol · \
    3 done, but no step met the quality threshold · 4 stopped or interrupted. \
    A run that goes on when this command ends (--detach, Ctrl-C) is no failure: 0.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Take a protocol's baseline and sweeps against its engine
    Run(RunArgs),
    /// Do the whole job on 300 sample receipts against the simulated engine
    Demo(DemoArgs),
    /// Follow a run that goes on, and decide at its gates; leaving changes nothing
    Attach(AttachArgs),
    /// Show the runs and how they stand
    List(ListArgs),
    /// End a run in order; it can be resumed
    Stop(StopArgs),
    /// Take up a run that was stopped, killed or interrupted
    Resume(ResumeArgs),
    /// The runner's own process; `run` and `resume` start it
    #[command(hide = true)]
    Runner(RunnerArgs),
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
#[allow(clippy::struct_excessive_bools, reason = "they are switches of a command line")]
struct OutputArgs {
    /// Folder in which run folders are made
    #[arg(long, value_name = "DIR", default_value = "aforo-runs")]
    runs: PathBuf,
    /// Measure in the foreground, with lines on standard error; without a terminal this is the default
    #[arg(long)]
    headless: bool,
    /// Start the run and return at once; `aforo attach` shows it
    #[arg(long, conflicts_with_all = ["headless", "json"])]
    detach: bool,
    /// Follow the run with lines instead of a screen
    #[arg(long, conflicts_with_all = ["headless", "detach"])]
    lines: bool,
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
struct AttachArgs {
    /// The run: its folder, its name or the beginning of its name (default: the only one that goes on)
    run: Option<String>,
    /// Folder in which run folders are
    #[arg(long, value_name = "DIR", default_value = "aforo-runs")]
    runs: PathBuf,
    /// Follow with lines instead of a screen
    #[arg(long)]
    lines: bool,
    /// When the run is over, print its result as JSON instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Folder in which run folders are
    #[arg(long, value_name = "DIR", default_value = "aforo-runs")]
    runs: PathBuf,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct StopArgs {
    /// The run: its folder, its name or the beginning of its name (default: the only one that goes on)
    run: Option<String>,
    /// Folder in which run folders are
    #[arg(long, value_name = "DIR", default_value = "aforo-runs")]
    runs: PathBuf,
    /// Let the pass that goes on come to its end first
    #[arg(long)]
    after_pass: bool,
    /// Why; kept with the decision
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

#[derive(Debug, Args)]
struct ResumeArgs {
    /// The run: its folder, its name or the beginning of its name (default: the only one that can be resumed)
    run: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
    /// Go from step to step without asking
    #[arg(long)]
    auto: bool,
    #[command(flatten)]
    manner: HalfMeasuredArgs,
}

#[derive(Debug, Args)]
struct RunnerArgs {
    /// The run folder
    folder: PathBuf,
    /// Go from step to step without asking
    #[arg(long)]
    auto: bool,
    #[command(flatten)]
    manner: HalfMeasuredArgs,
}

#[derive(Debug, Args)]
struct HalfMeasuredArgs {
    /// Complete a half-measured pass: what was answered is not asked again, and the pass is marked as resumed
    #[arg(long, group = "half_measured")]
    complete: bool,
    /// Take a half-measured pass from its beginning; what was measured of it is kept apart
    #[arg(long, group = "half_measured")]
    repeat: bool,
    /// Why; kept with the decision
    #[arg(long, value_name = "TEXT", default_value = "", requires = "half_measured")]
    reason: String,
}

impl HalfMeasuredArgs {
    fn half_measured(&self) -> Option<(HalfMeasured, String)> {
        let what = match (self.complete, self.repeat) {
            (true, _) => HalfMeasured::Complete,
            (_, true) => HalfMeasured::Repeat,
            (false, false) => return None,
        };
        Some((what, self.reason.clone()))
    }

    fn manner(&self, auto: bool, unattended: bool) -> Manner {
        Manner { auto, unattended, half_measured: self.half_measured().into() }
    }
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
        Command::Attach(args) => attach::execute(&args),
        Command::List(args) => list::execute(&args),
        Command::Stop(args) => stop::execute(&args),
        Command::Resume(args) => resume::execute(&args),
        Command::Runner(args) => runner::execute(&args),
        Command::Check(args) => check::execute(&args),
        Command::Score(args) => score::execute(&args),
        Command::Simulate(args) => simulate::execute(&args),
        Command::Schema(args) => schema::execute(args.format),
        Command::Columns(args) => columns::execute(&args),
    }
}
