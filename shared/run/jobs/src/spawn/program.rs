//! Starts a program like [`std::process::Command`], but inside its control group from its first instruction on.
//!
//! A process that moves into a control group waits for an RCU grace period of the kernel, 6 to 16 ms, during which no
//! process of the machine can start or end a thread. `clone3` with `CLONE_INTO_CGROUP` (Linux 5.7, version 2 only)
//! avoids the move, but the standard library does not support it.

use std::ffi::{CStr, CString, OsStr, OsString, c_char};
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, signal, sigprocmask};
use nix::unistd::{Pid, chdir, dup2_stderr, dup2_stdin, dup2_stdout, setpgid};

use super::seat::Seat;
use crate::defaults::defaults;
use crate::descriptors::keep_streams_only;
use crate::origin::Ready;
use crate::{JobSpec, Origin};

/// A started process that must be waited for, with our ends of its pipes.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: Pid,
    /// `None`: its standard input is empty.
    pub(crate) stdin: Option<PipeWriter>,
    pub(crate) stdout: PipeReader,
    pub(crate) stderr: PipeReader,
}

/// How a process ended.
pub(crate) struct Waited {
    pub(crate) status: ExitStatus,
    /// Peak memory, in bytes, of the process or of one for which it has waited. It is at least the memory of this
    /// process at the time of the fork.
    pub(crate) peak_bytes: u64,
}

/// Waits for the end of a process that was started. `None` if another caller has already waited for it.
pub(crate) fn wait(pid: Pid) -> Option<Waited> {
    let mut status = 0;
    loop {
        // SAFETY: zeros are a valid `rusage`; the call writes to it and to the status.
        #[expect(unsafe_code, reason = "nix has no call that tells of memory")]
        let (waited, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            let waited = libc::wait4(pid.as_raw(), &raw mut status, 0, &raw mut usage);
            (waited, usage)
        };
        match Errno::result(waited) {
            Err(Errno::EINTR) => {}
            Err(_) => return None,
            Ok(_) => {
                let kib = u64::try_from(usage.ru_maxrss).unwrap_or(0);
                return Some(Waited {
                    status: ExitStatus::from_raw(status),
                    peak_bytes: kib.saturating_mul(1024),
                });
            }
        }
    }
}

/// Everything that the new process needs for exec, allocated in advance. Between fork and exec it must not allocate,
/// since another thread may have held the allocator's lock at the fork.
struct Program<'a> {
    argv: Words,
    env: Words,
    cwd: Option<CString>,
    origin: Option<Ready<'a>>,
}

/// Strings for the kernel: pointers to each, and a null pointer.
struct Words {
    pointers: Vec<*const c_char>,
    /// Owns the strings that the pointers refer to.
    _words: Vec<CString>,
}

impl Words {
    fn new(words: impl Iterator<Item = OsString>) -> io::Result<Self> {
        let words: Vec<CString> = words
            .map(|word| CString::new(word.into_vec()))
            .collect::<Result<_, _>>()?;
        let pointers = words.iter().map(|word| word.as_ptr());
        Ok(Self {
            pointers: pointers.chain([std::ptr::null()]).collect(),
            _words: words,
        })
    }
}

/// Starts the program of a job in its own process group.
pub(super) fn start(spec: &JobSpec, mark: (&str, &OsStr), seat: &Seat) -> io::Result<Process> {
    let entry = |name: &OsStr, value: &OsStr| {
        let mut entry = name.to_owned();
        entry.push("=");
        entry.push(value);
        entry
    };
    let env = spec
        .env
        .iter()
        .filter(|(name, _)| *name != mark.0)
        .map(|(name, value)| entry(name, value));
    let defaults = defaults(|name| spec.env.contains_key(name))
        .map(|(name, value)| entry(name.as_ref(), value.as_ref()));
    let env = env.chain(defaults);
    let cwd = spec.cwd.as_deref();
    let program = Program {
        argv: Words::new(spec.argv.iter().cloned())?,
        env: Words::new(env.chain([entry(mark.0.as_ref(), mark.1)]))?,
        cwd: cwd
            .map(|cwd| CString::new(cwd.as_os_str().as_bytes()))
            .transpose()?,
        origin: spec.origin.as_ref().map(Origin::ready),
    };
    let (stdin, orders) = if spec.orders {
        let (read, write) = pipe()?;
        (OwnedFd::from(read), Some(write))
    } else {
        (File::open("/dev/null")?.into(), None)
    };
    let (stdout, out) = pipe()?;
    let (stderr, err) = pipe()?;
    // Closed by a successful exec.
    let (mut failure, failed) = pipe()?;
    let pid = match fork(seat.folder())? {
        Fork::Parent(pid) => pid,
        Fork::Child { inside } => {
            let streams = [stdin.as_fd(), out.as_fd(), err.as_fd()];
            let error = program.exec(streams, seat, inside);
            (&failed).write_all(&(error as i32).to_ne_bytes()).ok();
            // SAFETY: ends the process without the parent's handlers.
            #[expect(unsafe_code, reason = "see above")]
            unsafe {
                libc::_exit(1)
            }
        }
    };
    drop(failed);
    let mut error = [0; size_of::<i32>()];
    match failure.read_exact(&mut error) {
        Ok(()) => {
            wait(pid);
            Err(io::Error::from_raw_os_error(i32::from_ne_bytes(error)))
        }
        Err(_) => Ok(Process {
            pid,
            stdin: orders,
            stdout,
            stderr,
        }),
    }
}

