use std::borrow::Cow;

use efficiency::{GradientNorms, NormsError};
use regex::bytes::Regex;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// One message from a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Message {
    /// All start-up work that does not depend on the checkpoint is done; the job waits for `run`.
    Loaded,
    /// The job is warm. A GPU worker adds how it sees its share.
    Ready {
        /// Multiprocessors that the worker may use.
        sms: Option<u32>,
        /// Whether the worker is a client of NVIDIA MPS.
        mps: Option<bool>,
    },
    /// Trained on this many samples since the last reported step.
    Step {
        /// Number of steps in this line: 1, or more from a worker that combines short steps.
        steps: u64,
        /// Samples.
        samples: u64,
        /// Training loss; finite.
        loss: Option<f64>,
        /// Number of the step over all restarts, if the job counts them.
        step: Option<u64>,
        /// Squared norms of its gradients, if the job reports them, or why they are invalid.
        norms: Option<Result<GradientNorms, NormsError>>,
    },
    /// Waiting for orders; no step is in progress.
    Parked,
    /// All samples done.
    Done {
        /// Total number of samples, if reported.
        samples: Option<u64>,
    },
}

/// How a job reports its progress.
#[derive(Debug, Clone, Default)]
pub enum ProgressSource {
    /// The worker protocol: JSON lines with a member `mt`.
    #[default]
    Protocol,
    /// The job's own log lines. The worker protocol is understood, too.
    Lines(Counter),
}

