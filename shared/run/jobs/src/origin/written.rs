//! An origin and its serialised form.

use std::collections::BTreeMap;
use std::str::FromStr;

use nix::libc::RLIM_INFINITY;
use serde::{Deserialize, Serialize};

use super::limits::{LIMITS, Limit};
use crate::cpus::{Cpus, CpusError, ranges};

/// Attributes that a process inherits from its parent: file mode mask, niceness, processors, resource limits, and
/// ignored signals.
///
/// Two attributes are not included: SIGPIPE, which every Rust program ignores, so that the parent's choice is lost; and
/// the limit of real-time processes (`RLIMIT_RTTIME`), which marks the processes of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Wire", into = "Wire")]
pub struct Origin {
    pub(super) umask: u32,
    /// From -20 (favoured) to 19.
    pub(super) nice: i32,
    /// Empty only if the system does not report them.
    pub(super) cpus: Vec<usize>,
    /// In the order of [`LIMITS`].
    pub(super) limits: [Limit; LIMITS.len()],
    /// Numbers of signals, ascending.
    pub(super) ignored: Vec<i32>,
}

/// The largest number of a signal in Linux.
pub(super) const SIGNALS: i32 = 64;

/// Serialised form of an origin. Missing members mean 0, no limit, or no signal.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    /// Octal, as shells show it.
    umask: String,
    #[serde(default, skip_serializing_if = "is_zero")]
    nice: i32,
    /// Ranges, such as `0-3,8`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    cpus: String,
    /// Soft and hard limit; `null` means no limit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    limits: BTreeMap<String, [Option<u64>; 2]>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ignored: Vec<i32>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &i32) -> bool {
    *number == 0
}

impl From<Origin> for Wire {
    fn from(origin: Origin) -> Self {
        let wire = |limit| (limit != RLIM_INFINITY).then_some(limit);
        let limits = LIMITS
            .iter()
            .zip(origin.limits)
            .filter(|(_, limit)| *limit != Limit::NONE);
        Self {
            umask: format!("{:04o}", origin.umask),
            nice: origin.nice,
            cpus: ranges(&origin.cpus),
            limits: limits
                .map(|((name, _), l)| ((*name).to_owned(), [wire(l.soft), wire(l.hard)]))
                .collect(),
            ignored: origin.ignored,
        }
    }
}

/// A serialised origin is invalid. The variant names the invalid part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// The mask.
    #[error("umask {0:?} is not an octal number from 0000 to 0777")]
    Umask(String),
    /// The niceness.
    #[error("nice {0} is not from -20 to 19")]
    Nice(i32),
    /// The processors.
    #[error("cpus: {0}")]
    Cpus(#[from] CpusError),
    /// The name of a limit.
    #[error("limits: there is no limit {0:?}; prlimit(1) lists their names in small letters")]
    Limit(String),
    /// A soft limit above the hard one.
    #[error("limits: {0} has a soft limit above the hard one")]
    Order(String),
    /// A signal.
    #[error("ignored: {0} is not a signal from 1 to {SIGNALS}")]
    Signal(i32),
}

impl TryFrom<Wire> for Origin {
    type Error = OriginError;

    fn try_from(wire: Wire) -> Result<Self, OriginError> {
        let umask = u32::from_str_radix(&wire.umask, 8)
            .ok()
            .filter(|mask| *mask <= 0o777);
        if !(-20..=19).contains(&wire.nice) {
            return Err(OriginError::Nice(wire.nice));
        }
        let cpus = match wire.cpus.as_str() {
            "" => Cpus::Any,
            text => Cpus::from_str(text)?,
        };
        let mut limits = [Limit::NONE; LIMITS.len()];
        for (name, [soft, hard]) in wire.limits {
            let index = LIMITS.iter().position(|(known, _)| *known == name);
            let known = index.and_then(|index| limits.get_mut(index));
            let Some(limit) = known else {
                return Err(OriginError::Limit(name));
            };
            limit.soft = soft.unwrap_or(RLIM_INFINITY);
            limit.hard = hard.unwrap_or(RLIM_INFINITY);
            if limit.soft > limit.hard {
                return Err(OriginError::Order(name));
            }
        }
        if let Some(&signal) = wire.ignored.iter().find(|s| !(1..=SIGNALS).contains(*s)) {
            return Err(OriginError::Signal(signal));
        }
        Ok(Self {
            umask: umask.ok_or(OriginError::Umask(wire.umask))?,
            nice: wire.nice,
            cpus: match cpus {
                Cpus::List(list) => list,
                Cpus::Auto | Cpus::Any => Vec::new(),
            },
            limits,
            ignored: wire.ignored,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_short() {
        let short =
            r#"{"umask":"0022","nice":5,"cpus":"0-1,3","limits":{"core":[0,null]},"ignored":[1]}"#;
        let origin: Origin = serde_json::from_str(short).unwrap();
        assert_eq!(
            (origin.umask, origin.cpus.as_slice()),
            (0o22, &[0, 1, 3][..])
        );
        assert_eq!(serde_json::to_string(&origin).unwrap(), short);
    }

    #[test]
    fn what_no_process_can_have_is_refused_by_name() {
        for (text, why) in [
            (r#"{"umask":"0999"}"#, "umask"),
            (r#"{"umask":"1000"}"#, "umask"),
            (r#"{"umask":"0","nice":20}"#, "nice 20"),
            (r#"{"umask":"0","cpus":"3-1"}"#, "cpus"),
            (r#"{"umask":"0","limits":{"files":[1,1]}}"#, "files"),
            (r#"{"umask":"0","limits":{"core":[null,1]}}"#, "core"),
            (r#"{"umask":"0","ignored":[0]}"#, "ignored"),
            (r#"{"umask":"0","color":1}"#, "color"),
        ] {
            let error = serde_json::from_str::<Origin>(text).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
