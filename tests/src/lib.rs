//! Pipelines across the tools; see the tests folder of this crate.
