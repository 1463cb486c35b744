//! `aforo` measures a fixed workload on an inference engine, one parameter at a time, and judges every answer.
//!
//! The crate is a stack of layers. Each may use the ones above it in this list, never the ones below:
//!
//! | module | what it knows |
//! |---|---|
//! | [`protocol`] | what is held fixed: the file, the corpus, the prompt, the quality rule, the sweeps, the fingerprint |
//! | [`quality`] | was it right: parse an output, compare fields, give a verdict |
//! | [`engine`] | who answers: HTTP and SSE, the metrics page, the simulated engine |
//! | [`measure`] | how a pass is taken: clock, load, pass, record |
//! | [`run`] | the steps of a run: events, their fold, the plan, the runner, the journal, the folder |
//! | [`results`] | what it means: statistics, table, CSV, definitions of columns |
//! | [`terminal`] | the terminal itself: capabilities, guard, input, safe text |
//! | [`tui`] | what a person sees: model, actions, theme, one file per pane |
//! | [`cli`] | one file per command |
//!
//! Nothing but `engine` knows HTTP. A run is a stream of [`run::event::Event`]s with one writer; every table and
//! every progress line is a fold of that stream.

pub mod cli;
pub mod engine;
pub mod measure;
pub mod protocol;
pub mod quality;
pub mod results;
pub mod run;
pub mod terminal;
pub mod tui;
