//! Detects unintended sharing between commands: files that several of them write, and locks that they wait for.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use jobs::process;
use units::TaskId;

/// Observations of the running commands, a few times a second; a file that is open for a shorter time may be missed.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Files that were open for writing, each with the commands and the numbers of their runs.
    written: BTreeMap<PathBuf, BTreeSet<(TaskId, u32)>>,
    /// Number of looks while commands ran together.
    looks: u32,
    /// Number of looks at which a command waited for a lock, and the locked file.
    waits: BTreeMap<TaskId, (u32, String)>,
}

/// A command that waits for another one.
#[derive(Debug, Clone, PartialEq)]
pub struct Waits {
    /// The waiting command.
    pub id: TaskId,
    /// The locked file; `None` if unknown.
    pub what: Option<String>,
    /// Fraction of the time together in which it waits.
    pub part: f64,
}

/// Minimum fraction of looks with a wait that is reported; shorter waits cost less than the noise.
const TOLD: f64 = 0.05;

impl Seen {
    /// Looks at the running commands, given with their first processes; `run` is the number of the run.
    pub(crate) fn look(&mut self, running: &[(TaskId, i32)], run: u32) {
        let together = running.len() > 1;
        let locks = match together {
            true => fs::read_to_string("/proc/locks").unwrap_or_default(),
            false => String::new(),
        };
        self.looks += u32::from(together);
        for (id, first) in running {
            let mut waits_for = None;
            for pid in process::family(*first) {
                for path in written(pid) {
                    let writers = self.written.entry(path).or_default();
                    writers.insert((id.clone(), run));
                }
                waits_for = waits_for.or_else(|| lock_of(&locks, pid));
            }
            if let Some(file) = waits_for {
                let entry = self.waits.entry(id.clone()).or_default();
                *entry = (entry.0 + 1, file);
            }
        }
    }

    /// Files that two commands write. For copies of a command it suffices that one copy wrote a file in two runs: the
    /// name of the file then does not depend on the run, so the other copy writes it too. `copies`: the commands that
    /// are copies of another.
    pub(crate) fn files(&self, copies: &BTreeSet<TaskId>) -> Vec<PathBuf> {
        let by_two = |writers: &BTreeSet<(TaskId, u32)>| {
            let ids: BTreeSet<&TaskId> = writers.iter().map(|(id, _)| id).collect();
            ids.len() > 1 || writers.len() > 1 && ids.iter().all(|id| copies.contains(id))
        };
        let found = self.written.iter().filter(|(_, writers)| by_two(writers));
        found.map(|(path, _)| path.clone()).collect()
    }

    /// Commands that waited for a lock of another command.
    pub(crate) fn waits(&self) -> Vec<Waits> {
        let looks = f64::from(self.looks.max(1));
        let found = self.waits.iter().map(|(id, (count, file))| Waits {
            id: id.clone(),
            what: Some(file.clone()),
            part: f64::from(*count) / looks,
        });
        found.filter(|waits| waits.part >= TOLD).collect()
    }
}

/// Regular files that a process has open for writing.
fn written(pid: i32) -> Vec<PathBuf> {
    let open = fs::read_dir(format!("/proc/{pid}/fd"));
    let file = |entry: fs::DirEntry| {
        use std::os::unix::fs::PermissionsExt;
        // The link has the permissions with which the file was opened.
        let mode = fs::symlink_metadata(entry.path())
            .ok()?
            .permissions()
            .mode();
        let path = fs::read_link(entry.path()).ok()?;
        let real = ["/dev/", "/proc/", "/sys/", "/memfd:"];
        let plain =
            path.starts_with("/") && !real.iter().any(|p| path.to_string_lossy().starts_with(p));
        (mode & 0o200 != 0 && plain && !path.to_string_lossy().ends_with(" (deleted)"))
            .then_some(path)
    };
    let files = open.into_iter().flatten().flatten();
    files
        .filter_map(file)
        .filter(|path| path.is_file())
        .collect()
}

/// The file whose lock a process waits for, by `/proc/locks`:
/// `1: -> FLOCK ADVISORY WRITE PID DEVICE:INODE START END`.
fn lock_of(locks: &str, pid: i32) -> Option<String> {
    let waiting = locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let of_process = words.get(1) == Some(&"->") && words.get(5)?.parse() == Ok(pid);
        of_process.then(|| words.get(6).copied()).flatten()
    })?;
    let inode: u64 = waiting.rsplit(':').next()?.parse().ok()?;
    let open = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let is_it = |path: &PathBuf| {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(path).is_ok_and(|found| found.ino() == inode)
    };
    let file = open
        .flatten()
        .map(|entry| entry.path())
        .find(is_it)
        .and_then(|link| fs::read_link(link).ok());
    Some(file.as_deref().map_or_else(
        || "a file".to_owned(),
        |path: &Path| path.display().to_string(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    fn id(name: &str) -> TaskId {
        TaskId::new(name).unwrap()
    }

    fn wait_for(mut done: impl FnMut() -> bool) {
        for _ in 0..500 {
            if done() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("it did not happen in 5 s");
    }

    #[test]
    fn a_lock_and_a_file_of_two_are_seen() {
        let folder = std::env::temp_dir().join(format!("trial-shared-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let start = || -> Child {
            // A child of the shell holds the lock.
            let script = "exec 3> lock; flock 3; echo > held; sleep 9";
            let mut sh = Command::new("sh");
            sh.args(["-c", script])
                .current_dir(&folder)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        };
        let mut first = start();
        wait_for(|| folder.join("held").exists());
        let mut second = start();
        let mut seen = Seen::default();
        let pids = [
            (id("a"), first.id().cast_signed()),
            (id("b"), second.id().cast_signed()),
        ];
        wait_for(|| {
            seen.look(&pids, 1);
            !seen.waits().is_empty()
        });
        let waits = seen.waits();
        let files = seen.files(&BTreeSet::new());
        for child in [&mut first, &mut second] {
            for pid in process::family(child.id().cast_signed()) {
                jobs::pass_on(pid, 9);
            }
            child.wait().unwrap();
        }
        let lock = folder.join("lock").canonicalize().unwrap();
        assert_eq!(waits[0].id, id("b"));
        assert_eq!(waits[0].what.as_deref(), lock.to_str());
        assert_eq!(files, [lock]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_file_of_one_command_is_shared_by_its_copy_only_if_its_name_stays() {
        let mut seen = Seen::default();
        let mut by = |path: &str, run| {
            let writers = seen.written.entry(path.into()).or_default();
            writers.insert((id("a"), run));
        };
        by("/x/model.pt", 1);
        by("/x/model.pt", 2);
        by("/x/of-one-run", 1);
        assert_eq!(
            seen.files(&BTreeSet::from([id("a")])),
            [PathBuf::from("/x/model.pt")]
        );
        assert!(seen.files(&BTreeSet::new()).is_empty());
    }
}
