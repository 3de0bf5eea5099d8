//! Variables that programs get unless they are set.

use std::ffi::OsStr;

/// Python buffers output into a pipe, 8 KiB at a time: progress would come in bursts of a hundred lines, or only at the
/// end.
const UNBUFFERED: (&str, &str) = ("PYTHONUNBUFFERED", "1");

/// How often a thread of GNU's OpenMP library looks for the others before it sleeps. By default 300,000 times, some
/// milliseconds at every barrier, which it takes from the threads of other programs, for which their barriers then
/// wait: two copies of a `LightGBM` training took 17 times as long as one after another. The library knows only its own
/// threads; if these exceed the processors, it looks 100 or 1,000 times. 1,000 costs such a training 1 % if it is
/// alone, 100 cost it 13 %. Other OpenMP libraries yield the processor while they wait.
const SPINS: (&str, &str) = ("GOMP_SPINCOUNT", "1000");

/// The user's own choice about this waiting (OpenMP 5.2, section 21.7), which [`SPINS`] would override.
const WAITING: &str = "OMP_WAIT_POLICY";

/// The variables that a program with other variables gets in addition, each with its value.
pub fn defaults(
    is_set: impl Fn(&OsStr) -> bool,
) -> impl Iterator<Item = (&'static str, &'static str)> {
    let waits = is_set(WAITING.as_ref());
    [UNBUFFERED, SPINS]
        .into_iter()
        .filter(move |default| !(is_set(default.0.as_ref()) || waits && *default == SPINS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_stays_and_a_policy_of_waiting_is_a_choice() {
        let names = |set: &[&str]| -> Vec<&str> {
            defaults(|name| set.iter().any(|set| *set == name))
                .map(|(name, _)| name)
                .collect()
        };
        assert_eq!(names(&[]), [UNBUFFERED.0, SPINS.0]);
        assert_eq!(names(&[UNBUFFERED.0]), [SPINS.0]);
        assert_eq!(names(&[SPINS.0]), [UNBUFFERED.0]);
        assert_eq!(names(&[WAITING]), [UNBUFFERED.0]);
    }
}
