//! Prediction of the throughput of every task of a co-run.
