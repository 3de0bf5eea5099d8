use regex::bytes::Regex;
use serde::Deserialize;

/// One line that a job told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Message {
    /// Warm. A GPU worker adds what it sees of its share.
    Ready {
        /// Multiprocessors that the worker may use.
        sms: Option<u32>,
        /// Whether the worker is a client of NVIDIA MPS.
        mps: Option<bool>,
    },
    /// Trained on so many samples since the last step.
    Step {
        /// Samples.
        samples: u64,
        /// Training loss; finite.
        loss: Option<f64>,
        /// Number of the step over all restarts, if the job counts them.
        step: Option<u64>,
    },
    /// Waiting for orders; no step is under way.
    Parked,
    /// All samples done.
    Done {
        /// Samples in all, if told.
        samples: Option<u64>,
    },
}

/// How a job tells its progress.
#[derive(Debug, Clone, Default)]
pub enum Progress {
    /// The worker protocol: JSON lines with a member `mt`.
    #[default]
    Protocol,
    /// The job's own log lines: a group named `samples` holds the samples since the last such
    /// line, a group `loss` (optional) the loss. The worker protocol is understood too.
    Regex(Regex),
}

/// A progress expression that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("progress.regex: {0}")]
pub struct ProgressError(String);

/// Most samples of one step that are believed. A step is a batch, at most 2^20 samples, and a job
/// with log lines of its own may tell an epoch on one; a line that claims more (2^64 - 1 is what
/// an uninitialised counter shows) would make every rate after it meaningless.
const MOST_SAMPLES_OF_A_STEP: u64 = 1 << 40;

/// Compiled size of a progress expression; a longer one is refused.
const LARGEST_REGEX: usize = 1 << 20;

#[derive(Deserialize)]
struct Line {
    mt: Kind,
    samples: Option<u64>,
    loss: Option<f64>,
    step: Option<u64>,
    sms: Option<u32>,
    mps: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Ready,
    Step,
    Parked,
    Done,
}

impl Progress {
    /// From the `progress` of a job in a workload.
    ///
    /// # Errors
    /// [`ProgressError`] if the expression does not compile or has no group named `samples`.
    pub fn from_document(progress: &doc::Progress) -> Result<Self, ProgressError> {
        match &progress.regex {
            None => Ok(Self::Protocol),
            Some(text) => Self::from_regex(text),
        }
    }

    /// From a regular expression with a group named `samples`.
    ///
    /// # Errors
    /// As [`Progress::from_document`].
    pub fn from_regex(text: &str) -> Result<Self, ProgressError> {
        let regex = regex::bytes::RegexBuilder::new(text)
            .size_limit(LARGEST_REGEX)
            .build()
            .map_err(|error| ProgressError(error.to_string()))?;
        if regex.capture_names().flatten().any(|n| n == "samples") {
            Ok(Self::Regex(regex))
        } else {
            let advice = "no group named `samples`; write for example `step (?P<samples>[0-9]+)`";
            Err(ProgressError(advice.to_owned()))
        }
    }

    /// What a line (without its end) tells, if anything. A line that is not meant for us, also
    /// one that is no text, is no error.
    #[must_use]
    pub fn parse(&self, line: &[u8]) -> Option<Message> {
        if let Some(message) = parse_protocol(line) {
            return Some(message);
        }
        let Self::Regex(regex) = self else {
            return None;
        };
        let groups = regex.captures(line)?;
        let text = |name| std::str::from_utf8(groups.name(name)?.as_bytes()).ok();
        Some(Message::Step {
            samples: text("samples")?.trim().parse().ok().filter(is_believable)?,
            loss: text("loss")
                .and_then(|t| t.trim().parse().ok())
                .and_then(finite),
            step: None,
        })
    }
}

fn parse_protocol(line: &[u8]) -> Option<Message> {
    let line = line.trim_ascii();
    // Most lines are not for us; a look at two bytes is cheaper than a parse.
    if line.first() != Some(&b'{') || line.last() != Some(&b'}') {
        return None;
    }
    let line: Line = serde_json::from_slice(line).ok()?;
    Some(match line.mt {
        Kind::Ready => Message::Ready {
            sms: line.sms,
            mps: line.mps,
        },
        Kind::Step => Message::Step {
            samples: line.samples.filter(is_believable)?,
            loss: line.loss.and_then(finite),
            step: line.step,
        },
        Kind::Parked => Message::Parked,
        Kind::Done => Message::Done {
            samples: line.samples,
        },
    })
}

fn is_believable(samples: &u64) -> bool {
    *samples <= MOST_SAMPLES_OF_A_STEP
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_protocol() {
        let p = Progress::Protocol;
        let ready = Message::Ready {
            sms: None,
            mps: None,
        };
        assert_eq!(p.parse(br#"{"mt":"ready"}"#), Some(ready));
        let step = Message::Step {
            samples: 128,
            loss: Some(2.3),
            step: Some(7),
        };
        let line = br#" {"mt":"step","samples":128,"step":7,"loss":2.3,"lr":1} "#;
        assert_eq!(p.parse(line), Some(step));
        for bad in [
            &b"epoch 3"[..],
            br#"{"mt":"step"}"#,
            br#"{"mt":"step","samples":-3}"#,
            br#"{"mt":"step","samples":1000000000000000000}"#,
            br#"{"mt":"step","samples":18446744073709551615}"#,
            br#"{"mt":"fly"}"#,
            b"\xff\xfe{}",
            b"",
        ] {
            assert_eq!(p.parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn reads_log_lines_of_others() {
        let p = Progress::from_regex(r"trained (?P<samples>\d+) .*loss=(?P<loss>\S+)").unwrap();
        let step = |loss| {
            Some(Message::Step {
                samples: 64,
                loss,
                step: None,
            })
        };
        assert_eq!(p.parse(b"[3] trained 64 in 1 s, loss=0.5"), step(Some(0.5)));
        assert_eq!(p.parse(b"trained 64 loss=nan"), step(None));
        assert_eq!(p.parse(b"trained 99999999999999999999999 loss=1"), None);
        assert_eq!(p.parse(b"trained 18446744073709551615 loss=1"), None);
        assert!(Progress::from_regex("(x").is_err());
        assert!(Progress::from_regex("(x)").is_err());
    }
}
