//! The guard: a second process that survives when the tool is killed.
//!
//! It waits for end-of-file on its standard input, a pipe whose other end only the tool holds. The kernel closes the
//! pipe however the tool ends. Then the guard kills what the tool left running, including MPS daemons, and removes its
//! control groups and run directory. A tool that ends normally has already removed them.

mod process;

use std::io;
use std::path::Path;

use crate::{Cleaned, RunDir, mps};
pub use process::Guard;

/// Work of a guard once its owner has ended.
///
/// # Errors
/// Like [`RunDir::clean`].
pub fn clean_up(run: &Path) -> io::Result<Option<Cleaned>> {
    let cleaned = RunDir::clean(run);
    mps::clean_orphans();
    cleaned
}
