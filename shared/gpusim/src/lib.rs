//! An operator-level simulator of training tasks that share one GPU.
