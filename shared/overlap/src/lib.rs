//! Ordering of downloads, compute and uploads in a round.
