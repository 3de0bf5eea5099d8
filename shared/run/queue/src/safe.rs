//! Checks that no other user can replace the queue's files. This matters because its journal names the commands that
//! are run.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat, readlinkat};
use nix::sys::stat::{FileStat, Mode, fstat, fstatat, mkdirat};

/// Maximum number of symbolic links in a path, as in the kernel, path_resolution(7).
const MOST_LINKS: usize = 40;
/// Mode bits: write access for members of the group, and for other users.
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
/// Mode bit: only its owner may remove or rename a file in the folder.
const STICKY: u32 = 0o1000;

/// A walk along a path from `/`. Each folder is opened relative to its checked parent, so that no name is looked up
/// twice.
struct Walk {
    at: OwnedFd,
    /// Path of `at`, for messages.
    path: PathBuf,
    /// Remaining names of the path in reverse order.
    left: Vec<OsString>,
    links: usize,
}

/// Checks a queue's folder and every folder above it: each must belong to root or this user, and other users must not
/// be able to rename entries in it. The queue's folder itself must be accessible to this user only. `create`: creates
/// missing folders with mode 0700.
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`] names the folder and what is wrong; [`io::ErrorKind::NotFound`] without
/// `create`.
pub(crate) fn check(folder: &Path, create: bool) -> io::Result<()> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut walk = Walk {
        at: open("/", flags, Mode::empty())?,
        path: PathBuf::from("/"),
        left: Vec::new(),
        links: 0,
    };
    walk.enter(folder);
    walk.check(&fstat(&walk.at)?, false)?;
    while let Some(name) = walk.left.pop() {
        walk.step(&name, create)?;
    }
    let found = fstat(&walk.at)?;
    if found.st_uid != own() {
        return Err(walk.refused(&format!("belongs to user {}", found.st_uid)));
    }
    if found.st_mode & 0o077 != 0 {
        return Err(walk.refused("is open to other users (its mode should be 0700)"));
    }
    Ok(())
}

fn own() -> u32 {
    nix::unistd::geteuid().as_raw()
}

impl Walk {
    /// Puts the names of a path before the remaining ones.
    fn enter(&mut self, path: &Path) {
        let names = path.components().rev().filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsString::from("..")),
            _ => None,
        });
        self.left.extend(names);
    }

    fn step(&mut self, name: &OsStr, create: bool) -> io::Result<()> {
        let before = fstat(&self.at)?;
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let opened = match openat(&self.at, name, flags, Mode::empty()) {
            Err(Errno::ENOENT) if create => {
                match mkdirat(&self.at, name, Mode::S_IRWXU) {
                    Err(error) if error != Errno::EEXIST => return Err(error.into()),
                    _ => {}
                }
                openat(&self.at, name, flags, Mode::empty())
            }
            opened => opened,
        };
        match opened {
            Ok(folder) => {
                self.path.push(name);
                let found = fstat(&folder)?;
                self.at = folder;
                self.check(&found, before.st_mode & STICKY != 0)
            }
            Err(Errno::ENOTDIR | Errno::ELOOP) => self.follow(name, &before),
            Err(error) => {
                let text = format!("{}: {error}", self.path.join(name).display());
                Err(io::Error::new(io::Error::from(error).kind(), text))
            }
        }
    }

    /// Follows a symbolic link, and refuses one that another user could have made.
    fn follow(&mut self, name: &OsStr, before: &FileStat) -> io::Result<()> {
        let path = self.path.join(name);
        let refused = |why: &str| {
            let text = format!("{} {why}; {ADVICE}", path.display());
            io::Error::new(io::ErrorKind::PermissionDenied, text)
        };
        let target = readlinkat(self.at.as_fd(), name).map_err(|_| refused("is no folder"))?;
        let link = fstatat(&self.at, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err(refused("leads through too many symbolic links"));
        }
        if link.st_uid != 0 && link.st_uid != own() || before.st_mode & OTHERS_WRITE != 0 {
            return Err(refused(
                "is a symbolic link that somebody else may have made",
            ));
        }
        let target = PathBuf::from(target);
        if target.is_absolute() {
            let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
            self.at = open("/", flags, Mode::empty())?;
            self.path = PathBuf::from("/");
        }
        self.enter(&target);
        Ok(())
    }

    /// Checks owner and mode of a folder. `shared`: all users may create files in its parent.
    fn check(&self, found: &FileStat, shared: bool) -> io::Result<()> {
        let (owner, mode) = (found.st_uid, found.st_mode);
        let known = owner == 0 || owner == own() || (!shared && is_unmapped(owner));
        if !known {
            return Err(self.refused(&format!(
                "belongs to user {owner}, who could exchange what is in it"
            )));
        }
        // Many systems give each user a private group with the same number as the user; write access for it is safe.
        let group = mode & GROUP_WRITES != 0 && found.st_gid != owner;
        if mode & STICKY == 0 && (mode & OTHERS_WRITE != 0 || group) {
            return Err(self.refused("is writable by others, who could exchange what is in it"));
        }
        Ok(())
    }

    fn refused(&self, why: &str) -> io::Error {
        let text = format!("{} {why}; {ADVICE}", self.path.display());
        io::Error::new(io::ErrorKind::PermissionDenied, text)
    }
}

const ADVICE: &str = "name another folder with --queue DIR or MT_QUEUE (under sudo, use sudo -H)";

/// Whether this owner stands for one that the user namespace cannot represent: in a rootless container, the folders of
/// the system have such owners.
fn is_unmapped(owner: u32) -> bool {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    if read("/proc/sys/kernel/overflowuid").trim().parse() != Ok(owner) {
        return false;
    }
    let map = read("/proc/self/uid_map");
    let mut ranges = map.lines().filter_map(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        let first = numbers.next()?;
        let _ = numbers.next()?;
        let count = numbers.next()?;
        Some((first.ok()?, count.ok()?))
    });
    !map.is_empty() && !ranges.any(|(first, count)| (first..first + count).contains(&owner.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn a_folder_is_refused_if_others_could_exchange_it() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        assert_eq!(
            check(&at("a/b/queue"), false).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        assert!(!at("a").exists(), "looking creates nothing");
        check(&at("a/b/queue"), true).unwrap();
        check(&at("a/b/queue"), false).unwrap();
        let mode = |name: &str, mode| {
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        let refused = |name: &str, why: &str| {
            let error = check(&at(name), true).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("--queue"), "{error}");
        };
        mode("a", 0o777);
        refused("a/b/queue", "is writable by others");
        mode("a", 0o1777);
        check(&at("a/b/queue"), true).unwrap();
        symlink(at("a/b"), at("a/link")).unwrap();
        refused("a/link/queue", "is a symbolic link");
        mode("a", 0o755);
        check(&at("a/link/queue"), true).unwrap();
        mode("a/b/queue", 0o755);
        refused("a/b/queue", "is open to other users");
        symlink("loop", at("loop")).unwrap();
        refused("loop/queue", "too many symbolic links");
        fs::write(at("file"), "").unwrap();
        refused("file/queue", "is no folder");
        // Only root can create a folder that belongs to another user.
        if own() == 0 {
            std::os::unix::fs::chown(at("a/b"), Some(65_533), None).unwrap();
            refused("a/b/queue", "belongs to user 65533");
        }
    }
}
