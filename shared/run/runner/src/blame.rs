//! Whether a job that died under a faulted MPS server caused the fault, from the end of its log.
//!
//! NVIDIA documents that all clients of the server get an error, and that it does not say who caused it. But an error
//! of what a kernel did is first of all that of the job whose kernel did it, and some errors are only those of others.

/// Who caused a fault, as far as the words of a job tell. Smaller: more likely this job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Blame {
    /// It names something that its own kernels did.
    Own,
    /// Its words may mean either.
    Unclear,
    /// It was told that the server ended it.
    Others,
}

/// What CUDA says of a kernel that did something wrong: the sentences of its runtime, and the names in its driver.
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

/// What it says to a client of a server that was ended or does not answer.
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
    // Who was terminated may have printed a stack with other words.
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
