//! Process groups, supervision, signals, logs and worker pools.
