//! The steps of a run. A run is a stream of events with one writer; its state is a pure fold of them.

pub mod batch;
pub mod cause;
pub mod decision;
pub mod desk;
pub mod error;
pub mod event;
pub mod folder;
pub mod gate;
pub mod journal;
pub mod machine;
pub mod outputs;
pub mod plan;
pub mod position;
pub mod prepare;
pub mod recorder;
pub mod runner;
pub mod scrape;
pub mod state;
