//! The steps of a run. A run is a stream of events with one writer; its state is a pure fold of them.

mod attend;
pub mod batch;
pub mod cause;
pub mod control;
pub mod decision;
pub mod desk;
pub mod error;
pub mod event;
pub mod folder;
pub mod journal;
pub mod lock;
pub mod machine;
pub mod outputs;
mod pass;
pub mod plan;
pub mod position;
pub mod prepare;
mod ready;
pub mod recorder;
pub mod recover;
pub mod remaining;
pub mod runner;
pub mod scrape;
pub mod standing;
pub mod state;
