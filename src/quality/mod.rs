//! Was it right: parse an output, compare its fields with the references, give a verdict.
