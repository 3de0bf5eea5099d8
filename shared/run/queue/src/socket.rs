//! The socket of a queue, on both sides.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use crate::message::{Reply, Request, SOCKET};

/// A request, and where its answer goes.
pub(crate) type Call = (Request, SyncSender<Reply>);

/// Maximum bytes of a request or a reply: a hundred thousand commands of some hundred bytes.
const LONGEST: u64 = 64 << 20;
/// How long a client may take to send its request, and a server to answer: longer than a server on a loaded machine
/// takes, shorter than users are willing to wait.
const PATIENCE: Duration = Duration::from_secs(20);
/// Number of clients whose requests wait for the server; the next ones wait in the socket.
const CALLS: usize = 64;

/// Opens the socket and reads requests of clients, each in its own thread: a silent client blocks no other. The stream
/// gets a byte for each request.
pub(crate) fn listen(folder: &Path) -> io::Result<(Receiver<Call>, UnixStream)> {
    let path = folder.join(SOCKET);
    // Left by a killed server: the holder of the folder's lock is the only server.
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    let (sender, receiver) = sync_channel(CALLS);
    let (woken, wake) = UnixStream::pair()?;
    woken.set_nonblocking(true)?;
    // If it is full, the server is about to wake.
    wake.set_nonblocking(true)?;
    let wake = Arc::new(wake);
    thread::Builder::new().spawn(move || {
        for stream in listener.incoming() {
            // No room for another descriptor: the client asks again.
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
        Ok(request) => {
            let (answer, answered) = sync_channel(1);
            let ended = |_| io::Error::from(io::ErrorKind::ConnectionAborted);
            server.send((request, answer)).map_err(|_| ended(()))?;
            wake.write_all(b".").ok();
            answered.recv().map_err(|_| ended(()))?
        }
    };
    send(&stream, &reply)
}

/// Asks the server of a folder.
///
/// # Errors
/// [`io::Error`]: there is none, or it has gone before it answered.
pub fn ask(folder: &Path, request: &Request) -> io::Result<Reply> {
    let path = folder.join(SOCKET);
    // A signal may interrupt the wait for a server with many clients; the library does not try again.
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
