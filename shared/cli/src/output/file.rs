//! A regular file as an output: written under a temporary name, then renamed.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempPath;

use crate::Failure;
use crate::files::{folder_of, unwritable};

/// When a file appears under its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Appears {
    /// When it is complete.
    Complete,
    /// With its first record: a failure before that leaves the old file unchanged.
    FirstRecord,
    /// When [`OutputFile::settle`] is called.
    Settled,
}

/// A file that is being written.
#[derive(Debug)]
pub(super) struct OutputFile {
    writer: BufWriter<File>,
    /// The target, if the temporary file is only created with the first record, so that a signal before that leaves
    /// no file behind.
    awaited: Option<PathBuf>,
    /// The temporary file, and the target that it will replace.
    pending: Option<(TempPath, PathBuf)>,
    appears: Appears,
    /// Length up to the last complete record.
    whole: u64,
    synced: Instant,
}

/// Records are synced to disk at most this often, so a power cut loses at most a second of records. Syncing each
/// record of a simulated profile (a thousand records a second) would take longer than the simulation.
const SYNC_EVERY: Duration = Duration::from_secs(1);

impl OutputFile {
    /// A new file in the folder of `target`, which exists.
    pub(super) fn create(target: &Path, appears: Appears) -> Result<Self, Failure> {
        // Create it now even if it will be created again with the first record, to find errors early.
        let (file, temporary) = beside(target).map_err(|error| unwritable(target, &error))?;
        let target = target.to_owned();
        let (awaited, pending) = match appears {
            Appears::FirstRecord => (Some(target), None),
            Appears::Complete | Appears::Settled => (None, Some((temporary, target))),
        };
        Ok(Self {
            writer: BufWriter::new(file),
            awaited,
            pending,
            appears,
            whole: 0,
            synced: Instant::now(),
        })
    }

    /// The temporary file, if there is one at present.
    pub(super) fn temporary(&self) -> Option<&Path> {
        self.pending.as_ref().map(|(temporary, _)| &**temporary)
    }

    pub(super) fn writer(&mut self) -> io::Result<&mut dyn Write> {
        self.begin()?;
        Ok(&mut self.writer)
    }

    /// Creates the temporary file, if that was delayed until the first record.
    fn begin(&mut self) -> io::Result<()> {
        if let Some(target) = self.awaited.take() {
            match beside(&target) {
                Ok((file, temporary)) => {
                    self.writer = BufWriter::new(file);
                    self.pending = Some((temporary, target));
                }
                Err(error) => {
                    self.awaited = Some(target);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Writes one record completely or not at all, so that the file is always a sequence of complete records.
    pub(super) fn record(&mut self, line: &[u8]) -> io::Result<()> {
        self.begin()?;
        self.writer.flush()?;
        let file = self.writer.get_mut();
        if let Err(error) = file.write_all(line) {
            // A full disk may have stored a part of the record. If that cannot be truncated, the next reader finds
            // and reports a cut line.
            file.set_len(self.whole).ok();
            file.seek(SeekFrom::Start(self.whole)).ok();
            return Err(error);
        }
        self.whole += line.len() as u64;
        if self.appears == Appears::FirstRecord {
            self.settle()?;
        }
        if self.synced.elapsed() >= SYNC_EVERY {
            self.writer.get_mut().sync_data()?;
            self.synced = Instant::now();
        }
        Ok(())
    }

    /// Renames the file to its target; later writes are appended. The content is synced before the rename, because
    /// otherwise a power cut could leave an empty file.
    pub(super) fn settle(&mut self) -> io::Result<()> {
        self.begin()?;
        let Some((temporary, target)) = self.pending.take() else {
            return Ok(());
        };
        let ready = self
            .writer
            .flush()
            .and_then(|()| self.writer.get_ref().sync_all());
        if let Err(error) = ready {
            self.pending = Some((temporary, target));
            return Err(error);
        }
        if let Err(failed) = temporary.persist(&target) {
            self.pending = Some((failed.path, target));
            return Err(failed.error);
        }
        // Some file systems cannot sync a folder; the file itself is safe.
        File::open(folder_of(&target))
            .and_then(|folder| folder.sync_all())
            .ok();
        Ok(())
    }

    /// Renames the file to its target, if that has not happened yet, and syncs everything to disk.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.settle()?;
        self.writer.flush()?;
        self.writer.get_ref().sync_all()
    }
}

/// Replaces the content of a file atomically: readers see either the old or the new content.
pub(super) fn replace(target: &Path, content: &[u8]) -> io::Result<()> {
    let (mut file, temporary) = beside(target)?;
    file.write_all(content)?;
    temporary.persist(target).map_err(|failed| failed.error)
}

/// Prefix of temporary files; the process id and a random part follow.
const PREFIX: &str = ".mt-";

/// A new locked file in the folder of `target` with the permissions that `target` has or would get. Files that dead
/// processes left there are removed.
fn beside(target: &Path) -> io::Result<(File, TempPath)> {
    let folder = folder_of(target);
    remove_orphans(folder);
    let permissions = fs::metadata(target).map_or_else(
        |_| Permissions::from_mode(0o666 & !current_umask()),
        |metadata| metadata.permissions(),
    );
    let (file, temporary) = tempfile::Builder::new()
        .prefix(&format!("{PREFIX}{}-", std::process::id()))
        .tempfile_in(folder)?
        .into_parts();
    // The lock shows other processes that the file is in use, and ends with this process. If locks are unsupported,
    // the process id in the name must suffice.
    file.try_lock().ok();
    file.set_permissions(permissions)?;
    Ok((file, temporary))
}

/// Removes temporary files of killed processes. Two conditions are required: no process of this machine has the id in
/// the name, and no process holds the lock (its owner may run on another machine that mounts the same folder).
fn remove_orphans(folder: &Path) {
    let own = nix::unistd::geteuid().as_raw();
    // An unreadable folder or a file that cannot be removed is ignored.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(owner) else {
            continue;
        };
        let ours = entry
            .metadata()
            .is_ok_and(|m| m.is_file() && m.uid() == own);
        if !ours || Path::new(&format!("/proc/{pid}")).exists() {
            continue;
        }
        if File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok()) {
            fs::remove_file(entry.path()).ok();
        }
    }
}

