use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::private::append_private;
use crate::protocol::without_colours;

/// Size limits of logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLimits {
    /// Bytes of one file, at least 1.
    pub bytes: u64,
    /// Number of older files to keep; `NAME.1` is the newest.
    pub old_files: u32,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self {
            bytes: 16 << 20,
            old_files: 2,
        }
    }
}

/// The log of one job: a file of mode 0600 that is renamed when it is full.
#[derive(Debug)]
pub struct RotatingLog {
    path: PathBuf,
    file: File,
    written: u64,
    limits: LogLimits,
    end: Vec<u8>,
    /// Set after a write has failed; the job continues without its log.
    failed: bool,
}

/// Bytes from the end of a log that messages show: enough for the last frames of a traceback.
const TAIL: usize = 2048;
/// Bytes kept in memory to find out why a job failed: enough for an exception and the output after it, such as
/// tracebacks of other ranks or the summary of a tracker.
const END: usize = 16 * 1024;

impl RotatingLog {
    /// Opens a log for appending.
    ///
    /// # Errors
    /// Any error of opening the file; a symbolic link is an error, too.
    pub fn open(path: &Path, limits: LogLimits) -> io::Result<Self> {
        let file = append_private(path)?;
        let written = file.metadata()?.len();
        Ok(Self {
            path: path.to_owned(),
            file,
            written,
            limits,
            end: Vec::new(),
            failed: false,
        })
    }

    /// Appends bytes unchanged. An error (a full disk) is returned once; after that the log accepts no more, and the
    /// job is not disturbed.
    ///
    /// # Errors
    /// The first failure to write or to rename.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.remember(bytes);
        if self.failed {
            return Ok(());
        }
        let written = self.write(bytes);
        self.failed = written.is_err();
        written
    }

    /// The last lines, at most 2 KiB, as text.
    #[must_use]
    pub fn tail(&self) -> String {
        let from = self.end.len().saturating_sub(TAIL);
        String::from_utf8_lossy(&self.end[from..]).trim().to_owned()
    }

    /// The last lines, at most 16 KiB, as text.
    #[must_use]
    pub(crate) fn end(&self) -> String {
        String::from_utf8_lossy(&self.end).into_owned()
    }

    /// Path of the log.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.written > 0 && self.written + bytes.len() as u64 > self.limits.bytes {
            self.rotate()?;
        }
        self.file.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let numbered = |n: u32| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{n}"));
            PathBuf::from(name)
        };
        if self.limits.old_files == 0 {
            fs::remove_file(&self.path)?;
        } else {
            for n in (1..self.limits.old_files).rev() {
                if numbered(n).exists() {
                    fs::rename(numbered(n), numbered(n + 1))?;
                }
            }
            fs::rename(&self.path, numbered(1))?;
        }
        self.file = append_private(&self.path)?;
        self.written = 0;
        Ok(())
    }

    fn remember(&mut self, bytes: &[u8]) {
        let from = bytes.len().saturating_sub(END);
        self.end.extend_from_slice(&bytes[from..]);
        let excess = self.end.len().saturating_sub(END);
        self.end.drain(..excess);
    }
}

/// Output of a job cleaned up for users: without colours, cursor movements, overwritten parts of lines, and other
/// control characters.
#[must_use]
pub fn plain(text: &str) -> String {
    let line = |line: &str| {
        let bytes = without_colours(line.as_bytes());
        let line = String::from_utf8_lossy(&bytes);
        let shown = line
            .trim_end_matches('\r')
            .rsplit('\r')
            .next()
            .unwrap_or_default()
            .trim_end();
        shown
            .chars()
            .map(|c| if c == '\t' { ' ' } else { c })
            .filter(|c| !c.is_control())
            .collect::<String>()
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// The last line of a job's output as the end of a sentence about its end; nothing if it printed nothing.
#[must_use]
pub fn last_words(line: &str) -> String {
    match line {
        "" => String::new(),
        line => format!("; its last line was: {line}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_files_are_kept_in_order_and_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        let limits = LogLimits {
            bytes: 10,
            old_files: 2,
        };
        let mut log = RotatingLog::open(&path, limits).unwrap();
        for i in 0..6 {
            log.append(format!("line {i}\n").as_bytes()).unwrap();
        }
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!(read("a.log"), "line 5\n");
        assert_eq!(read("a.log.1"), "line 4\n");
        assert_eq!(read("a.log.2"), "line 3\n");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
        assert!(log.tail().ends_with("line 5"));
    }

    #[test]
    fn text_for_people_has_no_control_characters() {
        let text = "\x1b[31mred\x1b[0m\tline \r\n 10%\r 20%\r\nbell\x07\u{9b}";
        assert_eq!(plain(text), "red line\n 20%\nbell");
    }

    #[test]
    fn a_full_disk_is_told_once() {
        let Ok(mut log) = RotatingLog::open(Path::new("/dev/full"), LogLimits::default()) else {
            return;
        };
        assert!(log.append(b"x").is_err());
        assert!(log.append(b"y").is_ok());
        assert_eq!(log.tail(), "xy");
    }
}
