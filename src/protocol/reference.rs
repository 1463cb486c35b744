//! The expected values of one document.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The expected values of one document, by field.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reference(pub IndexMap<String, Value>);
