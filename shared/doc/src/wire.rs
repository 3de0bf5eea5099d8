//! The documents as they stand in a file, field by field.
//!
//! These types hold whatever JSON of the right shape holds; whether it makes sense is decided
//! when they are converted to the validated types of the crate. Units are in the field names.
//! The JSON Schemas in `schemas/` are generated from here.

mod allocation;
mod cluster;
mod devices;
mod efficiency;
mod model;
mod model_params;
mod plan;
mod profile;
mod queue;
mod run;
mod schedule;
mod timeline;
mod training;
mod workload;

pub use allocation::*;
pub use cluster::*;
pub use devices::*;
pub use efficiency::*;
pub use model::*;
pub use model_params::*;
pub use plan::*;
pub use profile::*;
pub use queue::*;
pub use run::*;
pub use schedule::*;
pub use timeline::*;
pub use training::*;
pub use workload::*;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A JSON object that begins with its schema id.
pub trait Wire: Serialize + DeserializeOwned + JsonSchema {
    /// The value of the field `schema`.
    const SCHEMA: &'static str;
    /// The value of the field `record`, where a document is a sequence of several kinds.
    const RECORD: Option<&'static str> = None;
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
