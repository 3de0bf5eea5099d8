//! NVIDIA MPS: the control program, a private daemon, and checks that a client really is attached.
//!
//! Invariants: the compute mode, clocks and MIG are never touched. A daemon that [`Mps::start`] started is stopped when
//! the value is dropped, and the next start finds and removes a daemon that a killed owner left behind. A daemon that
//! was already running is used ([`Mps::attach`]) but never stopped.
//!
//! This relies on NVIDIA's MPS documentation (r510 to r580): the control program reads commands on stdin and exits
//! with 0 whenever it could reach the daemon, *even if the command failed*, so its output decides. A client that
//! cannot reach the daemon silently runs without MPS. After a fatal fault the server is in state FAULT until all
//! clients have exited.

mod control;
mod daemon;
mod error;
mod orphans;
mod process;
mod program;
mod shared;
mod stale;

pub use control::{Control, find_control};
pub use daemon::{Attachment, Mps, MpsOptions, Ready};
pub use error::{CONTROL, MpsError, Pid, ServerStatus};
pub use orphans::clean_orphans;
pub(crate) use program::is_program;
pub use program::is_program_name;
pub use shared::{Membership, SharedMps};
pub use stale::default_root;

/// The variable that limits the device memory of a client on each of the `gpus` GPUs that it sees, and its value: in
/// MiB, rounded up (`CUDA_MPS_PINNED_DEVICE_MEM_LIMIT`, CUDA 11.5 and newer).
#[must_use]
pub fn memory_limit(memory: units::Bytes, gpus: usize) -> (&'static str, String) {
    let mebibytes = memory.get().div_ceil(1 << 20);
    let each: Vec<String> = (0..gpus).map(|gpu| format!("{gpu}={mebibytes}M")).collect();
    ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", each.join(","))
}
