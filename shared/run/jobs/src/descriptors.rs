//! Limits the open files of a new process to its standard streams.
//!
//! This library opens every file with close-on-exec. But the parent of this process may have passed on other files,
//! such as a lock on descriptor 9 of a script. A server that outlives the script would hold the lock for ever.

use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::libc;
use nix::sys::resource::{Resource, getrlimit};

/// Makes a program inherit only its standard streams. Use it for every program that may outlive its parent.
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

/// Largest descriptor that is closed if the kernel cannot close all at once (before Linux 5.11). Shells use numbers
/// below 256, and programs numbers below their limit, usually 1,024. Some containers have a limit of a thousand
/// million, and trying all numbers would take minutes.
const LARGEST: i32 = 1 << 16;

/// Marks every descriptor above 2 close-on-exec. Makes only async-signal-safe calls.
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
