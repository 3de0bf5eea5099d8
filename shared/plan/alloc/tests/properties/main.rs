//! Properties of the allocation on random problems.

mod advice;
mod baselines;
mod brute;
mod cases;
mod exact;
mod fronts;
mod law;
mod partition;
mod round;
mod straggler;
