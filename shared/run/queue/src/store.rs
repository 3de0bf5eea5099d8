//! Results about templates, kept between servers in a file for each kind of device.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::learnt::Learnt;

/// Path of a device's file in the queue's folder.
fn file(folder: &Path, device: &str) -> PathBuf {
    let legal = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = device.chars().map(legal).collect();
    folder.join(format!("learnt-{name}.json"))
}

/// The results on a device, by template. An unreadable file counts as missing, since it can be learnt again.
#[must_use]
pub fn read(folder: &Path, device: &str) -> BTreeMap<String, Learnt> {
    let text = fs::read(file(folder, device)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// The results on every device, by the device's name in its file name. Unreadable files count as missing.
#[must_use]
pub fn all(folder: &Path) -> BTreeMap<String, BTreeMap<String, Learnt>> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files
        .filter_map(|file| {
            let name = file.file_name().into_string().ok()?;
            let device = name.strip_prefix("learnt-")?.strip_suffix(".json")?;
            let kept = serde_json::from_slice(&fs::read(file.path()).ok()?).ok()?;
            Some((device.to_owned(), kept))
        })
        .collect()
}

/// Writes the results on a device atomically.
///
/// # Errors
/// If the file cannot be written; the old one is then unchanged.
pub fn write(folder: &Path, device: &str, learnt: &BTreeMap<String, Learnt>) -> io::Result<()> {
    let path = file(folder, device);
    let fresh = path.with_extension("new");
    fs::write(&fresh, serde_json::to_vec(learnt)?)?;
    fs::rename(&fresh, &path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_learnt_is_read_again_and_of_that_device_only() {
        let folder = tempfile::tempdir().unwrap();
        let learnt = BTreeMap::from([("sh {x}".to_owned(), Learnt::default())]);
        write(folder.path(), "2 cores / x", &learnt).unwrap();
        assert_eq!(read(folder.path(), "2 cores / x"), learnt);
        assert!(read(folder.path(), "another").is_empty());
        assert_eq!(all(folder.path())["2-cores---x"], learnt);
        fs::write(file(folder.path(), "torn"), "{\"a\":").unwrap();
        assert!(read(folder.path(), "torn").is_empty());
    }
}
