//! Processes that train together: connects them, and sums values over all of them.
//!
//! The topology is a star: rank 0 receives from every other rank, adds in the order of the ranks, and sends the sum
//! back. On the loopback of one machine this moves the same number of bytes as a ring (`2 (N - 1)` gradients in total),
//! the sum does not depend on the order of arrival, and rank 0 notices at once if a rank dies. Over a network a ring
//! would distribute the load of rank 0, but this job is not meant for that.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cli::Failure;

use crate::config::GroupRole;
use crate::cpu::ForwardPass;

/// How long processes wait for each other at the start. All start within a second even on a loaded machine; if one
/// never connects, an error is better than a group that hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two attempts to connect; short compared with the start of a process.
const RETRY: Duration = Duration::from_millis(5);
/// Time for the processes that this one started to end, which they do when the connection closes; then they are killed.
const LEAVE: Duration = Duration::from_secs(2);
/// First bytes of a connection, to distinguish ranks from other programs that connect to the port.
const HELLO: &[u8; 8] = b"mtrank/1";

/// The processes of a training, seen from one of them.
pub struct Team {
    rank: usize,
    size: usize,
    /// In rank 0, the other ranks in order; in other ranks, rank 0.
    peers: Vec<TcpStream>,
    children: Vec<Child>,
    bytes: Vec<u8>,
}

/// Values that are summed in addition to the gradient.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Tally {
    /// Sums of losses and of correct samples.
    pub outcome: ForwardPass,
    /// Whether any process was asked to stop.
    pub stop: bool,
    /// Sum of the squared norms of mean gradients, over processes with parts of the same size.
    pub square: f64,
}

