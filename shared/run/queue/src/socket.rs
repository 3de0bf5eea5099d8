//! The socket of a queue, on both sides.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use jobs::process::Identity;
use nix::libc;

use crate::book::QueuedJob;
use crate::message::{Reply, Request, SOCKET};

/// A request, and the channel for its reply.
pub(crate) type Call = (Request, SyncSender<Reply>);

/// Maximum bytes of a request or a reply: a hundred thousand commands of some thousand bytes each. Only this user can
/// connect, so no smaller limit is needed.
const LONGEST: u64 = 512 << 20;
/// Time limit for a client to send its request, and for a server to answer: longer than a server on a loaded machine
/// takes, shorter than users are willing to wait.
const PATIENCE: Duration = Duration::from_secs(20);
/// Number of requests that may wait for the server; further clients wait in the backlog of the socket.
const CALLS: usize = 64;

/// Opens the socket and reads requests of clients, each in its own thread, so that a silent client blocks no other. The
/// stream receives a byte for each request, which wakes the server.
pub(crate) fn listen(folder: &Path) -> io::Result<(Receiver<Call>, UnixStream)> {
    let path = folder.join(SOCKET);
    // Removes the socket of a killed server. This is safe because only the holder of the folder's lock gets here.
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    let (sender, receiver) = sync_channel(CALLS);
    let (woken, wake) = UnixStream::pair()?;
    woken.set_nonblocking(true)?;
    // A full stream need not block: it means that the server is about to wake anyway.
    wake.set_nonblocking(true)?;
    let wake = Arc::new(wake);
    thread::Builder::new().spawn(move || {
        for stream in listener.incoming() {
            // No descriptor is left; the client asks again.
            let Ok(stream) = stream else {
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            let (sender, wake) = (sender.clone(), Arc::clone(&wake));
            // A failure here means that the client has gone, or that no thread can be created for it.
            thread::Builder::new()
                .spawn(move || attend(stream, &sender, &wake))
                .ok();
        }
    })?;
    Ok((receiver, woken))
}

/// Reads one request and writes its answer.
fn attend(stream: UnixStream, server: &SyncSender<Call>, mut wake: &UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let reply = match receive::<Request>(&stream) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            let text = format!("{error}; is this mt of the server's version?");
            Reply::Refused(text)
        }
        Err(error) => return Err(error),
        Ok(mut request) => {
            if let Request::Add { jobs, .. } = &mut request
                && let Err(why) = jobs.iter_mut().try_for_each(|job| identify(job, &stream))
            {
                return send(&stream, &Reply::Refused(why));
            }
            let (answer, answered) = sync_channel(1);
            let ended = |_| io::Error::from(io::ErrorKind::ConnectionAborted);
            server.send((request, answer)).map_err(|_| ended(()))?;
            wake.write_all(b".").ok();
            answered.recv().map_err(|_| ended(()))?
        }
    };
    send(&stream, &reply)
}

/// A client in a container reports its process number there. The kernel knows the number that it has here.
fn identify(job: &mut QueuedJob, stream: &UnixStream) -> Result<(), String> {
    let Some(named) = job.process else {
        return Ok(());
    };
    let peer = match peer(stream) {
        Some(pid) if pid == named.pid => return Ok(()),
        Some(pid) => Identity::of(pid),
        None => return Ok(()),
    };
    let Some(peer) = peer else {
        return Err("the program runs in another pid namespace (a container) than the server of the queue, which cannot see when it ends; use a queue in the container (--queue DIR), or share the namespace (--pid=host)".to_owned());
    };
    job.process = Some(peer);
    job.parent = job
        .parent
        .and_then(|_| peer.parent())
        .and_then(Identity::of);
    Ok(())
}

/// Number of the process that opened the other end, unix(7); 0 if it is not visible here.
fn peer(stream: &UnixStream) -> Option<i32> {
    let mut found = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut size = libc::socklen_t::try_from(size_of::<libc::ucred>()).ok()?;
    // SAFETY: the kernel writes at most `size` bytes to `found`, which has as many.
    #[expect(unsafe_code, reason = "the standard library does not have it yet")]
    let code = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut size,
        )
    };
    (code == 0).then_some(found.pid)
}

/// Asks the server of a folder.
///
/// # Errors
/// [`io::Error`] if there is no server, or it ended before it answered.
pub fn ask(folder: &Path, request: &Request) -> io::Result<Reply> {
    let path = folder.join(SOCKET);
    // A signal may interrupt `connect` while it waits for a server with many clients, and the standard library does not
    // retry.
    let stream = loop {
        match UnixStream::connect(&path) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            connected => break connected?,
        }
    };
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    send(&stream, request)?;
    receive(&stream)
}

fn send<T: serde::Serialize>(mut stream: &UnixStream, what: &T) -> io::Result<()> {
    let mut text = serde_json::to_vec(what)?;
    text.push(b'\n');
    stream.write_all(&text)
}

fn receive<T: serde::de::DeserializeOwned>(stream: &UnixStream) -> io::Result<T> {
    let mut line = Vec::new();
    BufReader::new(stream.take(LONGEST)).read_until(b'\n', &mut line)?;
    if !line.ends_with(b"\n") {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_slice(&line).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}
