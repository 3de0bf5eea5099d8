//! Which open files a new process has: its standard streams, and no others.
//!
//! This library opens every file so that a program does not get it. But whoever started this process may have passed
//! on others, such as a lock on descriptor 9 of a script. A server that outlives the script would hold it for ever.

use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::libc;
use nix::sys::resource::{Resource, getrlimit};

/// Makes a program get only its standard streams. For every program that may outlive the one that starts it.
pub fn seal(command: &mut Command) -> &mut Command {
    let hook = || {
        keep_streams_only();
        Ok(())
    };
    // SAFETY: the closure runs between fork and exec, where only async-signal-safe calls are allowed, and makes no
    // other.
    #[expect(unsafe_code, reason = "see above")]
    unsafe {
        command.pre_exec(hook)
    }
}

/// Largest number that is closed where the kernel cannot close all at once (before Linux 5.11). A shell numbers files
/// below 256, and programs below their limit, usually 1,024; where it is a thousand million, as in some containers,
/// trying all would take minutes.
const LARGEST: i32 = 1 << 16;

/// Lets exec close every descriptor above 2. Only async-signal-safe calls are made.
pub(crate) fn keep_streams_only() {
    let first: libc::c_uint = 3;
    // SAFETY: no memory is passed; the descriptors stay open until exec.
    #[expect(unsafe_code, reason = "the C library has no such function before 2.34")]
    let closed = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    if closed == 0 {
        return;
    }
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(LARGEST, |(soft, _)| {
        i32::try_from(soft).map_or(LARGEST, |soft| soft.min(LARGEST))
    });
    for fd in 3..limit {
        // SAFETY: only a flag of a descriptor changes, if there is one.
        #[expect(unsafe_code, reason = "nix asks for an owned descriptor")]
        unsafe {
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
}
