//! Amounts in the units of other systems.

use super::found::Found;

/// Factor on the peak memory: adds a tenth, because memory is sampled only twice a second, and later jobs of a template
/// have other values.
const MARGIN: f64 = 1.1;

/// Bytes with the margin.
pub(super) fn with_margin(bytes: u64) -> u64 {
    (bytes as f64 * MARGIN).ceil() as u64
}

/// Mebibytes with the margin, rounded up.
pub(super) fn mebibytes(bytes: u64) -> u64 {
    with_margin(bytes).div_ceil(1 << 20)
}

/// `whole / n`, rounded down to ten-thousandths, the unit of Ray, so that `n` of them fit.
pub(super) fn part(whole: f64, n: usize) -> f64 {
    (whole / n as f64 * 1e4 + 1e-6).floor() / 1e4
}

/// The variable of the cap of an MPS client, percent.
pub(super) const CAP: &str = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";

/// Refuses what was learnt on processors.
pub(super) fn only_gpus(found: &Found, system: &str) -> Result<(), String> {
    match found.processors {
        None => Ok(()),
        Some(_) => Err(format!(
            "{system} shares GPUs, and this was learnt on {}; --for k8s, ecs, slurm, ray, flower or nvflare have a form for it",
            found.device
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_fit_as_were_found() {
        for n in 1..=64 {
            assert_eq!((1.0 / part(1.0, n)).floor(), n as f64, "{n} on a GPU");
            assert_eq!(
                (2.0 / part(2.0, n)).floor(),
                n as f64,
                "{n} on two processors"
            );
        }
        assert_eq!(part(8.0, 8), 1.0);
    }
}
