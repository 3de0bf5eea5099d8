use std::fs;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Signals that ask this process to end: SIGINT, SIGTERM, and SIGHUP unless it was ignored at the start. `nohup`
/// relies on an ignored SIGHUP, which a handler would override.
#[must_use]
pub fn ending_signals() -> Vec<i32> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    [SIGINT, SIGTERM, SIGHUP]
        .into_iter()
        .filter(|&signal| signal != SIGHUP || !is_ignored(&status, signal))
        .collect()
}

/// Whether `/proc/PID/status` says that a signal is ignored: bit `signal - 1` of `SigIgn`.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status
        .lines()
        .find_map(|l| l.strip_prefix("SigIgn:"))
        .and_then(|m| u64::from_str_radix(m.trim(), 16).ok());
    mask.is_some_and(|m| m >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_is_read() {
        let status = "Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000002\n";
        assert!(is_ignored(status, SIGHUP));
        assert!(is_ignored(status, 13));
        assert!(!is_ignored(status, SIGINT));
        assert!(!is_ignored("", SIGHUP));
    }
}
