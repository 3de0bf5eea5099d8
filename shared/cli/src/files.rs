//! Tracks the files that this process reads and writes, so that no output destroys an input or another output.
//! Symbolic links of outputs are resolved.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::Failure;

/// Role of a file in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Input,
    Output,
}

/// One file in use.
#[derive(Debug, Clone)]
struct Entry {
    role: Role,
    /// Its name in messages.
    shown: String,
    /// Device and inode, the same for every name of a file. Absent for an output that does not exist yet.
    inode: Option<(u64, u64)>,
    /// Path of an output with links resolved. Its inode changes when it is replaced, so two outputs with the same
    /// name are recognised by the path instead.
    path: Option<PathBuf>,
}

/// The files in use. Inputs are never removed: a tool must not overwrite a plan even after it has read all of it.
#[derive(Debug, Default)]
pub(crate) struct Files {
    entries: Vec<Entry>,
}

/// The files of this process; global, like the standard streams.
static OPEN: Mutex<Files> = Mutex::new(Files {
    entries: Vec::new(),
});

/// Target of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    /// A regular file, which may not exist yet, by its path with links resolved. It is replaced as a whole.
    File(PathBuf),
    /// A device, a pipe, or an open descriptor (`/dev/null`, `/dev/stdout`, `/dev/fd/3`). It is written to directly:
    /// a rename would replace it by a file.
    Stream(PathBuf),
}

/// Records that `file` is read; `shown` is its name in messages.
///
/// # Errors
/// [`Failure::Usage`] if it is an output of this process.
pub(crate) fn reads(metadata: io::Result<Metadata>, shown: &str) -> Result<(), Failure> {
    let mut files = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    // A file without metadata is a stream that is already closed; reading it reports that.
    metadata.map_or(Ok(()), |m| files.read(&m, shown))
}

/// Records that an output of this process goes to `path`; returns its target.
///
/// # Errors
/// [`Failure::Usage`] if the file is an input or another output of this process; [`Failure::Input`] if it cannot be
/// created.
pub(crate) fn writes(path: &Path) -> Result<Destination, Failure> {
    let mut files = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let destination = resolve(path)?;
    if let Destination::File(target) = &destination {
        files.check(target, path)?;
        files.claim(target, path);
    }
    Ok(destination)
}

/// Checks that a file that is appended to, for example a log, is no input or output of this process. Unlike an
/// output, it may be named more than once.
///
/// # Errors
/// Like [`crate::Output::open`].
pub fn may_append(path: &Path) -> Result<(), Failure> {
    let files = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    match resolve(path)? {
        Destination::File(target) => files.check(&target, path),
        Destination::Stream(_) => Ok(()),
    }
}

impl Files {
    fn read(&mut self, metadata: &Metadata, shown: &str) -> Result<(), Failure> {
        if !metadata.is_file() {
            return Ok(());
        }
        let inode = Some((metadata.dev(), metadata.ino()));
        if let Some(other) = self.find(Role::Output, |e| e.inode == inode) {
            return Err(conflict(&other.shown, shown));
        }
        self.entries.push(Entry {
            role: Role::Input,
            shown: shown.to_owned(),
            inode,
            path: None,
        });
        Ok(())
    }

    fn find(&self, role: Role, same: impl Fn(&Entry) -> bool) -> Option<&Entry> {
        self.entries.iter().find(|e| e.role == role && same(e))
    }

    fn check(&self, target: &Path, shown: &Path) -> Result<(), Failure> {
        let inode = inode(target);
        let same =
            |e: &Entry| (inode.is_some() && e.inode == inode) || e.path.as_deref() == Some(target);
        if let Some(input) = self.find(Role::Input, same) {
            return Err(conflict(&shown.display().to_string(), &input.shown));
        }
        match self.find(Role::Output, same) {
            None => Ok(()),
            Some(other) => Err(Failure::Usage(format!(
                "{}: two outputs go to this file ({} is the same); name another for one of them",
                shown.display(),
                other.shown
            ))),
        }
    }

    fn claim(&mut self, target: &Path, shown: &Path) {
        self.entries.push(Entry {
            role: Role::Output,
            shown: shown.display().to_string(),
            inode: inode(target),
            path: Some(target.to_owned()),
        });
    }
}

fn inode(path: &Path) -> Option<(u64, u64)> {
    let found = fs::symlink_metadata(path).ok()?;
    found.is_file().then(|| (found.dev(), found.ino()))
}

fn conflict(output: &str, input: &str) -> Failure {
    Failure::Usage(format!(
        "{output}: the output would overwrite the input {input}; name another file"
    ))
}

/// Maximum length of a chain of symbolic links, as in the kernel.
const MOST_LINKS: usize = 40;

