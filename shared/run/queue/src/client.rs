//! Connects a command to the server of its queue, and starts a server if there is none.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::book::{Book, Entry, Id, Wishes};
use crate::journal;
use crate::message::{DEVICE, LOCK, Reply, Request, Status};
use crate::others;
use crate::safe;
use crate::socket::ask;

/// Why a server was not reached.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server refused the request; its message.
    #[error("{0}")]
    Refused(String),
    /// The server could not carry the request out, or its journal cannot be read; the reason.
    #[error("{0}")]
    Failed(String),
    /// The folder or the server's program failed.
    #[error("{what}: {source}")]
    Io {
        /// What failed.
        what: String,
        /// Why.
        source: io::Error,
    },
    /// The server did not start; its message.
    #[error("the server of the queue does not start: {0}")]
    Start(String),
}

/// A queue, by its folder.
#[derive(Debug, Clone)]
pub struct Queue {
    folder: PathBuf,
}

/// Longest path of a socket, sockaddr_un(7).
const LONGEST_PATH: usize = 107;
/// How long a client tries: a killed server is started again within a second.
const PATIENCE: Duration = Duration::from_secs(30);
/// Jobs per request of a long list: with commands of some kilobytes each, a reply stays below its maximum length.
const PART: usize = 2000;
/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(50);
/// Line that a server prints once clients can connect.
pub const READY: &str = "ready";

