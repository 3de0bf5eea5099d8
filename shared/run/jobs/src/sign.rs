//! Two signs that every process of a job carries, so that it is found wherever it has moved.
//!
//! The descendants of a process inherit both:
//!
//! - the mark, an environment variable, which is readable for users. `env -i`, `sudo` and programs that replace the
//!   environment drop it;
//! - the brand, a resource limit, which survives an empty environment, `setsid` and a double fork.
//!   It is the soft limit on the time that a real-time process may compute without a pause
//!   (`RLIMIT_RTTIME`, setrlimit(2)), the only limit whose value has no effect on other processes.
//!   Brands are 2^60 us or more (36,000 years), so they do not affect real-time processes either.
//!
//! A program that resets its limits loses the brand; then only its control group contains it. Neither sign alone
//! justifies killing a process: see [`Lineage`].

use std::fs;
use std::io;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::mps;
use crate::process::{Identity, Lineage};

/// Variable that marks every process of a job.
pub const MARK: &str = "MT_JOB_MARK";

/// The sign of a job, or of all jobs of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sign {
    /// The token of the run.
    token: String,
    job: Option<u64>,
}

/// Smallest brand: larger than any realistic RLIMIT.
const BRAND: u64 = 1 << 60;
/// Bits of a brand that number the jobs of a run: 268 million starts before a number is reused.
const JOB_BITS: u32 = 28;
const JOBS: u64 = (1 << JOB_BITS) - 1;

impl Sign {
    /// The sign of all jobs of the run with a token.
    pub(crate) fn of_run(token: &str) -> Self {
        Self {
            token: token.to_owned(),
            job: None,
        }
    }

    /// The sign of one job of the run.
    pub(crate) fn of_job(&self, number: u64) -> Self {
        Self {
            token: self.token.clone(),
            job: Some(number),
        }
    }

    /// Value of the variable [`MARK`] of a job.
    pub(crate) fn mark(&self) -> String {
        format!("{}.{}", self.token, self.job.unwrap_or(0))
    }

    /// The limit of a job, microseconds.
    pub(crate) fn brand(&self) -> u64 {
        // The FNV-1a hash. Two runs have the same 32 bits once in four thousand million cases; then their lineages
        // distinguish them.
        let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        let hash = self.token.bytes().fold(0x811c_9dc5, step);
        BRAND | u64::from(hash) << JOB_BITS | (self.job.unwrap_or(0) & JOBS)
    }

    /// The live processes, except this one, that carry this sign and provably belong to the run.
    pub(crate) fn find(&self, lineage: &Lineage) -> Vec<Identity> {
        self.find_with_group(lineage, None)
    }

    /// Like [`Sign::find`], plus the live processes of a process group of the run. One scan of all processes serves
    /// both; the scan is most of the cost at the end of a job.
    pub(crate) fn find_with_group(&self, lineage: &Lineage, group: Option<i32>) -> Vec<Identity> {
        let since_owner = lineage.since_owner();
        let is_on = |p: &Identity| self.is_on(p.pid);
        let carriers: Vec<Identity> = since_owner.iter().map(|(p, _)| *p).filter(is_on).collect();
        let mut found = lineage.claim(&carriers);
        let members = since_owner.iter().filter(|(_, of)| Some(*of) == group);
        found.extend(members.map(|(p, _)| *p));
        found
    }

    fn is_on(&self, pid: i32) -> bool {
        // A process that has gone meanwhile or belongs to another user is not ours.
        let read = |file| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        // MPS programs do not count by their brand: a daemon that a job has started but that others use as well
        // (`mt-launch exec`) drops the mark, but cannot drop the brand.
        self.is_in_environment(&read("environ"))
            || self.is_in_limits(&read("limits")) && !mps::is_program(pid)
    }

    fn is_in_environment(&self, environ: &[u8]) -> bool {
        environ.split(|&b| b == 0).any(|variable| {
            let value = variable
                .strip_prefix(MARK.as_bytes())
                .and_then(|v| v.strip_prefix(b"="));
            let number = value
                .and_then(|v| v.strip_prefix(self.token.as_bytes()))
                .and_then(|v| v.strip_prefix(b"."));
            number.is_some_and(|n| self.job.is_none_or(|job| n == job.to_string().as_bytes()))
        })
    }

    /// Whether `/proc/PID/limits` has the brand.
    fn is_in_limits(&self, limits: &[u8]) -> bool {
        let text = String::from_utf8_lossy(limits);
        let line = text
            .lines()
            .find_map(|l| l.strip_prefix("Max realtime timeout"));
        let soft = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
        let brand = self.brand();
        soft.is_some_and(|soft| match self.job {
            Some(_) => soft == brand,
            None => soft >> JOB_BITS == brand >> JOB_BITS,
        })
    }
}

/// Sets the brand of this process, which survives exec and is inherited by its children. It only makes system calls, so
/// it may be called between fork and exec.
///
/// # Errors
/// If the current limit is lower and this user may not raise it; the mark is then the only sign.
pub(crate) fn bear(brand: u64) -> io::Result<()> {
    let (_, most) = getrlimit(Resource::RLIMIT_RTTIME)?;
    Ok(setrlimit(Resource::RLIMIT_RTTIME, brand, most)?)
}

/// Removes the brand from this process: a job has started it, but it outlives the job on purpose.
pub(crate) fn shed() {
    // If the limit cannot be set, no process has a brand.
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_RTTIME) {
        setrlimit(Resource::RLIMIT_RTTIME, most, most).ok();
    }
}

/// Sets the brand of the first job of the run with this token, before this process becomes a program that this tool
/// attends.
///
/// # Errors
/// If the limit cannot be set; the mark is then the only sign.
pub fn bear_sign(token: &str) -> io::Result<()> {
    bear(Sign::of_run(token).of_job(0).brand())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_is_known_by_its_run_and_by_its_job_and_by_no_other() {
        let run = Sign::of_run("abcdefabcdef");
        let job = run.of_job(12);
        let others = [run.of_job(1), Sign::of_run("abcdefabcdeg").of_job(12)];
        let environ = format!("PATH=/bin\0{MARK}={}\0X=1", job.mark());
        let limits = format!(
            "Max nice priority         0                    0                    \n\
             Max realtime timeout      {}  unlimited            us        \n",
            job.brand()
        );
        assert!(job.brand() < BRAND << 1);
        for ours in [&run, &job] {
            assert!(ours.is_in_environment(environ.as_bytes()));
            assert!(ours.is_in_limits(limits.as_bytes()));
        }
        for other in &others {
            assert!(!other.is_in_environment(environ.as_bytes()), "{other:?}");
            assert!(!other.is_in_limits(limits.as_bytes()), "{other:?}");
        }
        let nothing = "Max realtime timeout      unlimited            unlimited            us";
        assert!(!run.is_in_limits(nothing.as_bytes()) && !run.is_in_limits(b"\xff"));
    }
}