impl Program<'_> {
    /// Replaces the calling process, a fork, by this program. It returns only on failure.
    fn exec(&self, streams: [BorrowedFd<'_>; 3], seat: &Seat, inside: bool) -> Errno {
        if let Err(error) = self.prepare(streams, seat, inside) {
            return error;
        }
        // SAFETY: both arrays end with a null pointer and live as long as this process. No other thread of it reads
        // the environment: a fork has one thread.
        #[expect(
            unsafe_code,
            reason = "execvp looks for the program in PATH of `environ`"
        )]
        unsafe {
            environ = self.env.pointers.as_ptr();
            let argv = self.argv.pointers.as_ptr();
            if !(*argv).is_null() {
                libc::execvp(*argv, argv);
                return Errno::last();
            }
        }
        Errno::ENOENT
    }

    fn prepare(&self, streams: [BorrowedFd<'_>; 3], seat: &Seat, inside: bool) -> nix::Result<()> {
        let [stdin, stdout, stderr] = streams;
        dup2_stdin(stdin)?;
        dup2_stdout(stdout)?;
        dup2_stderr(stderr)?;
        if let Some(cwd) = &self.cwd {
            chdir::<CStr>(cwd)?;
        }
        setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
        // Rust programs ignore SIGPIPE, and a new program would inherit that.
        // SAFETY: no handler is set.
        #[expect(unsafe_code, reason = "see above")]
        unsafe {
            signal(Signal::SIGPIPE, SigHandler::SigDfl)?;
        }
        // Must come before `origin.take`, which may lower the limit on descriptors below their numbers.
        keep_streams_only();
        if let Some(origin) = &self.origin {
            // Attributes that cannot be given are ignored here; `Origin::refused` reports them.
            origin.take();
        }
        seat.take(inside)
    }
}

#[expect(unsafe_code, reason = "a variable of the C library")]
unsafe extern "C" {
    /// Environment of this process, environ(7).
    static mut environ: *const *const c_char;
}

enum Fork {
    Parent(Pid),
    /// `inside`: whether it is already in the requested control group.
    Child {
        inside: bool,
    },
}

/// `struct clone_args` of the kernel.
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Flag from the kernel's `sched.h`; the constant in `libc` is truncated to 32 bits.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Copies this process, if possible into the control group with this folder.
#[expect(
    unsafe_code,
    reason = "the caller makes only async-signal-safe calls in the child"
)]
fn fork(folder: Option<BorrowedFd<'_>>) -> io::Result<Fork> {
    if let Some(folder) = folder {
        let arguments = CloneArgs {
            flags: CLONE_INTO_CGROUP,
            exit_signal: libc::SIGCHLD as u64,
            cgroup: folder.as_raw_fd() as u64,
            ..CloneArgs::default()
        };
        // SAFETY: without a stack of its own, the child is a copy of this process, as after fork.
        let pid = unsafe {
            let arguments = &raw const arguments;
            libc::syscall(libc::SYS_clone3, arguments, size_of::<CloneArgs>())
        };
        match pid {
            0 => return Ok(Fork::Child { inside: true }),
            pid if pid > 0 => return Ok(Fork::Parent(Pid::from_raw(pid as i32))),
            // An older kernel, a sandbox that blocks this call, a group of version 1, or a group that refuses us: falls
            // back to fork, after which the child tries to move.
            _ => {}
        }
    }
    // SAFETY: see the reason above.
    match unsafe { nix::unistd::fork() }? {
        nix::unistd::ForkResult::Parent { child } => Ok(Fork::Parent(child)),
        nix::unistd::ForkResult::Child => Ok(Fork::Child { inside: false }),
    }
}
