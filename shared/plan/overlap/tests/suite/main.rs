//! Orders of a round: against brute force, metamorphic properties, the search.

mod brute;
mod common;
mod differential;
mod metamorphic;
mod quick_bound;
mod search;
mod waiting;
