//! Libraries that are loaded before the C library: a full disk for logs, and a wall clock that jumps.

use std::path::PathBuf;
use std::process::Command;

/// The libraries, built once for the table.
pub struct Libraries(tempfile::TempDir);

impl Libraries {
    /// Compiles them.
    pub fn build() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/table/world.c");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(folder.path().join("world.so"))
            .args([source, "-ldl"])
            .status();
        let built = built.is_ok_and(|status| status.success());
        assert!(built, "a C compiler is needed, as for building: {source}");
        Self(folder)
    }

    /// The library.
    pub fn world(&self) -> PathBuf {
        self.0.path().join("world.so")
    }
}