impl Team {
    /// Connects `size` processes; `None` if `stop` was set before.
    ///
    /// # Errors
    /// [`Failure::Environment`] if a process cannot be started or does not connect.
    pub fn form(
        place: &GroupRole,
        size: usize,
        stop: &AtomicBool,
    ) -> Result<Option<Self>, Failure> {
        let mut team = Self {
            rank: 0,
            size,
            peers: Vec::new(),
            children: Vec::new(),
            bytes: Vec::new(),
        };
        let met = match place {
            _ if size == 1 => Ok(true),
            GroupRole::Parent => team.found(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), true, stop),
            GroupRole::Rank { rank: 0, master } => {
                team.found(SocketAddr::from(*master), false, stop)
            }
            GroupRole::Rank { rank, master } => {
                team.rank = *rank as usize;
                team.join(SocketAddr::from(*master), stop)
            }
        };
        match met {
            Ok(true) => Ok(Some(team)),
            Ok(false) => Ok(None),
            // If this process was asked to stop, the others may already have gone.
            Err(_) if stop.load(Ordering::Relaxed) => Ok(None),
            Err(error) => Err(Failure::Environment(format!(
                "process {} of {size}: {error}",
                team.rank
            ))),
        }
    }

    /// Whether this is the process that reports progress and writes checkpoints.
    pub fn leads(&self) -> bool {
        self.rank == 0
    }

    /// Number of this process.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// In rank 0: listens, starts the other processes if `start` is set, and waits for all of them.
    fn found(&mut self, at: SocketAddr, start: bool, stop: &AtomicBool) -> io::Result<bool> {
        let deadline = Instant::now() + PATIENCE;
        let listener = loop {
            match TcpListener::bind(at) {
                Ok(listener) => break listener,
                // The port was free when it was chosen, so its current user, for example a closing connection, may soon
                // release it.
                Err(e) if e.kind() == ErrorKind::AddrInUse && Instant::now() < deadline => {
                    if stop.load(Ordering::Relaxed) {
                        return Ok(false);
                    }
                    sleep(RETRY);
                }
                Err(e) => {
                    let text = format!("cannot listen at {at}: {e}");
                    return Err(io::Error::new(e.kind(), text));
                }
            }
        };
        if start {
            let own = listener.local_addr()?;
            for rank in 1..self.size {
                self.children.push(started(rank, self.size, own)?);
            }
        }
        listener.set_nonblocking(true)?;
        let mut arrived: Vec<Option<TcpStream>> = (1..self.size).map(|_| None).collect();
        while arrived.iter().any(Option::is_none) {
            if stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            match listener.accept() {
                Ok((stream, _)) => {
                    // An unknown program, or a second process with the same rank, is dropped.
                    if let Ok(Some(rank)) = greeted(&stream, self.size)
                        && let Some(slot @ None) = arrived.get_mut(rank - 1)
                    {
                        *slot = Some(stream);
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => sleep(RETRY),
                Err(e) => return Err(e),
            }
            self.look_at_children()?;
            if Instant::now() > deadline {
                let missing = arrived.iter().filter(|a| a.is_none()).count();
                let text = format!("{missing} processes did not come within {PATIENCE:?}");
                return Err(io::Error::new(ErrorKind::TimedOut, text));
            }
        }
        self.peers = arrived.into_iter().flatten().collect();
        for peer in &mut self.peers {
            peer.write_all(HELLO)?;
        }
        Ok(true)
    }

    fn look_at_children(&mut self) -> io::Result<()> {
        for child in &mut self.children {
            if let Some(status) = child.try_wait()? {
                let text = format!("a process that it started ended at once: {status}");
                return Err(io::Error::other(text));
            }
        }
        Ok(())
    }

    fn join(&mut self, master: SocketAddr, stop: &AtomicBool) -> io::Result<bool> {
        let deadline = Instant::now() + PATIENCE;
        let mut stream = loop {
            if stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            match TcpStream::connect_timeout(&master, PATIENCE) {
                // A connection to a free loopback port can get this port as its local port and connect to itself. It
                // would receive its own messages, and rank 0 could not use the port.
                Ok(stream) if stream.local_addr()? != master => break stream,
                // Rank 0 may not be listening yet.
                _ if Instant::now() < deadline => sleep(RETRY),
                Ok(_) => return Err(io::Error::new(ErrorKind::TimedOut, "rank 0 is not there")),
                Err(e) => {
                    let text = format!("no process listens at {master}: {e}");
                    return Err(io::Error::new(e.kind(), text));
                }
            }
        };
        stream.set_nodelay(true)?;
        stream.write_all(HELLO)?;
        let numbers = [self.rank as u32, self.size as u32];
        stream.write_all(&numbers.map(u32::to_le_bytes).concat())?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut answer = [0; HELLO.len()];
        stream.read_exact(&mut answer)?;
        stream.set_read_timeout(None)?;
        self.peers = vec![stream];
        Ok(true)
    }

    /// Sums `values` and `tally` over all processes, bit-identical in every process.
    ///
    /// # Errors
    /// [`Failure::Environment`] if a process has gone.
    pub fn sum(&mut self, values: &mut [f32], tally: &mut Tally) -> Result<(), Failure> {
        if self.leads() {
            for peer in 0..self.peers.len() {
                self.receive(peer, values.len())?;
                let theirs = decoded(&self.bytes, |at, value| values[at] += value);
                tally.outcome += theirs.outcome;
                tally.stop |= theirs.stop;
                tally.square += theirs.square;
            }
        }
        encode(&mut self.bytes, values, *tally);
        for peer in 0..self.peers.len() {
            self.send(peer)?;
        }
        if !self.leads() {
            self.receive(0, values.len())?;
            *tally = decoded(&self.bytes, |at, value| values[at] = value);
        }
        Ok(())
    }

    /// Sends bytes of rank 0 to all.
    ///
    /// # Errors
    /// [`Failure::Environment`] if a process has gone.
    pub fn share(&mut self, bytes: &mut Vec<u8>) -> Result<(), Failure> {
        if self.leads() {
            self.bytes = (bytes.len() as u64).to_le_bytes().to_vec();
            self.bytes.extend_from_slice(bytes);
            for peer in 0..self.peers.len() {
                self.send(peer)?;
            }
            return Ok(());
        }
        let mut length = [0; 8];
        let (peer, mut got) = (&mut self.peers[0], Ok(()));
        got = got.and_then(|()| peer.read_exact(&mut length));
        bytes.clear();
        got = got.and_then(|()| {
            let length = u64::from_le_bytes(length);
            peer.take(length).read_to_end(bytes).and_then(|read| {
                let whole = read as u64 == length;
                whole.then_some(()).ok_or(ErrorKind::UnexpectedEof.into())
            })
        });
        got.map_err(|error| self.gone(0, &error))
    }

    fn send(&mut self, peer: usize) -> Result<(), Failure> {
        let sent = self.peers[peer].write_all(&self.bytes);
        sent.map_err(|error| self.gone(peer, &error))
    }

    fn receive(&mut self, peer: usize, values: usize) -> Result<(), Failure> {
        self.bytes.resize(TALLY_BYTES + 4 * values, 0);
        let got = self.peers[peer].read_exact(&mut self.bytes);
        got.map_err(|error| self.gone(peer, &error))
    }

    fn gone(&self, peer: usize, error: &io::Error) -> Failure {
        let other = if self.leads() { peer + 1 } else { 0 };
        Failure::Environment(format!(
            "process {} of {}: the connection to process {other} has ended: {error}",
            self.rank, self.size
        ))
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.peers.clear();
        let deadline = Instant::now() + LEAVE;
        for child in &mut self.children {
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
                sleep(RETRY);
            }
            // Fails if the process has already ended; other failures cannot be reported here.
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// Starts this program again as rank `rank`. It ends with rank 0, because its connection then closes.
fn started(rank: usize, size: usize, master: SocketAddr) -> io::Result<Child> {
    let IpAddr::V4(address) = master.ip() else {
        return Err(ErrorKind::AddrNotAvailable.into());
    };
    let mut words = std::env::args_os();
    // Uses the program's own name, because the name selects one of several tools.
    Command::new("/proc/self/exe")
        .arg0(words.next().unwrap_or_default())
        .args(words)
        .env("RANK", rank.to_string())
        .env("LOCAL_RANK", rank.to_string())
        .env("WORLD_SIZE", size.to_string())
        .env("MASTER_ADDR", address.to_string())
        .env("MASTER_PORT", master.port().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
}

/// The rank that a new connection claims; `None` for another program.
fn greeted(mut stream: &TcpStream, size: usize) -> io::Result<Option<usize>> {
    stream.set_nonblocking(false)?;
    // A rank identifies itself at once; another program must not hold up the ranks.
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut hello = [0; 16];
    stream.read_exact(&mut hello)?;
    stream.set_read_timeout(None)?;
    stream.set_nodelay(true)?;
    let number = |at: usize| {
        let bytes = [hello[at], hello[at + 1], hello[at + 2], hello[at + 3]];
        u32::from_le_bytes(bytes) as usize
    };
    let known = hello[..8] == HELLO[..] && number(12) == size && (1..size).contains(&number(8));
    Ok(known.then(|| number(8)))
}

/// Size in bytes of loss, number of correct samples and flags before the values of a message.
const TALLY_BYTES: usize = 25;

fn encode(bytes: &mut Vec<u8>, values: &[f32], tally: Tally) {
    bytes.clear();
    bytes.extend(tally.outcome.loss.to_le_bytes());
    bytes.extend(tally.outcome.correct.to_le_bytes());
    bytes.push(u8::from(tally.stop));
    bytes.extend(tally.square.to_le_bytes());
    bytes.extend(values.iter().flat_map(|v| v.to_le_bytes()));
}

fn decoded(bytes: &[u8], mut take: impl FnMut(usize, f32)) -> Tally {
    let (head, values) = bytes.split_at(TALLY_BYTES);
    for (at, value) in values.chunks_exact(4).enumerate() {
        take(
            at,
            f32::from_le_bytes([value[0], value[1], value[2], value[3]]),
        );
    }
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&head[at..at + 8]);
        word
    };
    Tally {
        outcome: ForwardPass {
            loss: f64::from_le_bytes(word(0)),
            correct: u64::from_le_bytes(word(8)),
        },
        stop: head[16] != 0,
        square: f64::from_le_bytes(word(17)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn master() -> (IpAddr, u16) {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        (
            Ipv4Addr::LOCALHOST.into(),
            free.local_addr().unwrap().port(),
        )
    }

    fn join(rank: u32, size: usize, master: (IpAddr, u16)) -> Team {
        let place = GroupRole::Rank { rank, master };
        let team = Team::form(&place, size, &AtomicBool::new(false));
        team.unwrap().unwrap()
    }

    #[test]
    fn every_rank_has_the_same_sum() {
        let master = master();
        let work = move |rank: u32| {
            let mut team = join(rank, 3, master);
            let mut shared = vec![7; if rank == 0 { 5 } else { 0 }];
            team.share(&mut shared).unwrap();
            assert_eq!(shared, [7; 5]);
            let mut sums = Vec::new();
            for step in 0..20 {
                let mut values: Vec<f32> = (0..1000).map(|i| (i * rank) as f32 / 7.0).collect();
                let mut tally = Tally {
                    outcome: ForwardPass {
                        loss: f64::from(rank),
                        correct: u64::from(rank),
                    },
                    stop: rank == 2 && step == 19,
                    square: 0.5,
                };
                team.sum(&mut values, &mut tally).unwrap();
                assert_eq!((tally.outcome.loss, tally.outcome.correct), (3.0, 3));
                assert_eq!((tally.stop, tally.square), (step == 19, 1.5));
                sums.push(values);
            }
            sums
        };
        let others = [1, 2].map(|rank| thread::spawn(move || work(rank)));
        let own = work(0);
        for other in others {
            assert_eq!(other.join().unwrap(), own);
        }
        assert_eq!(own[0][7], 1.0 + 2.0);
    }

    #[test]
    fn a_stranger_at_the_port_is_let_go_and_a_rank_that_goes_is_told() {
        let master = master();
        let stranger = thread::spawn(move || {
            let at = SocketAddr::from(master);
            let mut stream = loop {
                match TcpStream::connect(at) {
                    Ok(stream) => break stream,
                    Err(_) => sleep(RETRY),
                }
            };
            stream.write_all(b"GET / HTTP/1.1\r\n\r\n").ok();
            drop(join(1, 2, master));
        });
        let mut team = join(0, 2, master);
        stranger.join().unwrap();
        let error = team.sum(&mut [0.0], &mut Tally::default()).unwrap_err();
        assert!(error.to_string().contains("process 1"), "{error}");
    }

    #[test]
    fn one_that_is_asked_to_stop_does_not_wait_for_the_others() {
        let place = GroupRole::Rank {
            rank: 0,
            master: master(),
        };
        let team = Team::form(&place, 2, &AtomicBool::new(true)).unwrap();
        assert!(team.is_none());
    }
}