/// The process id in a temporary file's name.
fn owner(name: &str) -> Option<u32> {
    let (pid, random) = name.strip_prefix(PREFIX)?.split_once('-')?;
    (random.len() == 6).then(|| pid.parse().ok())?
}

fn current_umask() -> u32 {
    use nix::sys::stat::{Mode, umask};
    // The mask can only be read by setting it.
    let mask = umask(Mode::empty());
    umask(mask);
    mask.bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut all: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        all.sort();
        all
    }

    #[test]
    fn the_old_file_stays_until_the_new_one_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        let read = || fs::read_to_string(&target).unwrap();
        fs::write(&target, "old").unwrap();
        for appears in [Appears::Complete, Appears::FirstRecord, Appears::Settled] {
            fs::write(&target, "old").unwrap();
            drop(OutputFile::create(&target, appears).unwrap());
            assert_eq!((read().as_str(), names(dir.path()).len()), ("old", 1));
            let mut file = OutputFile::create(&target, appears).unwrap();
            file.record(b"one\n").unwrap();
            let first = appears == Appears::FirstRecord;
            assert_eq!(read(), if first { "one\n" } else { "old" });
            file.settle().unwrap();
            file.record(b"two\n").unwrap();
            assert_eq!(read(), "one\ntwo\n");
            file.finish().unwrap();
            drop(file);
            assert_eq!(names(dir.path()), ["out"]);
        }
    }

    #[test]
    fn what_dead_processes_left_is_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        // No process has this id, because it is above the kernel's maximum.
        let dead = ".mt-4194999-abcdef";
        let locked = ".mt-4194998-abcdef";
        let living = format!(".mt-{}-abcdef", std::process::id());
        for name in [dead, locked, &living, ".mt-notes", ".mt-12-x", "plan"] {
            fs::write(at(name), "").unwrap();
        }
        let other = File::open(at(locked)).unwrap();
        other.lock().unwrap();
        drop(OutputFile::create(&at("out"), Appears::Complete).unwrap());
        let mut left = [locked, &living, ".mt-notes", ".mt-12-x", "plan"];
        left.sort_unstable();
        assert_eq!(names(dir.path()), left);
    }
}