impl Queue {
    /// The queue in a folder. Absent: the queue of this user on this machine, in `$XDG_STATE_HOME/mt-tools/queue-HOST`,
    /// so that a home directory shared by many machines holds one queue for each.
    ///
    /// # Errors
    /// [`ClientError`] if other users could replace files in the folder, or its path is too long for a socket.
    pub fn open(folder: Option<&Path>) -> Result<Self, ClientError> {
        // A variable that is set to nothing, as in a script or a compose file, counts as unset.
        let folder = folder
            .filter(|folder| !folder.as_os_str().is_empty())
            .map_or_else(default_folder, Path::to_owned);
        let failed = |source| ClientError::Io {
            what: format!("the queue's folder {}", folder.display()),
            source,
        };
        let folder = std::path::absolute(&folder).map_err(failed)?;
        if folder.as_os_str().len() + "/socket".len() > LONGEST_PATH {
            return Err(ClientError::Refused(format!(
                "{} is too long for the path of a socket; name a shorter folder with --queue DIR or MT_QUEUE",
                folder.display()
            )));
        }
        // A missing folder is created only when there is something to write.
        match safe::check(&folder, false) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
            _ => Ok(Self { folder }),
        }
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Asks the server, and starts one if there is none. Sending a request twice has the same effect as sending it
    /// once.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn call(&self, request: &Request) -> Result<Vec<Id>, ClientError> {
        match self.reply(request)? {
            Reply::Jobs(ids) => Ok(ids),
            Reply::Status(_) | Reply::Told(_) => Ok(Vec::new()),
            Reply::Refused(why) => Err(ClientError::Refused(why)),
            Reply::Failed(why) => Err(ClientError::Failed(why)),
        }
    }

    /// Why jobs wait, and what was learnt, as lines of text; `ids` empty: all jobs. Starts a server if there is none.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn why(&self, ids: &[Id]) -> Result<Vec<String>, ClientError> {
        match self.reply(&Request::Why(ids.to_vec()))? {
            Reply::Told(lines) => Ok(lines),
            Reply::Refused(why) => Err(ClientError::Refused(why)),
            Reply::Failed(why) => Err(ClientError::Failed(why)),
            Reply::Jobs(_) | Reply::Status(_) => Ok(Vec::new()),
        }
    }

    fn reply(&self, request: &Request) -> Result<Reply, ClientError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match ask(&self.folder, request) {
                Ok(reply) => return Ok(reply),
                Err(source) if Instant::now() >= deadline => {
                    let what = "the server of the queue does not answer".to_owned();
                    return Err(ClientError::Io { what, source });
                }
                Err(error) if is_absent(&error) => self.start(request)?,
                Err(_) => {}
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The state of the queue: from the server, or from the journal if none runs.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn status(&self, ids: &[Id]) -> Result<Status, ClientError> {
        self.state(&Request::Status(ids.to_vec()), |book| Status::of(book, ids))
    }

    /// The number of jobs in each state, and as many jobs as fit on a screen.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn overview(&self) -> Result<Status, ClientError> {
        self.state(&Request::Overview, Status::overview)
    }

    /// The state of every job that is known. It is requested in parts, because the whole may exceed the maximum length
    /// of a reply.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn everything(&self) -> Result<Status, ClientError> {
        let mut all = self.overview()?;
        let last = all.last.unwrap_or(Id(0)).0;
        all.jobs.clear();
        for first in (1..=last).step_by(PART) {
            let ids: Vec<Id> = (first..=last).take(PART).map(Id).collect();
            all.jobs.extend(self.status(&ids)?.jobs);
        }
        all.counts.clear();
        Ok(all)
    }

    fn state(
        &self,
        request: &Request,
        of: impl FnOnce(&Book) -> Status,
    ) -> Result<Status, ClientError> {
        match self.reply_of_one(request)? {
            Some(Reply::Status(status)) => Ok(*status),
            Some(Reply::Refused(why)) => Err(ClientError::Refused(why)),
            Some(Reply::Failed(why)) => Err(ClientError::Failed(why)),
            Some(Reply::Jobs(_) | Reply::Told(_)) => {
                Err(ClientError::Refused("that was no status".to_owned()))
            }
            None => Ok(of(&self.book()?)),
        }
    }

    /// Whether a server has the folder, even if it does not answer.
    fn is_served(&self) -> bool {
        let lock = fs::File::open(self.folder.join(LOCK));
        lock.is_ok_and(|lock| lock.try_lock_shared().is_err())
    }

    /// Asks the server, and tries again while a server exists (it may be starting, hang or end); `None` if there is
    /// none.
    fn reply_of_one(&self, request: &Request) -> Result<Option<Reply>, ClientError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match ask(&self.folder, request) {
                Ok(reply) => return Ok(Some(reply)),
                Err(_) if !self.is_served() => return Ok(None),
                Err(source) if Instant::now() >= deadline => {
                    let what = "the server of the queue does not answer; if it hangs, end it with `kill`, and `mt queue` starts another".to_owned();
                    return Err(ClientError::Io { what, source });
                }
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    /// The state according to a server, which is started if there is none and jobs are still left to run.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn served_status(&self, ids: &[Id]) -> Result<Status, ClientError> {
        let status = self.status(ids)?;
        if status.server.is_some() || status.jobs.iter().all(|job| job.state.is_ended()) {
            return Ok(status);
        }
        match self.reply(&Request::Status(ids.to_vec()))? {
            Reply::Status(status) => Ok(*status),
            _ => Ok(status),
        }
    }

    /// Ends the server; returns whether there was one.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn stop(&self) -> Result<bool, ClientError> {
        match ask(&self.folder, &Request::Stop) {
            Err(error) if is_absent(&error) => return Ok(false),
            // The server may end before its answering thread has written the reply; the lock then shows that it has
            // gone.
            Err(error)
                if !matches!(
                    error.kind(),
                    io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
                ) =>
            {
                let what = "the server of the queue does not answer".to_owned();
                return Err(ClientError::Io {
                    what,
                    source: error,
                });
            }
            Ok(_) | Err(_) => {}
        }
        let lock = fs::File::create(self.folder.join(LOCK));
        let gone = lock.and_then(|lock| lock.lock());
        gone.map(|()| true).map_err(|source| ClientError::Io {
            what: "waiting for the end of the server".to_owned(),
            source,
        })
    }

    /// The state that the next server will find: jobs that ran under the last server no longer run.
    fn book(&self) -> Result<Book, ClientError> {
        let path = self.folder.join(journal::FILE);
        let read = journal::read(&path);
        let found = read.map_err(|error| ClientError::Failed(error.to_string()))?;
        if let Some((line, _, problem)) = found.unreadable.first() {
            tell(&format!(
                "{}:{line}: {problem}; the next server puts unreadable lines ({}) aside",
                path.display(),
                found.unreadable.len()
            ));
        }
        if let Some(text) = journal::told(&self.folder) {
            tell(&text);
        }
        let mut book = found.book;
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_s = since.map_or(0.0, |d| d.as_secs_f64());
        let alive = |entry: &Entry| others::is_alive(&self.folder, entry);
        for record in book.recover(&jobs::process::boot(), now_s, alive) {
            let applied = book.apply(&record);
            applied.map_err(|error| ClientError::Refused(error.to_string()))?;
        }
        Ok(book)
    }

    /// Starts a server in the background: `mt --serve`, in its own session, so that it outlives the terminal.
    fn start(&self, request: &Request) -> Result<(), ClientError> {
        safe::check(&self.folder, true).map_err(|source| ClientError::Io {
            what: "the queue's folder".to_owned(),
            source,
        })?;
        let program = program();
        let failed = |source| ClientError::Io {
            what: format!("cannot start {}", program.display()),
            source,
        };
        // A file and not a pipe, which somebody would have to read as long as the server lives.
        let log = self.folder.join("server.log");
        let output = fs::File::create(&log).map_err(|source| ClientError::Io {
            what: format!("cannot write {}", log.display()),
            source,
        })?;
        let mut command = Command::new(&program);
        command.env_remove(DEVICE);
        // The server opens its device before it reads the request, so it gets the device in a variable.
        if let Request::Wishes(Wishes {
            device: Some(device),
            ..
        }) = request
        {
            command.env(DEVICE, device.name());
        }
        // The server outlives this process, so it must not inherit its locks.
        let mut child = jobs::seal(&mut command)
            .arg("--serve")
            .arg(&self.folder)
            .env_remove(jobs::MARK)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(output)
            .spawn()
            .map_err(failed)?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout)
                .read_line(&mut line)
                .map_err(failed)?;
        }
        // The process that was started ends at once; the server is its child.
        child.wait().map_err(failed)?;
        let said = fs::read_to_string(&log).unwrap_or_default();
        if line.trim() == READY {
            let said = said.trim();
            if !said.is_empty() {
                tell(said);
            }
            return Ok(());
        }
        if said.trim().is_empty() {
            // The server was killed before it could report why it does not start, so the caller tries again.
            return Ok(());
        }
        Err(ClientError::Start(
            said.trim().trim_start_matches("mt: ").to_owned(),
        ))
    }
}