/// A counter in the lines of a job, and its state.
#[derive(Debug, Clone)]
pub struct Counter {
    regex: Regex,
    /// Samples per counted unit.
    unit: f64,
    counts: Counts,
    /// The previous number, if the counter is cumulative.
    last: f64,
    /// The first numbers of a group `samples`, to detect a cumulative counter.
    first: Vec<u64>,
    /// Lines that matched.
    matched: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counts {
    /// Since the previous line.
    Increments,
    /// Since the start.
    Total(&'static str),
}

/// Samples per unit, for units other than samples.
#[derive(Debug, Clone, Copy, Default)]
pub struct Units {
    /// Samples of a step: the batch size.
    pub step: Option<u64>,
    /// Samples of an epoch: those of the task's round.
    pub epoch: Option<u64>,
}

/// Added to messages about a job that never became ready, and whose own expression (`progress.regex`) never matched:
/// its first match would make it ready.
pub const NO_MATCH: &str = " (no line of it has matched progress.regex)";

/// Number of values of a group `samples` that are checked. A cumulative counter grows by its first value every time.
/// Steps whose sizes do the same five times in a row are much rarer, because the batches of a job usually have one
/// size.
const LOOK_AT: usize = 5;

/// A progress expression that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("progress.regex: {0}")]
pub struct ProgressError(String);

/// Maximum plausible samples per step. A step is a batch, at most 2^20 samples, and a job with its own log lines may
/// report an epoch in one line. A line that claims more (2^64 - 1 is what an uninitialised counter shows) would make
/// every later rate meaningless.
const MOST_SAMPLES_OF_A_STEP: u64 = 1 << 40;

#[derive(Deserialize)]
struct Line {
    mt: Kind,
    samples: Option<u64>,
    loss: Option<f64>,
    step: Option<u64>,
    steps: Option<u64>,
    sms: Option<u32>,
    mps: Option<bool>,
    norms: Option<Norms>,
}

/// The member `norms` of a step. An invalid one is no reason to discard the step.
#[derive(Deserialize)]
#[serde(untagged)]
enum Norms {
    Told {
        small: u64,
        small_sq: Option<f64>,
        large: u64,
        large_sq: Option<f64>,
    },
    Other(IgnoredAny),
}

impl Norms {
    fn read(self) -> Result<GradientNorms, NormsError> {
        match self {
            Self::Told {
                small,
                small_sq,
                large,
                large_sq,
            } => {
                let of = |square: Option<f64>| square.unwrap_or(f64::NAN);
                GradientNorms::new(small, of(small_sq), large, of(large_sq))
            }
            Self::Other(_) => Err(NormsError::Shape),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Loaded,
    Ready,
    Step,
    Parked,
    Done,
}

impl ProgressSource {
    /// The progress of a job as specified in a workload.
    ///
    /// # Errors
    /// [`ProgressError`] if the expression does not compile or has no group that counts.
    pub fn from_document(progress: &doc::Progress, units: Units) -> Result<Self, ProgressError> {
        match &progress.regex {
            None => Ok(Self::Protocol),
            Some(text) => Self::from_regex(text, units),
        }
    }

    /// Progress from log lines, by a regular expression with a counting group.
    ///
    /// # Errors
    /// Like [`ProgressSource::from_document`].
    pub fn from_regex(text: &str, units: Units) -> Result<Self, ProgressError> {
        let regex = regex::bytes::RegexBuilder::new(text)
            .size_limit(doc::Progress::LARGEST_REGEX)
            .build()
            .map_err(|error| ProgressError(error.to_string()))?;
        let name = regex.capture_names().flatten().find_map(|name| {
            doc::Progress::COUNTS
                .into_iter()
                .find(|count| *count == name)
        });
        let lacks = |what: &str| {
            ProgressError(format!(
                "the group `{}` needs {what}",
                name.unwrap_or_default()
            ))
        };
        let (counts, unit) = match name {
            Some("samples") => (Counts::Increments, 1),
            Some("total") => (Counts::Total("total"), 1),
            Some("steps") => {
                let batch = units.step.ok_or_else(|| lacks("a batch size"))?;
                (Counts::Total("steps"), batch)
            }
            Some("epochs") => {
                let samples = units.epoch.ok_or_else(|| lacks("the task's `samples`"))?;
                (Counts::Total("epochs"), samples)
            }
            _ => {
                let advice = "no group named `samples`, `total`, `steps` or `epochs`; write for \
                              example `step (?P<samples>[0-9]+)`";
                return Err(ProgressError(advice.to_owned()));
            }
        };
        Ok(Self::Lines(Counter {
            regex,
            unit: unit as f64,
            counts,
            last: 0.0,
            first: Vec::new(),
            matched: 0,
        }))
    }

    /// The message in a line (without its line end), if any. A line that is no message, even if it is not valid text,
    /// is not an error.
    #[must_use]
    pub fn parse(&mut self, line: &[u8]) -> Option<Message> {
        if let Some(message) = parse_protocol(line) {
            return Some(message);
        }
        match self {
            Self::Protocol => None,
            Self::Lines(counter) => counter.parse(line),
        }
    }

    /// The error message if a line without progress is a step with an implausible number of samples.
    #[must_use]
    pub fn disbelieved(line: &[u8]) -> Option<String> {
        let line = line.trim_ascii();
        if line.first() != Some(&b'{') || line.last() != Some(&b'}') {
            return None;
        }
        let line: Line = serde_json::from_slice(line).ok()?;
        let samples = line.samples.filter(|n| !is_believable(n))?;
        matches!(line.mt, Kind::Step).then(|| {
            format!(
                "it reports only implausible steps, the last of {samples} samples (at most {MOST_SAMPLES_OF_A_STEP}); report the samples of each step, the batch size"
            )
        })
    }

    /// A warning, given once, if numbers that were read as samples per line seem to be cumulative.
    #[must_use]
    pub fn doubt(&mut self) -> Option<String> {
        let Self::Lines(counter) = self else {
            return None;
        };
        if counter.first.len() < LOOK_AT {
            return None;
        }
        // Taken, so that it is checked only once.
        let first = std::mem::take(&mut counter.first);
        let step = first[0];
        let counting = (1..).zip(&first).all(|(k, n)| step > 0 && *n == k * step);
        counting.then(|| {
            format!(
                "progress.regex: the group `samples` keeps counting up ({}, {}, {}, ...), but means the samples since the line before; call the group `total`",
                first[0], first[1], first[2]
            )
        })
    }
}

impl Counter {
    fn parse(&mut self, line: &[u8]) -> Option<Message> {
        let plain = without_colours(line);
        let groups = self.regex.captures(&plain)?;
        let number = |name| -> Option<f64> {
            let text = std::str::from_utf8(groups.name(name)?.as_bytes()).ok()?;
            crate::number(text).and_then(finite)
        };
        let loss = number("loss");
        let samples = match self.counts {
            Counts::Increments => {
                let text = std::str::from_utf8(groups.name("samples")?.as_bytes()).ok()?;
                crate::number(text).map(|samples| samples as u64)
            }
            Counts::Total(name) => {
                let now = number(name).filter(|n| *n >= 0.0)?;
                // If the count falls, it was reset, as at the start of an epoch or a phase.
                let before = if now < self.last { 0.0 } else { self.last };
                let more = (now * self.unit).round() - (before * self.unit).round();
                let believed = more <= MOST_SAMPLES_OF_A_STEP as f64;
                if believed {
                    self.last = now;
                }
                believed.then_some(more as u64)
            }
        };
        let samples = samples.filter(is_believable)?;
        self.matched += 1;
        if self.counts == Counts::Increments && self.matched <= LOOK_AT as u64 {
            self.first.push(samples);
        }
        Some(Message::Step {
            steps: 1,
            samples,
            loss,
            step: None,
            norms: None,
        })
    }
}

/// Parses a number with or without thousands separators: `10,000`, `10_000`, `10'000`.
#[must_use]
pub fn number(text: &str) -> Option<f64> {
    text.trim().replace([',', '_', '\''], "").parse().ok()
}

/// A line without the colours and cursor movements of a terminal (ECMA-48 control sequences).
#[must_use]
pub fn without_colours(line: &[u8]) -> Cow<'_, [u8]> {
    const ESCAPE: u8 = 0x1b;
    if !line.contains(&ESCAPE) {
        return Cow::Borrowed(line);
    }
    let mut plain = Vec::with_capacity(line.len());
    let mut rest = line.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        if byte != ESCAPE {
            plain.push(byte);
        } else if rest.next_if_eq(&b'[').is_some() {
            // Skips parameters up to the byte that ends the sequence.
            while rest.next().is_some_and(|b| !(0x40..=0x7e).contains(&b)) {}
        }
    }
    Cow::Owned(plain)
}

fn parse_protocol(line: &[u8]) -> Option<Message> {
    let line = line.trim_ascii();
    // Most lines are not messages; checking two bytes is cheaper than parsing.
    if line.first() != Some(&b'{') || line.last() != Some(&b'}') {
        return None;
    }
    let line: Line = serde_json::from_slice(line)
        .or_else(|_| serde_json::from_slice(&without_nan(line)))
        .ok()?;
    Some(match line.mt {
        Kind::Loaded => Message::Loaded,
        Kind::Ready => Message::Ready {
            sms: line.sms,
            mps: line.mps,
        },
        Kind::Step => Message::Step {
            steps: line.steps.filter(is_believable).unwrap_or(1).max(1),
            samples: line.samples.filter(is_believable)?,
            loss: line.loss.and_then(finite),
            step: line.step,
            norms: line.norms.map(Norms::read),
        },
        Kind::Parked => Message::Parked,
        Kind::Done => Message::Done {
            samples: line.samples,
        },
    })
}

/// Replaces `NaN` and infinity, which Python writes but JSON does not have, by null: the steps of a diverging training
/// still count.
fn without_nan(line: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(line)
        .replace("-Infinity", "null")
        .replace("Infinity", "null");
    text.replace("NaN", "null").into_bytes()
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
        let mut p = ProgressSource::Protocol;
        let ready = Message::Ready {
            sms: None,
            mps: None,
        };
        assert_eq!(p.parse(br#"{"mt":"ready"}"#), Some(ready));
        assert_eq!(p.parse(br#"{"mt":"loaded"}"#), Some(Message::Loaded));
        let step = Message::Step {
            steps: 1,
            samples: 128,
            loss: Some(2.3),
            step: Some(7),
            norms: None,
        };
        let line = br#" {"mt":"step","samples":128,"step":7,"loss":2.3,"lr":1} "#;
        assert_eq!(p.parse(line), Some(step));
        let told = |line: &str| match ProgressSource::Protocol.parse(line.as_bytes()) {
            Some(Message::Step { steps, samples, .. }) => (steps, samples),
            other => panic!("{other:?}"),
        };
        assert_eq!(told(r#"{"mt":"step","samples":96,"steps":3}"#), (3, 96));
        assert_eq!(told(r#"{"mt":"step","samples":96,"steps":0}"#), (1, 96));
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
    fn norms_that_are_none_do_not_cost_the_step() {
        let step = |norms: &str| {
            let line = format!(r#"{{"mt":"step","samples":32,"loss":NaN,"norms":{norms}}}"#);
            match ProgressSource::Protocol.parse(line.as_bytes()) {
                Some(Message::Step {
                    samples: 32,
                    loss: None,
                    norms,
                    ..
                }) => norms,
                other => panic!("{norms}: {other:?}"),
            }
        };
        let told = |small: &str, small_sq: &str, large: &str, large_sq: &str| {
            step(&format!(
                r#"{{"small":{small},"small_sq":{small_sq},"large":{large},"large_sq":{large_sq}}}"#
            ))
        };
        let good = GradientNorms::new(8, 12.0, 32, 4.5);
        assert_eq!(told("8", "12", "32", "4.5"), Some(good));
        for (found, wanted) in [
            (told("8", "NaN", "32", "4.5"), NormsError::NotFinite),
            (told("8", "12", "32", "-Infinity"), NormsError::NotFinite),
            (told("8", "12", "32", "null"), NormsError::NotFinite),
            (told("8", "-12", "32", "4.5"), NormsError::Negative),
            (told("32", "12", "32", "4.5"), NormsError::Sizes),
            (told("0", "12", "32", "4.5"), NormsError::Sizes),
            (told("-8", "12", "32", "4.5"), NormsError::Shape),
            (told("8", "\"x\"", "32", "4.5"), NormsError::Shape),
            (step("[1,2]"), NormsError::Shape),
            (step("{}"), NormsError::Shape),
        ] {
            assert_eq!(found, Some(Err(wanted)));
        }
        assert_eq!(step("null"), None);
    }

    #[test]
    fn reads_log_lines_of_others() {
        let mut p =
            ProgressSource::from_regex(r"trained (?P<samples>\d+) .*loss=(?P<loss>\S+)", UNITS)
                .unwrap();
        let step = |loss| {
            Some(Message::Step {
                steps: 1,
                samples: 64,
                loss,
                step: None,
                norms: None,
            })
        };
        assert_eq!(p.parse(b"[3] trained 64 in 1 s, loss=0.5"), step(Some(0.5)));
        assert_eq!(p.parse(b"trained 64 loss=nan"), step(None));
        assert_eq!(p.parse(b"trained 99999999999999999999999 loss=1"), None);
        assert_eq!(p.parse(b"trained 18446744073709551615 loss=1"), None);
        assert!(ProgressSource::from_regex("(x", UNITS).is_err());
        assert!(ProgressSource::from_regex("(x)", UNITS).is_err());
    }

    fn counted(regex: &str, lines: &[&str]) -> (Vec<u64>, Option<String>) {
        let mut progress = ProgressSource::from_regex(regex, UNITS).unwrap();
        let mut samples = Vec::new();
        let mut doubt = None;
        for line in lines {
            if let Some(Message::Step { samples: n, .. }) = progress.parse(line.as_bytes()) {
                samples.push(n);
            }
            doubt = doubt.or(progress.doubt());
        }
        (samples, doubt)
    }

    const UNITS: Units = Units {
        step: Some(32),
        epoch: Some(1000),
    };

    #[test]
    fn reads_counts_of_every_kind() {
        let cases: [(&str, &[&str], &[u64]); 5] = [
            (
                "n=(?P<total>[0-9]+)",
                &["n=32", "n=64", "x", "n=64", "n=96"],
                &[32, 32, 0, 32],
            ),
            // A count that starts again with each epoch, like that of a progress bar.
            (
                r"(?P<steps>\d+)/10",
                &["1/10", "9/10", "\x1b[32m 2/10\x1b[0m"],
                &[32, 256, 64],
            ),
            (
                r"epoch (?P<epochs>\S+)",
                &["epoch 0.5", "epoch 1.25", "epoch x"],
                &[500, 750],
            ),
            ("(?P<total>[-0-9e]+)", &["-5", "1e30", "7"], &[7]),
            ("(?P<samples>[0-9]+)", &["5", "7"], &[5, 7]),
        ];
        for (regex, lines, wanted) in cases {
            assert_eq!(counted(regex, lines), (wanted.to_vec(), None), "{regex}");
        }
        let without = ProgressSource::from_regex("(?P<steps>.)", Units::default());
        assert!(without.unwrap_err().to_string().contains("batch size"));
    }

    #[test]
    fn a_counter_taken_for_increments_is_doubted_once() {
        let owned: Vec<String> = (1..20).map(|i| (i * 32).to_string()).collect();
        let lines: Vec<&str> = owned.iter().map(String::as_str).collect();
        let (_, doubt) = counted("(?P<samples>[0-9]+)", &lines);
        assert!(doubt.unwrap().contains("(32, 64, 96, ...)"));
        for good in [
            &["32"; 9],
            &["0"; 9],
            &["1", "2", "4", "4", "5", "6", "7", "8", "9"],
        ] {
            assert_eq!(counted("(?P<samples>[0-9]+)", good).1, None);
        }
    }
}
