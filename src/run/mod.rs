//! The steps of a run. A run is a stream of events with one writer; its state is a pure fold of them.

mod appender;
pub mod batch;
pub mod cause;
pub mod decision;
pub mod desk;
mod disk;
pub mod error;
pub mod event;
pub mod folder;
pub mod gate;
pub mod journal;
pub mod lock;
pub mod machine;
pub mod outputs;
pub mod plan;
pub mod position;
pub mod prepare;
pub mod recorder;
pub mod recover;
pub mod runner;
pub mod scrape;
pub mod state;
mod writer;
