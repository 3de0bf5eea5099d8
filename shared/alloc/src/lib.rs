//! Choice of batch sizes and GPU shares.
