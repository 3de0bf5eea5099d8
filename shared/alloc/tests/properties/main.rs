//! Properties of the allocation on random problems.

mod baselines;
mod cases;
mod exact;
mod fronts;
mod partition;
mod round;
