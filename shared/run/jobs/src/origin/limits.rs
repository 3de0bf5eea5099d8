//! Resource limits of processes, by name.

use std::fmt;

use nix::libc::RLIM_INFINITY;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// The limits of an origin, by the names of prlimit(1).
pub(super) const LIMITS: [(&str, Resource); 15] = [
    ("as", Resource::RLIMIT_AS),
    ("core", Resource::RLIMIT_CORE),
    ("cpu", Resource::RLIMIT_CPU),
    ("data", Resource::RLIMIT_DATA),
    ("fsize", Resource::RLIMIT_FSIZE),
    ("locks", Resource::RLIMIT_LOCKS),
    ("memlock", Resource::RLIMIT_MEMLOCK),
    ("msgqueue", Resource::RLIMIT_MSGQUEUE),
    ("nice", Resource::RLIMIT_NICE),
    ("nofile", Resource::RLIMIT_NOFILE),
    ("nproc", Resource::RLIMIT_NPROC),
    ("rss", Resource::RLIMIT_RSS),
    ("rtprio", Resource::RLIMIT_RTPRIO),
    ("sigpending", Resource::RLIMIT_SIGPENDING),
    ("stack", Resource::RLIMIT_STACK),
];

/// A resource limit in the unit of setrlimit(2); `RLIM_INFINITY` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) soft: u64,
    pub(super) hard: u64,
}

impl Limit {
    pub(super) const NONE: Self = Self {
        soft: RLIM_INFINITY,
        hard: RLIM_INFINITY,
    };

    /// The limit of this process.
    pub(super) fn own(resource: Resource) -> Self {
        getrlimit(resource).map_or(Self::NONE, |(soft, hard)| Self { soft, hard })
    }

    /// Sets the limit, or the nearest permitted one; returns whether it is exact. Only makes system
    /// calls.
    pub(super) fn set(self, resource: Resource) -> bool {
        if setrlimit(resource, self.soft, self.hard).is_ok() {
            return true;
        }
        if let Ok((_, most)) = getrlimit(resource) {
            setrlimit(resource, self.soft.min(most), self.hard.min(most)).ok();
        }
        false
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |limit| match limit {
            RLIM_INFINITY => "unlimited".to_owned(),
            limit => limit.to_string(),
        };
        if self.soft == self.hard {
            f.write_str(&word(self.hard))
        } else {
            write!(f, "{} to {}", word(self.soft), word(self.hard))
        }
    }
}
