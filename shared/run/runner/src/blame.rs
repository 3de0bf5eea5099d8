//! Whether a job that died under a faulted MPS server caused the fault, from the end of its log.
//!
//! NVIDIA documents that all clients of the server get an error, and that the error does not name the cause. But an
//! error about the action of a kernel most likely comes from the job of that kernel, and some errors only reach the
//! other clients.

/// Who caused a fault, according to the messages of a job. A smaller value means that this job is more likely.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Blame {
    /// Its messages name an error of its own kernels.
    Own,
    /// Its messages are ambiguous.
    Unclear,
    /// Its messages say that the server ended it.
    Others,
}

/// Messages of CUDA about an error of a kernel: sentences of the runtime, and names of the driver.
const OWN: [&str; 12] = [
    "illegal memory access",
    "illegal_address",
    "device-side assert",
    "cuda_error_assert",
    "misaligned address",
    "misaligned_address",
    "illegal instruction",
    "illegal_instruction",
    "invalid program counter",
    "invalid_pc",
    "hardware stack error",
    "hardware_stack_error",
];

/// Messages of CUDA to a client whose server was ended or does not answer.
const OTHERS: [&str; 6] = [
    "mps client has been terminated",
    "mps_client_terminated",
    "mps_rpc_failure",
    "mps rpc",
    "mps_server_not_ready",
    "mps server is not ready",
];

pub(crate) fn blame(tail: &str) -> Blame {
    let small = tail.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| small.contains(word));
    // Checked first, because a terminated client may also have printed a stack with words of the other list.
    if has(&OTHERS) {
        Blame::Others
    } else if has(&OWN) {
        Blame::Own
    } else {
        Blame::Unclear
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_a_kernel_is_ones_own() {
        let own = "RuntimeError: CUDA error: an illegal memory access was encountered";
        assert_eq!(blame(own), Blame::Own);
        let assert = "CUDA error: device-side assert triggered\nCompile with TORCH_USE_CUDA_DSA";
        assert_eq!(blame(assert), Blame::Own);
        let unclear = "RuntimeError: CUDA error: unspecified launch failure";
        assert_eq!(blame(unclear), Blame::Unclear);
        assert_eq!(blame("CUDA_ERROR_MPS_CLIENT_TERMINATED"), Blame::Others);
        assert!(Blame::Own < Blame::Unclear && Blame::Unclear < Blame::Others);
    }
}
