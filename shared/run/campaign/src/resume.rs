//! The profiles to continue.

use std::fs;
use std::io;
use std::path::Path;

use cli::{Console, Failure};
use doc::{Frames, Profile, Profiles};

/// The profiles in a file; none if the file does not exist. An incomplete last line comes from a killed tool; its
/// configuration is measured again.
pub fn read(path: &Path, console: &Console) -> Result<Vec<Profile>, Failure> {
    let mut bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            console.note(&format!("{} does not exist yet", path.display()));
            return Ok(Vec::new());
        }
        Err(error) => return Err(Failure::file(path, &error)),
    };
    let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
    bytes.truncate(whole);
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let frames = Frames::new(bytes.as_slice(), path.display().to_string());
    Profiles::new(frames)
        .map(|profile| profile.map_err(Failure::from))
        .collect()
}
