//! From a workload and a request to its plan. [`pipeline`] has the steps; [`planner`], [`by_model`], [`only`] and
//! [`replan`] are its callers.

pub(crate) mod by_model;
pub(crate) mod federation;
pub mod notes;
pub(crate) mod only;
pub(crate) mod pipeline;
pub(crate) mod planner;
pub(crate) mod pose;
pub(crate) mod replan;
pub(crate) mod request;
mod write;
