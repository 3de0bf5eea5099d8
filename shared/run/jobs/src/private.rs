//! Directories and files that belong to this user alone.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Creates a directory with mode 0700. If it exists, checks that it is a real directory (no symbolic link), belongs
/// to this user and is closed to others.
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`] says what is wrong with the existing directory.
pub fn open_private_dir(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    check_private_dir(path)
}

/// Checks that a directory is a real one (no symbolic link), belongs to this user and is closed to
/// others.
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`] says what is wrong with it.
pub(crate) fn check_private_dir(path: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    let refused = |why: &str| {
        let text = format!("{} {why}; remove it or choose another", path.display());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
    };
    if found.file_type().is_symlink() {
        return refused("is a symbolic link");
    }
    if !found.is_dir() {
        return refused("is not a directory");
    }
    if found.uid() != nix::unistd::geteuid().as_raw() {
        return refused("belongs to another user");
    }
    if found.mode() & 0o077 != 0 {
        return refused("is open to other users (mode should be 0700)");
    }
    Ok(())
}

/// Writes a file that only this user can read, and waits until it is on disk; replaces an existing file.
///
/// # Errors
/// [`io::Error`] of the file.
pub fn write_private(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = open(OpenOptions::new().append(true), path)?;
    file.set_len(0)?;
    file.write_all(text)?;
    file.sync_all()
}

/// Opens a file for appending, with mode 0600; refuses a symbolic link.
pub(crate) fn append_private(path: &Path) -> io::Result<File> {
    open(OpenOptions::new().append(true), path)
}

/// Like [`append_private`], but for reading as well.
pub(crate) fn share_private(path: &Path) -> io::Result<File> {
    open(OpenOptions::new().read(true).append(true), path)
}

fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    // O_NONBLOCK makes opening a pipe without a reader fail, instead of waiting for a reader.
    let flags = nix::fcntl::OFlag::O_NOFOLLOW | nix::fcntl::OFlag::O_NONBLOCK;
    let file = options
        .create(true)
        .mode(0o600)
        .custom_flags(flags.bits())
        .open(path)?;
    // A pipe with a reader is refused, because a slow reader would block the tool.
    if file.metadata()?.file_type().is_fifo() {
        let text = format!("{} is a pipe; name a file", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(file)
}

/// Opens an existing file that [`append_private`] created.
pub(crate) fn reopen_private(path: &Path) -> io::Result<File> {
    let flags = nix::fcntl::OFlag::O_NOFOLLOW | nix::fcntl::OFlag::O_NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(path)?;
    let found = file.metadata()?;
    if found.is_file() && found.uid() == nix::unistd::geteuid().as_raw() {
        return Ok(file);
    }
    let text = format!("{} is not a file of this user", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn refuses_links_and_open_directories() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        open_private_dir(&at("new")).unwrap();
        assert_eq!(fs::metadata(at("new")).unwrap().mode() & 0o777, 0o700);
        open_private_dir(&at("new")).unwrap();
        symlink(at("new"), at("link")).unwrap();
        assert!(open_private_dir(&at("link")).is_err());
        fs::set_permissions(at("new"), fs::Permissions::from_mode(0o755)).unwrap();
        assert!(open_private_dir(&at("new")).is_err());
        fs::write(at("file"), "").unwrap();
        assert!(open_private_dir(&at("file")).is_err());
        symlink(at("file"), at("log")).unwrap();
        assert!(append_private(&at("log")).is_err());
    }
}
