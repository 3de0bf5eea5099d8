//! Origin of a job: the attributes that a program inherits from its shell, besides environment and working directory
//! (umask, niceness, processors, limits, ignored signals).
//!
//! A server starts jobs for many clients. Without this, each job would have the umask, niceness and limits of
//! whichever client happened to start the server.

mod limits;
mod written;

use std::io::{self, PipeWriter, Read, Write, pipe};

use nix::libc;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{ForkResult, Pid, fork};
use rustix::process::{getpriority_process, setpriority_process};

use self::limits::{LIMITS, Limit};
use self::written::SIGNALS;
pub use self::written::{Origin, OriginError};
use crate::cpus::{allowed, cpu_set, ranges};

impl Origin {
    /// The attributes of this process, which a program that it starts would inherit.
    #[must_use]
    pub fn of_this_process() -> Self {
        Self {
            umask: own_umask(),
            nice: getpriority_process(None).unwrap_or(0),
            cpus: allowed(),
            limits: LIMITS.map(|(_, resource)| Limit::own(resource)),
            ignored: (1..=SIGNALS)
                .filter(|&signal| signal != libc::SIGPIPE && is_ignored(signal))
                .collect(),
        }
    }

    /// Descriptions of the attributes that this process cannot give to a job; empty if it can give all. Only a
    /// privileged process may lower niceness or raise a hard limit, and no process may use processors outside its
    /// container.
    ///
    /// A separate process tries it.
    #[must_use]
    pub fn refused(&self) -> Vec<String> {
        match self.tried() {
            Ok(lacking) => self.words(lacking),
            Err(error) => vec![format!(
                "whether niceness, processors and limits can be given could not be tried: {error}"
            )],
        }
    }

    fn tried(&self) -> io::Result<Lacking> {
        let ready = self.ready();
        let (mut told, tell) = pipe()?;
        // SAFETY: the child makes only async-signal-safe calls: those of `take`, write and _exit.
        #[expect(unsafe_code, reason = "see above")]
        let child = match unsafe { fork() }? {
            ForkResult::Child => unsafe {
                answer(&tell, ready.take());
                libc::_exit(0)
            },
            ForkResult::Parent { child } => child,
        };
        drop(tell);
        let mut bits = [0; size_of::<u32>()];
        let read = told.read_exact(&mut bits);
        while nix::sys::wait::waitpid(child, None) == Err(nix::errno::Errno::EINTR) {}
        read.map(|()| Lacking(u32::from_ne_bytes(bits)))
    }

    fn words(&self, lacking: Lacking) -> Vec<String> {
        let own = Self::of_this_process();
        let mut words = Vec::new();
        if lacking.has(NICE) {
            words.push(format!(
                "niceness {}: the process that starts it has {} and may not lower it",
                self.nice, own.nice
            ));
        }
        if lacking.has(CPUS) {
            words.push(format!(
                "processors {}: the process that starts it may only use {}",
                ranges(&self.cpus),
                ranges(&own.cpus)
            ));
        }
        let all = LIMITS.iter().zip(self.limits.iter().zip(&own.limits));
        for (index, ((name, _), (wanted, own))) in all.enumerate() {
            if lacking.has(FIRST_LIMIT + index) {
                words.push(format!(
                    "limit {name} of {wanted}: the process that starts it has {own} and may not raise it"
                ));
            }
        }
        words
    }

    /// Prepares the origin for [`Ready::take`].
    pub(crate) fn ready(&self) -> Ready<'_> {
        Ready {
            origin: self,
            cpus: cpu_set(&self.cpus),
        }
    }
}

/// An origin that can be applied without allocating memory.
pub(crate) struct Ready<'a> {
    origin: &'a Origin,
    cpus: Option<CpuSet>,
}

/// Attributes that could not be given, one bit for each of the constants below.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lacking(u32);

const NICE: usize = 0;
const CPUS: usize = 1;
const FIRST_LIMIT: usize = 2;

impl Lacking {
    fn note(&mut self, what: usize, lacks: bool) {
        self.0 |= u32::from(lacks) << what;
    }

    fn has(self, what: usize) -> bool {
        self.0 >> what & 1 == 1
    }
}

impl Ready<'_> {
    /// Applies the attributes of the origin to this process, a fork, as far as permitted. Makes only async-signal-safe
    /// calls: signal, umask, setpriority, setrlimit and sched_setaffinity.
    pub(crate) fn take(&self) -> Lacking {
        let mut lacking = Lacking::default();
        let Origin {
            nice,
            umask: mask,
            limits,
            ignored,
            ..
        } = self.origin;
        for signal in 1..=SIGNALS {
            dispose(signal, ignored.contains(&signal));
        }
        umask(Mode::from_bits_truncate(*mask));
        // Niceness is set before and after the limits: it may need this process's own limit on niceness, or that of the
        // origin.
        let early = setpriority_process(None, *nice).is_ok();
        for (index, ((_, resource), limit)) in LIMITS.iter().zip(limits).enumerate() {
            lacking.note(FIRST_LIMIT + index, !limit.set(*resource));
        }
        lacking.note(NICE, !early && setpriority_process(None, *nice).is_err());
        if let Some(cpus) = &self.cpus {
            let this = Pid::from_raw(0);
            let set = sched_setaffinity(this, cpus);
            // The kernel silently leaves out processors outside of a container.
            let all = set.and_then(|()| sched_getaffinity(this));
            lacking.note(CPUS, all.as_ref() != Ok(cpus));
        }
        lacking
    }
}

fn answer(mut to: &PipeWriter, lacking: Lacking) {
    // If the write fails, the reader sees the end of the pipe.
    to.write_all(&lacking.0.to_ne_bytes()).ok();
}

fn own_umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let told = line.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok());
    told.unwrap_or_else(|| {
        // Before Linux 4.7, reading the umask requires setting it; during that moment, new files are private.
        let own = umask(Mode::from_bits_truncate(0o077));
        umask(own);
        own.bits()
    })
}

#[expect(unsafe_code, reason = "nix cannot ask without setting")]
fn is_ignored(signal: i32) -> bool {
    // SAFETY: zeros are a valid `sigaction`; the call only writes to it.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut now) == 0
            && now.sa_sigaction == libc::SIG_IGN
    }
}

/// Sets a signal to be ignored, or to have its default effect.
#[expect(unsafe_code, reason = "nix has no signals above 31")]
fn dispose(signal: i32, ignored: bool) {
    let action = if ignored {
        libc::SIG_IGN
    } else {
        libc::SIG_DFL
    };
    // SAFETY: no handler is set. SIGKILL, SIGSTOP and those of the C library are refused.
    unsafe {
        libc::signal(signal, action);
    }
}
