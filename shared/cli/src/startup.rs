//! State of the process before the Rust runtime changes it.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::unistd::{AccessFlags, access};

static STDOUT_CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether standard output was closed (`>&-`) when the process started.
///
/// Before `main`, the runtime opens `/dev/null` in place of a closed stream; otherwise the next opened file would
/// become standard output. A tool would then write its document to `/dev/null` and exit with 0. In `main`, a closed
/// stream cannot be distinguished from a redirection: Python's `subprocess.DEVNULL` is also `/dev/null`, opened for
/// reading and writing.
pub(crate) fn stdout_was_closed() -> bool {
    STDOUT_CLOSED.load(Ordering::Relaxed)
}

extern "C" fn look() {
    // The link exists if the descriptor is open. Without /proc this is unknown, and standard output counts as open.
    let open = access("/proc/self/fd/1", AccessFlags::F_OK).is_ok();
    let known = access("/proc/self/fd", AccessFlags::F_OK).is_ok();
    STDOUT_CLOSED.store(known && !open, Ordering::Relaxed);
}

#[expect(
    unsafe_code,
    reason = "the loader calls what stands in .init_array before the runtime starts; the function \
              makes two system calls and sets a flag, needs nothing of the runtime, and cannot \
              panic"
)]
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;
