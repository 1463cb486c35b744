//! The expected values of one document.

use indexmap::IndexMap;
use serde_json::Value;

/// Field name -> expected value. A key that is absent is never checked; what null means is the field's
/// [`Missing`](super::Missing).
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Reference(pub IndexMap<String, Value>);
