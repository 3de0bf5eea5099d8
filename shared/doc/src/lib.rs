//! The documents that the tools exchange.
