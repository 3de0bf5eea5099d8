//! Parameters of a predictor, as they are in a model. `predict` checks them when it builds a
//! predictor of them.

pub use crate::wire::{
    Domain, Evidence, FamilyError, GpParams, Kind, KindError, LawParams, Matern, ModelParams,
    Point, SoloPart, SoloStep, SumParams, TaskParams, TreesParams, UnseenParams, UnseenUse,
    Validation, WorkloadLaw,
};
