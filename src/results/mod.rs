//! What it means: statistics, the rows of the results table, their columns with definitions, and where they go.

pub mod cell;
pub mod columns;
pub mod export;
pub mod row;
pub mod stats;
pub mod step;
pub mod story;
pub mod table;
