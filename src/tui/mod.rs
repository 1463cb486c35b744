//! What a person sees of a run, and how they decide: a fold of the run's events and a sender of commands. It owns no
//! truth: a screen can go away at any time.
//!
//! | module | what it is |
//! |---|---|
//! | [`model`] | everything that is shown, and how events and keys change it; without clock and IO |
//! | [`figures`] | the numbers of a run's steps and passes, ready to be shown |
//! | [`action`] | the one table of what can be done, with keys and words |
//! | [`theme`] | styles by meaning, read from TOML |
//! | [`view`] | draws a model, one file per pane |
//! | [`workbench`] | the loop: events in, decisions out, draws |

pub mod action;
pub mod figures;
pub mod model;
pub mod theme;
pub mod view;
pub mod workbench;
