//! Parameters of a predictor, in the form in which a model document holds them. `predict` checks
//! them when it builds the predictor.

pub use crate::wire::{
    Domain, Evidence, FamilyError, GpParams, Kind, KindError, LawParams, Matern, ModelParams,
    Point, SoloPart, SoloStep, SumParams, TaskParams, TreesParams, UnseenParams, UnseenUse,
    Validation, WorkloadLaw,
};
