use crate::process::name;

/// First characters of the names of NVIDIA's control program and server; the kernel keeps 15 bytes.
const PROGRAM: &str = "nvidia-cuda-mps";

/// Whether a process is NVIDIA's control program or server.
pub(crate) fn is_program(pid: i32) -> bool {
    name(pid).starts_with(PROGRAM)
}
