//! Methods of a search, and the number of points that each may evaluate.

pub(super) mod additive;
pub(super) mod ascent;
pub(super) mod bounded;
pub(super) mod budget;
pub(super) mod combine;
mod effects;
pub(super) mod excluded;
pub(super) mod exhaustive;
pub(super) mod shortlist;
