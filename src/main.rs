//! Start-up: hooks, arguments, exit code.

use std::process::ExitCode;

use aforo::cli::{Cli, execute};
use clap::Parser as _;

fn main() -> ExitCode {
    if let Err(error) = color_eyre::install() {
        eprintln!("aforo: {error}");
    }
    match execute(Cli::parse()) {
        Ok(exit) => exit.into(),
        Err(error) => {
            error.show();
            error.code()
        }
    }
}