/// Resolves the symbolic links of an output's path.
fn resolve(path: &Path) -> Result<Destination, Failure> {
    let failed = |error: &io::Error| Failure::file(path, error);
    let mut at = path.to_owned();
    for _ in 0..MOST_LINKS {
        let parent = folder_of(&at);
        let folder = fs::canonicalize(parent).map_err(|error| no_folder(path, parent, &error))?;
        let Some(name) = last_name(&at) else {
            return Err(failed(&io::Error::from(io::ErrorKind::IsADirectory)));
        };
        let here = folder.join(name);
        match fs::symlink_metadata(&here) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Destination::File(here));
            }
            Err(error) => return Err(failed(&error)),
            Ok(found) if found.is_symlink() => {
                // A link such as that of /dev/stdout refers to an open descriptor; its text is not a path.
                if here.starts_with("/proc") {
                    return Ok(Destination::Stream(path.to_owned()));
                }
                let next = fs::read_link(&here).map_err(|error| failed(&error))?;
                at = folder.join(next);
            }
            Ok(found) if found.is_file() => return Ok(Destination::File(here)),
            Ok(found) if found.is_dir() => {
                return Err(failed(&io::Error::from(io::ErrorKind::IsADirectory)));
            }
            Ok(_) => return Ok(Destination::Stream(path.to_owned())),
        }
    }
    Err(failed(&io::Error::from(nix::errno::Errno::ELOOP)))
}

/// The folder of a path; "." for a bare name.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn last_name(path: &Path) -> Option<&std::ffi::OsStr> {
    match path.components().next_back() {
        Some(Component::Normal(name)) => Some(name),
        _ => None,
    }
}

fn no_folder(path: &Path, folder: &Path, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::NotFound => Failure::Input(format!(
            "{}: there is no folder {}; create it first (mkdir -p {})",
            path.display(),
            folder.display(),
            folder.display()
        )),
        _ => Failure::file(folder, error),
    }
}

/// Creates a folder for outputs if it does not exist.
///
/// # Errors
/// [`Failure::Input`], with the reason and what to do.
pub fn make_folder(path: &Path) -> Result<(), Failure> {
    fs::create_dir(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => no_folder(path, folder_of(path), &error),
        _ => unwritable(path, &error),
    })
}

/// A file or folder that cannot be created.
pub(crate) fn unwritable(target: &Path, error: &io::Error) -> Failure {
    let why = match error.kind() {
        io::ErrorKind::PermissionDenied => "permission denied",
        io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only",
        // The folder exists, but only the kernel creates files in it, as for /proc.
        io::ErrorKind::NotFound => "not by programs",
        _ => return Failure::file(target, error),
    };
    Failure::Input(format!(
        "{}: cannot create files in {} ({why}); choose a folder that you can write to",
        target.display(),
        folder_of(target).display(),
    ))
}

/// Opens a stream for writing. It is not truncated: `/dev/stdout` may be a file that the shell opened for appending.
pub(crate) fn open_stream(path: &Path) -> Result<File, Failure> {
    fs::OpenOptions::new()
        .append(true)
        .open(path)
        .map_err(|error| Failure::file(path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn an_input_by_any_of_its_names_is_no_output() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("plan"), "x").unwrap();
        symlink(at("plan"), at("link")).unwrap();
        symlink("link", at("chain")).unwrap();
        fs::hard_link(at("plan"), at("hard")).unwrap();
        let mut files = Files::default();
        let read = fs::metadata(at("plan")).unwrap();
        files.read(&read, "plan").unwrap();
        for name in ["plan", "link", "chain", "hard", "../plan"] {
            let path = if name.starts_with("..") {
                fs::create_dir(at("sub")).unwrap();
                at("sub").join(name)
            } else {
                at(name)
            };
            let Destination::File(target) = resolve(&path).unwrap() else {
                panic!("{name} is a file");
            };
            let text = files.check(&target, &path).unwrap_err().to_string();
            assert!(text.contains("would overwrite the input plan"), "{text}");
        }
        let Destination::File(other) = resolve(&at("other")).unwrap() else {
            panic!("a file that is not there");
        };
        files.check(&other, &at("other")).unwrap();
        files.claim(&other, &at("other"));
        assert!(files.check(&other, &at("other")).is_err(), "two outputs");
        fs::write(&other, "").unwrap();
        let mut late = Files::default();
        late.claim(&other, &at("other"));
        let read = fs::metadata(&other).unwrap();
        assert!(late.read(&read, "other").is_err(), "an output is no input");
    }

    #[test]
    fn links_lead_to_their_files_and_streams_stay_streams() {
        let dir = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(dir.path()).unwrap();
        let at = |name: &str| real.join(name);
        symlink("nothing/yet", at("far")).unwrap();
        assert!(resolve(&at("far")).is_err());
        symlink("yet", at("near")).unwrap();
        assert_eq!(
            resolve(&at("near")).unwrap(),
            Destination::File(at("yet")),
            "a link to nothing: the file is made where it points"
        );
        symlink("loop", at("loop")).unwrap();
        assert!(resolve(&at("loop")).is_err());
        assert!(resolve(dir.path()).is_err());
        for stream in ["/dev/null", "/dev/stdout", "/proc/self/fd/0"] {
            if Path::new(stream).exists() {
                let found = resolve(Path::new(stream)).unwrap();
                assert_eq!(found, Destination::Stream(PathBuf::from(stream)));
            }
        }
        let text = resolve(&at("no/file")).unwrap_err().to_string();
        assert!(text.contains("mkdir -p"), "{text}");
    }
}
