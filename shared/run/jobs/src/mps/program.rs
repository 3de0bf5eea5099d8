use crate::process::name;

/// First characters of the names of NVIDIA's control program and server; the kernel keeps 15 bytes.
const PROGRAM: &str = "nvidia-cuda-mps";

/// Whether a process is NVIDIA's control program or server.
pub(crate) fn is_program(pid: i32) -> bool {
    is_program_name(&name(pid))
}

/// Whether a process is the control daemon. Its command line decides, because the names of daemon and server differ
/// only after the 15 bytes that the kernel keeps.
pub(super) fn is_control(pid: i32) -> bool {
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let server = b"nvidia-cuda-mps-server";
    is_program(pid) && !command.windows(server.len()).any(|part| part == server)
}

/// Whether a process of this name is NVIDIA's control program or server.
#[must_use]
pub fn is_program_name(name: &str) -> bool {
    name.starts_with(PROGRAM)
}
