//! The guard: a second process that outlives a tool that is killed.
//!
//! It waits for the end of its standard input, whose other end only the tool holds. The kernel
//! closes it however the tool ends; then the guard kills what the tool has left running, MPS
//! daemons among it, and removes its control groups and its run directory. A tool that ends by
//! itself has removed them already.

mod process;

use std::io;
use std::path::Path;

use crate::{Cleaned, RunDir, mps};
pub use process::Guard;

/// What a guard does once its owner has ended.
///
/// # Errors
/// As [`RunDir::clean`].
pub fn clean_up(run: &Path) -> io::Result<Option<Cleaned>> {
    let cleaned = RunDir::clean(run);
    mps::clean_orphans();
    cleaned
}
