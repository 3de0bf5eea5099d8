//! Programs of one user that use the same device at the same time.
//!
//! Each program would attribute the other's load to contention among its own tasks, so they learn about each other. For
//! each device there is a file in the folder of run directories. All programs that use the device lock it, and it has a
//! line for each program since the device was last free. So nothing needs cleaning up when a program dies.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use crate::private::{open_private_dir, share_private};
use crate::process::Identity;

/// This process's registration on some devices. Until it is dropped, other programs see it.
#[derive(Debug)]
pub struct Neighbours {
    devices: Vec<Device>,
}

#[derive(Debug)]
struct Device {
    file: File,
    /// Offset in the file after this process's own line.
    own: u64,
}

impl Neighbours {
    /// Registers this process, named `tool`, for each of `devices` (any names). Returns a message about programs that
    /// already use one of the devices.
    ///
    /// # Errors
    /// If the files cannot be written.
    pub fn join(runs: &Path, devices: &[String], tool: &str) -> io::Result<(Self, Option<String>)> {
        open_private_dir(runs)?;
        let mut found = Vec::new();
        let mut joined = Vec::new();
        for name in devices {
            let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
            let name: String = name.chars().map(safe).collect();
            let mut file = share_private(&runs.join(format!("device-{name}.lock")))?;
            // No other program holds the file, so all its lines belong to ended programs.
            if file.try_lock().is_ok() {
                file.set_len(0)?;
                file.unlock()?;
            }
            file.lock_shared()?;
            found.extend(living(&file, 0)?);
            let pid = std::process::id();
            let start = Identity::own().map_or(0, |own| own.start);
            file.write_all(format!("{pid} {start} {tool}\n").as_bytes())?;
            let own = file.metadata()?.len();
            joined.push(Device { file, own });
        }
        let found = list(found).map(|others| {
            format!("{others} uses the same device, which affects throughputs and times")
        });
        Ok((Self { devices: joined }, found))
    }

    /// A message about programs that have registered for one of the devices since then, even if they have ended again.
    #[must_use]
    pub fn newcomers(&self) -> Option<String> {
        let mut all = Vec::new();
        for device in &self.devices {
            let lines = lines(&device.file, device.own).unwrap_or_default();
            all.extend(lines.into_iter().map(|(_, text)| text));
        }
        list(all).map(|others| {
            format!(
                "{others} started to use the same device, which affects some throughputs and times"
            )
        })
    }
}

/// Names, each once.
fn list(mut names: Vec<String>) -> Option<String> {
    names.sort();
    names.dedup();
    (!names.is_empty()).then(|| names.join(", "))
}

/// The programs in the lines after an offset of the file, each with its name.
fn lines(mut file: &File, from: u64) -> io::Result<Vec<(Identity, String)>> {
    file.seek(SeekFrom::Start(from))?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let program = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let pid = words.next()?.parse().ok()?;
        let start = words.next()?.parse().ok()?;
        let tool = words.next()?;
        Some((Identity { pid, start }, format!("{tool} (process {pid})")))
    };
    Ok(text.lines().filter_map(program).collect())
}

/// The lines whose program still runs.
fn living(file: &File, from: u64) -> io::Result<Vec<String>> {
    let all = lines(file, from)?.into_iter();
    Ok(all
        .filter(|(program, _)| program.is_alive())
        .map(|(_, text)| text)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn programs_on_one_device_are_told_of_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let runs = dir.path().join("runs");
        let join = |devices: &[&str], tool: &str| {
            let devices: Vec<String> = devices.iter().map(|&d| d.to_owned()).collect();
            Neighbours::join(&runs, &devices, tool).unwrap()
        };
        let (first, found) = join(&["cpu"], "first");
        assert_eq!((found, first.newcomers()), (None, None));
        let (other, found) = join(&["GPU-1/2"], "other");
        assert_eq!((found, other.newcomers()), (None, None));
        let (second, found) = join(&["GPU-1/2", "cpu"], "second");
        let pid = std::process::id();
        let named = |tool: &str| format!("{tool} (process {pid})");
        let both = format!("{}, {} uses the same", named("first"), named("other"));
        assert!(found.unwrap().starts_with(&both));
        assert_eq!(second.newcomers(), None);
        // A program is reported even if it ends before the check.
        drop(second);
        assert!(first.newcomers().unwrap().starts_with(&named("second")));
        drop(first);
        assert_eq!(join(&["cpu"], "third").1, None);
        let file = runs.join("device-GPU-1-2.lock");
        let mode = std::fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
