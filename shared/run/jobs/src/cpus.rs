//! Pinning of jobs to processors.

use std::str::FromStr;

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

/// How jobs are pinned to processors, so that host-bound jobs do not starve each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Cpus {
    /// Every task gets an equal, exclusive part of the processors that this process may use.
    #[default]
    Auto,
    /// Any job may run anywhere.
    Any,
    /// Like `Auto`, with these processors.
    List(Vec<usize>),
}

/// A text that is not `auto`, `none` or a list such as `0-3,8`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not `auto`, `none` or a list of processors such as 0-3,8")]
pub struct CpusError(String);

/// Largest accepted number of a processor.
const LARGEST: usize = CpuSet::count() - 1;

impl FromStr for Cpus {
    type Err = CpusError;

    fn from_str(text: &str) -> Result<Self, CpusError> {
        match text {
            "auto" => return Ok(Self::Auto),
            "none" => return Ok(Self::Any),
            _ => {}
        }
        let bad = || CpusError(text.to_owned());
        let mut list = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: usize = first.parse().map_err(|_| bad())?;
            let last: usize = last.parse().map_err(|_| bad())?;
            if first > last || last > LARGEST {
                return Err(bad());
            }
            list.extend(first..=last);
        }
        list.sort_unstable();
        list.dedup();
        Ok(Self::List(list))
    }
}

impl Cpus {
    /// The processors of each of `tasks` tasks; an empty list means any. If there are fewer processors than tasks, they
    /// are not divided.
    #[must_use]
    pub fn divide(&self, tasks: usize) -> Vec<Vec<usize>> {
        let all = match self {
            Self::Any => return vec![Vec::new(); tasks],
            Self::Auto => allowed(),
            Self::List(list) => list.clone(),
        };
        if all.len() < tasks {
            let same = if *self == Self::Auto { Vec::new() } else { all };
            return vec![same; tasks];
        }
        (0..tasks)
            .map(|i| all[all.len() * i / tasks..all.len() * (i + 1) / tasks].to_vec())
            .collect()
    }
}

/// Processors that this process may use; empty if the system does not report them.
pub(crate) fn allowed() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(Pid::from_raw(0)) else {
        return Vec::new();
    };
    (0..CpuSet::count())
        .filter(|&cpu| set.is_set(cpu).unwrap_or(false))
        .collect()
}

/// A list of processors as a set; `None` if the list is empty, which means any processor.
pub(crate) fn cpu_set(cpus: &[usize]) -> Option<CpuSet> {
    let mut set = CpuSet::new();
    let mut any = false;
    for &cpu in cpus {
        any |= set.set(cpu).is_ok();
    }
    any.then_some(set)
}

/// Ascending processors as ranges that [`Cpus`] can parse: `0-3,8`.
pub(crate) fn ranges(cpus: &[usize]) -> String {
    let runs = cpus.chunk_by(|a, b| a + 1 == *b);
    let word = |run: &[usize]| match run {
        [first, .., last] => format!("{first}-{last}"),
        run => run.iter().map(usize::to_string).collect(),
    };
    runs.map(word).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        assert_eq!("auto".parse(), Ok(Cpus::Auto));
        assert_eq!("none".parse(), Ok(Cpus::Any));
        assert_eq!("3,0-2,2".parse(), Ok(Cpus::List(vec![0, 1, 2, 3])));
        for text in ["", "7", "0-1", "0-3,8,10-11"] {
            let list = match text.parse() {
                Ok(Cpus::List(list)) => list,
                _ => Vec::new(),
            };
            assert_eq!(ranges(&list), text);
        }
        for bad in ["", "all", "2-1", "1,", "-1", "0-99999999"] {
            assert!(bad.parse::<Cpus>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn every_task_gets_its_own_part() {
        let parts = Cpus::List((0..7).collect()).divide(3);
        assert_eq!(parts, [vec![0, 1], vec![2, 3], vec![4, 5, 6]]);
        assert_eq!(Cpus::List(vec![4]).divide(2), [[4], [4]]);
        assert_eq!(Cpus::Any.divide(2), [vec![], vec![]] as [Vec<usize>; 2]);
        let auto: Vec<usize> = Cpus::Auto.divide(1).concat();
        assert!(!auto.is_empty(), "this machine has a processor");
    }
}
