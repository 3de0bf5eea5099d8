//! Stops processes temporarily.

use crate::pass_on;
use crate::process::family;

/// Numbers of SIGSTOP and SIGCONT.
const HOLD: i32 = 19;
const GO_ON: i32 = 18;

/// A stopped process with all its descendants; dropping it lets them continue.
#[derive(Debug)]
pub struct Held(Vec<i32>);

impl Held {
    /// Stops a process and all its descendants. It searches again until it finds no new process, because descendants
    /// may be started during a search; a stopped process starts nothing.
    #[must_use]
    pub fn family(first: i32) -> Self {
        let mut all: Vec<i32> = Vec::new();
        loop {
            let mut new = family(first);
            new.retain(|pid| !all.contains(pid));
            if new.is_empty() {
                return Self(all);
            }
            new.iter().for_each(|&pid| pass_on(pid, HOLD));
            all.extend(new);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Parents continue last, so that no parent runs while one of its children is still stopped.
        self.0.iter().rev().for_each(|&pid| pass_on(pid, GO_ON));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn state(pid: i32) -> String {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after = stat.rsplit(") ").next().unwrap_or_default();
        after.chars().take(1).collect()
    }

    #[test]
    fn a_process_is_held_with_everything_that_it_has_started() {
        let mut sh = std::process::Command::new("sh")
            .args(["-c", "sh -c 'sleep 60; true' & wait"])
            .spawn()
            .unwrap();
        let first = sh.id().cast_signed();
        // Waits until the shell's child has become `sleep`: until then the shell waits in a state that SIGSTOP does not
        // change.
        let sleeps = |pid: &i32| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
            name.is_ok_and(|name| name == "sleep\n")
        };
        while !family(first).iter().any(sleeps) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let held = Held::family(first);
        let all = held.0.clone();
        assert_eq!(all.len(), 3);
        let became = |wanted: &str| {
            let is = |pid: &i32| state(*pid) == wanted;
            (0..500).any(|_| {
                std::thread::sleep(Duration::from_millis(10));
                all.iter().all(is)
            })
        };
        assert!(became("T"), "{all:?}");
        drop(held);
        assert!(became("S"), "{all:?}");
        all.iter().for_each(|&pid| pass_on(pid, 9));
        sh.wait().unwrap();
    }
}