/// Warns on standard error, since results go to standard output.
fn tell(text: &str) {
    // Standard error may be closed.
    writeln!(io::stderr(), "mt: warning: {text}").ok();
}

/// Whether there is no server: no socket, or nothing listens to it.
fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    )
}

/// `mt`: this program, the one beside it, or the one on `PATH`.
fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    if own.file_name().is_some_and(|name| name == "mt") {
        return own;
    }
    let beside = own.with_file_name("mt");
    if beside.is_file() {
        beside
    } else {
        "mt".into()
    }
}

fn default_folder() -> PathBuf {
    let home = || {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        Some(home.filter(|home| home.is_absolute())?.join(".local/state"))
    };
    let state = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|p| p.is_absolute());
    let own = || std::env::temp_dir().join(format!("mt-state-{}", nix::unistd::geteuid()));
    let state = state.or_else(home).unwrap_or_else(own);
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    state
        .join("mt-tools")
        .join(format!("queue-{}", host.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("q");
        safe::check(&folder, true).unwrap();
        fs::create_dir(folder.join("server.log")).unwrap();
        let queue = Queue::open(Some(&folder)).unwrap();
        let error = queue.start(&Request::Overview).unwrap_err().to_string();
        assert!(error.contains("cannot write /"), "{error}");
        assert!(error.contains("q/server.log: "), "{error}");
    }

    /// A server that hangs, or that is still starting, holds its lock until it is killed.
    #[test]
    fn when_the_server_that_was_asked_has_gone_the_journal_answers() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("q");
        safe::check(&folder, true).unwrap();
        let queue = Queue::open(Some(&folder)).unwrap();
        let lock = fs::File::create(folder.join(LOCK)).unwrap();
        lock.lock().unwrap();
        let death = std::thread::spawn(move || {
            std::thread::sleep(PAUSE * 4);
            drop(lock);
        });
        let status = queue.status(&[Id(1)]).unwrap();
        death.join().unwrap();
        assert_eq!((status.server, status.unknown), (None, vec![Id(1)]));
    }
}
