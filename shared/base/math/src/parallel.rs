//! Applies a function to many parts, on all processors.

use std::cell::Cell;
use std::thread;

thread_local! {
    /// Whether this thread already processes a part of a divided list. Lists within its part are then not
    /// divided again, because that could start as many threads as the square of the number of processors.
    static DIVIDED: Cell<bool> = const { Cell::new(false) };
}

/// Number of threads that run at once.
#[must_use]
pub fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The result of `work` for every part, in order, computed on as many threads as there are processors.
///
/// # Panics
/// If `work` panics.
pub fn in_parallel<P: Sync, R: Send>(parts: &[P], work: impl Fn(&P) -> R + Sync) -> Vec<R> {
    let threads = if DIVIDED.get() { 1 } else { processors() };
    let each = parts.len().div_ceil(threads).max(1);
    if each >= parts.len() {
        return parts.iter().map(work).collect();
    }
    let work = &work;
    let some = |part: &[P]| part.iter().map(work).collect::<Vec<R>>();
    thread::scope(|scope| {
        let start = |part| {
            let run = move || {
                DIVIDED.set(true);
                some(part)
            };
            // If no thread can be created, the current thread does the work.
            let handle = thread::Builder::new().spawn_scoped(scope, run);
            handle.map_err(|_| part)
        };
        let running: Vec<_> = parts.chunks(each).map(start).collect();
        let done = running
            .into_iter()
            .map(|t| match t.map(thread::ScopedJoinHandle::join) {
                Ok(Ok(done)) => done,
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                Err(part) => some(part),
            });
        done.flatten().collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_worked_on_once_and_in_order() {
        for n in 0..20 {
            let parts: Vec<usize> = (0..n).collect();
            let within = |k: &usize| in_parallel(&[*k; 3], |k| k * k);
            let expected: Vec<Vec<usize>> = parts.iter().map(|k| vec![k * k; 3]).collect();
            assert_eq!(in_parallel(&parts, within), expected);
        }
    }

    #[test]
    fn a_list_within_a_part_stays_on_its_thread() {
        let ids = in_parallel(&[0; 8], |_| {
            let within = in_parallel(&[0; 8], |_| thread::current().id());
            (thread::current().id(), within)
        });
        for (id, within) in ids {
            let here = processors() == 1 || within.iter().all(|other| *other == id);
            assert!(here);
        }
    }
}
