//! Finds the progress counter in a command's own output.
//!
//! Every line is compared with a fixed list of counters. The counter that advances most often and falls least often
//! counts as the progress. Numbers that are no counts (a loss, a rate) rise and fall alternately, so their score is not
//! positive.

use std::sync::LazyLock;

use jobs::{Message, ProgressSource, without_colours};
use regex::Regex;

use crate::Marks;

/// A counter: its expression with the group `total`, the unit that it counts, and whether a coarser counter of epochs
/// multiplies its total (`of`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// The expression, as in `progress.regex` of a workload; empty for the worker protocol and for lines of one form,
    /// which need no expression.
    pub regex: &'static str,
    /// What is counted, in the plural.
    pub unit: &'static str,
}

/// Counters from fine to coarse; of equal scores the first wins. A count may have thousands separators, `1,010/10,000`.
pub const FORMS: [Form; 7] = [
    Form {
        regex: r#"(?i)(?:\bseen|\bsamples|\bexamples|\bimages|\btokens)["']?\s*[:=]?\s*(?P<total>(?:[0-9]{1,3}(?:[,_'][0-9]{3})+\b|[0-9]+))(?:\s*/\s*(?P<of>(?:[0-9]{1,3}(?:[,_'][0-9]{3})+\b|[0-9]+)))?"#,
        unit: "samples",
    },
    // The last fraction of a line, since the epoch comes before the step: `tqdm`, `[50/200]`, `50/200`.
    Form {
        regex: r"(?:^|.*[^0-9.,_']|.*[,_'])(?P<total>(?:[0-9]{1,3}(?:[,_'][0-9]{3})+\b|[0-9]+))\s*/\s*(?P<of>(?:[0-9]{1,3}(?:[,_'][0-9]{3})+\b|[0-9]+))",
        unit: "steps",
    },
    // A progress bar in words: `37 of 600`.
    Form {
        regex: r"\b(?P<total>(?:[0-9]{1,3}(?:[,_'][0-9]{3})+\b|[0-9]+)) of (?P<of>(?:[0-9]{1,3}(?:[,_'][0-9]{3})+\b|[0-9]+))\b",
        unit: "steps",
    },
    Form {
        regex: r#"(?i)\b(?:global[ _]?step|steps?|iterations?|iters?|it|batch)\b["']?\s*[:=#]?\s*\[?\s*(?P<total>(?:[0-9]{1,3}(?:[,_'][0-9]{3})+\b|[0-9]+))(?:\s*/\s*(?P<of>(?:[0-9]{1,3}(?:[,_'][0-9]{3})+\b|[0-9]+)))?"#,
        unit: "steps",
    },
    Form {
        regex: r"(?P<total>[0-9]+(?:\.[0-9]+)?)\s?%",
        unit: "percent",
    },
    EPOCHS,
    Form {
        regex: r"(?i)\b(?P<total>(?:[0-9]{1,3}(?:[,_'][0-9]{3})+\b|[0-9]+))\s+(?:samples|images|examples|sequences|steps|iterations|batches)\b",
        unit: "steps",
    },
];

/// The counter of epochs, whose total is the number of times that a counter within an epoch starts again.
const EPOCHS: Form = Form {
    regex: r#"(?i)\bepochs?["']?\s*[:=#]?\s*\[?\s*(?P<total>[0-9]+(?:\.[0-9]+)?)(?:\s*/\s*(?P<of>(?:[0-9]{1,3}(?:[,_'][0-9]{3})+\b|[0-9]+)))?"#,
    unit: "epochs",
};
/// Unused counters of [`FORMS`], made once: a queue creates a detector for each job that it starts, and compiling the
/// expressions takes 4 ms.
static COUNTERS: LazyLock<Vec<Counter>> = LazyLock::new(|| FORMS.map(Counter::new).into());
/// The total number of steps, as trainers print it beside the step or once at the beginning: `"max_steps": 600`, `Total
/// optimization steps = 600`. It is not a count of completed steps.
static TOTAL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    // The expression is a constant, and a test compiles it.
    Regex::new(
        r#"(?i)\b(?:total|max|num)(?:[ _](?:train(?:ing)?|optimization))?[ _](?:steps|iterations|iters)\b["']?\s*[:=]\s*(?P<of>(?:[0-9]{1,3}(?:[,_'][0-9]{3})+\b|[0-9]+))"#,
    )
    .ok()
});
const PROTOCOL: Form = Form {
    regex: "",
    unit: "samples",
};
pub(crate) const LINES: Form = Form {
    regex: "",
    unit: "lines",
};

/// A candidate counter.
#[derive(Debug, Clone)]
pub struct Counter {
    /// Its form.
    pub form: Form,
    /// Work done at each time.
    pub marks: Marks,
    /// The total according to its last line, if given.
    of: Option<f64>,
    regex: Option<Regex>,
    work: f64,
    last: Option<f64>,
    advances: u32,
    falls: u32,
    /// Samples of the last step, of the worker protocol.
    step: Option<u64>,
}

impl Counter {
    fn new(form: Form) -> Self {
        Self {
            form,
            marks: Marks::default(),
            of: None,
            // The expressions are constants and a test compiles them.
            regex: Some(form.regex)
                .filter(|regex| !regex.is_empty())
                .and_then(|regex| Regex::new(regex).ok()),
            work: 0.0,
            last: None,
            advances: 0,
            falls: 0,
            step: None,
        }
    }

    fn look(&mut self, at: f64, line: &str) {
        let Some(groups) = self.regex.as_ref().and_then(|r| r.captures(line)) else {
            return;
        };
        let number = |name| groups.name(name).and_then(|m| jobs::number(m.as_str()));
        let Some(now) = number("total") else { return };
        self.of = number("of").or(self.of);
        // If a count falls, it was reset, as in jobs::Counter.
        let fell = self.last.is_some_and(|last| now < last);
        let more = match self.last {
            Some(last) if !fell => now - last,
            _ => now,
        };
        self.last = Some(now);
        self.falls += u32::from(fell);
        if more > 0.0 || self.marks.count() == 0 {
            self.add(at, more);
        }
    }

    fn add(&mut self, at: f64, more: f64) {
        self.work += more;
        self.advances += 1;
        self.marks.push(at, self.work);
    }

    /// Confidence that this is progress: of numbers that rise and fall alternately, half are falls.
    fn score(&self) -> i64 {
        match self.advances {
            // A single mark shows no progress yet.
            0 | 1 => 0,
            _ => i64::from(self.advances) - 2 * i64::from(self.falls),
        }
    }
}

/// Detects what a command counts.
#[derive(Debug, Clone)]
pub struct Detector {
    protocol: Counter,
    counters: Vec<Counter>,
    epochs: Option<f64>,
    names_epochs: bool,
    /// Total number of steps, if a line contains it apart from a count.
    steps: Option<f64>,
    /// Counters of equal lines, by the text of the line with every number replaced.
    shapes: Vec<(String, Counter)>,
    lines: u64,
}

/// Number of lines after which the choice is final: the output of a script's first epoch.
const SETTLED: u64 = 400;
/// Maximum number of line forms that are tracked, which bounds time and memory per line.
const SHAPES: usize = 32;
/// Minimum number of lines of one form that count as units of work: a warning may come three times.
const REPEATED: u32 = 5;

impl Default for Detector {
    fn default() -> Self {
        Self {
            protocol: Counter::new(PROTOCOL),
            counters: COUNTERS.clone(),
            epochs: None,
            names_epochs: false,
            steps: None,
            shapes: Vec::new(),
            lines: 0,
        }
    }
}

impl Detector {
    /// Takes a line that was printed at `at` seconds.
    pub fn line(&mut self, at: f64, line: &[u8]) {
        match ProgressSource::Protocol.parse(line) {
            Some(Message::Step { steps, samples, .. }) => {
                self.protocol.step = Some(samples / steps.max(1));
                self.protocol.add(at, samples as f64);
                return;
            }
            Some(_) => return,
            None => {}
        }
        let plain = without_colours(line);
        let mut text = String::from_utf8_lossy(&plain).into_owned();
        if text.trim().is_empty() {
            return;
        }
        self.take_total(&mut text);
        self.lines += 1;
        if self.lines == SETTLED
            && let Some(form) = self.best().map(|best| best.form)
        {
            self.counters.retain(|counter| counter.form == form);
            self.shapes.clear();
        }
        for counter in &mut self.counters {
            counter.look(at, &text);
            if counter.form == EPOCHS && counter.marks.count() > 0 {
                self.names_epochs = true;
                self.epochs = counter.of;
            }
        }
        if self.lines < SETTLED || !self.shapes.is_empty() {
            self.shape(at, &text);
        }
    }

    /// Removes the total number of steps from a line, and stores it.
    fn take_total(&mut self, text: &mut String) {
        let Some(groups) = TOTAL.as_ref().and_then(|regex| regex.captures(text)) else {
            return;
        };
        let found = groups.get(0).map(|all| all.range());
        self.steps = groups.name("of").and_then(|of| jobs::number(of.as_str()));
        if let Some(range) = found {
            text.replace_range(range, " ");
        }
    }

    fn shape(&mut self, at: f64, text: &str) {
        let mut shape = String::new();
        for c in text.trim().chars() {
            let c = if c.is_ascii_digit() { '0' } else { c };
            if c != '0' || !shape.ends_with('0') {
                shape.push(c);
            }
        }
        if let Some((_, counter)) = self.shapes.iter_mut().find(|(known, _)| *known == shape) {
            counter.add(at, 1.0);
        } else if self.shapes.len() < SHAPES {
            let mut counter = Counter::new(LINES);
            counter.add(at, 1.0);
            self.shapes.push((shape, counter));
        }
    }

    /// The counter that measures the work, if there is one.
    #[must_use]
    pub fn best(&self) -> Option<&Counter> {
        if self.protocol.advances > 0 {
            return Some(&self.protocol);
        }
        // Reversed, because `max_by_key` returns the last maximum and the first one is wanted.
        let counters = self.counters.iter().rev();
        let best = counters.max_by_key(|counter| counter.score());
        best.filter(|counter| counter.score() > 0).or_else(|| {
            let shapes = self.shapes.iter().map(|(_, counter)| counter);
            shapes
                .max_by_key(|counter| counter.advances)
                .filter(|counter| counter.advances >= REPEATED)
        })
    }

    /// Work of the whole run, if the lines say so: the total of a counter within an epoch, multiplied by the number
    /// of epochs.
    #[must_use]
    pub fn total(&self) -> Option<f64> {
        let best = self.best()?;
        let of = match best.form {
            form if form == EPOCHS => return self.epochs,
            Form {
                unit: "percent", ..
            } => 100.0,
            _ => match (best.of, self.steps) {
                // The counter runs over all epochs, so the total number of steps applies.
                (None, Some(steps)) if best.form.unit == "steps" && best.falls == 0 => {
                    return Some(steps);
                }
                (of, _) => of?,
            },
        };
        match (self.names_epochs, self.epochs) {
            // In `Epoch 3/10`, both counters read the same fraction.
            (true, Some(epochs)) if best.falls == 0 && epochs == of && self.one_number() => {
                Some(of)
            }
            (true, Some(epochs)) => Some(of * epochs),
            (true, None) => None,
            (false, _) => (best.falls == 0).then_some(of),
        }
    }

    /// Whether the best counter and that of epochs read the same number.
    fn one_number(&self) -> bool {
        let epochs = self.counters.iter().find(|c| c.form == EPOCHS);
        let best = self.best();
        epochs.zip(best).is_none_or(|(a, b)| a.last == b.last)
    }

    /// Samples of a step, if the worker protocol reports them.
    #[must_use]
    pub const fn step(&self) -> Option<u64> {
        self.protocol.step
    }

    /// A detector for the counter that this one has found.
    #[must_use]
    pub fn same(&self) -> Self {
        let mut fresh = Self::default();
        if let Some(form) = self.best().map(|best| best.form).filter(|f| *f != LINES) {
            fresh.counters.retain(|counter| counter.form == form);
        }
        fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(lines: &[&str]) -> (&'static str, f64, Option<f64>) {
        let mut detector = Detector::default();
        for (second, line) in lines.iter().enumerate() {
            detector.line(second as f64, line.as_bytes());
        }
        let best = detector.best();
        (
            best.map_or("nothing", |best| best.form.unit),
            best.map_or(0.0, |best| best.work),
            detector.total(),
        )
    }

    #[test]
    fn every_expression_counts() {
        for form in FORMS {
            let units = jobs::Units::default();
            assert!(
                ProgressSource::from_regex(form.regex, units).is_ok(),
                "{form:?}"
            );
        }
    }

    /// Unit, current count, and total.
    type Seen = (&'static str, f64, Option<f64>);

    #[test]
    fn lines_as_people_write_them() {
        let cases: [(&[&str], Seen); 17] = [
            (
                &["step 1,010/10,000 loss 0.5", "step 1,020/10,000 loss 0.4"],
                ("steps", 1020.0, Some(10_000.0)),
            ),
            (
                &["[1_010 / 1_000_000]", "[1_020 / 1_000_000]"],
                ("steps", 1020.0, Some(1e6)),
            ),
            (
                &[
                    "step: 999, loss 1",
                    "step: 1,000, loss 2",
                    "step: 1,001, loss 1",
                ],
                ("steps", 1001.0, None),
            ),
            (
                &["loss 0.5,3/10", "loss 0.4,4/10"],
                ("steps", 4.0, Some(10.0)),
            ),
            (
                &[
                    "Epoch 1/10, step 50/200, loss 0.31",
                    "Epoch 1/10, step 100/200, loss 0.29",
                    "Epoch 1/10, step 150/200, loss 0.33",
                    "Epoch 1/10, step 200/200, loss 0.2",
                    "Epoch 2/10, step 50/200, loss 0.1",
                ],
                ("steps", 250.0, Some(2000.0)),
            ),
            (
                &["step 20 loss 0.5", "step 40 loss 0.4", "step 60 loss 0.6"],
                ("steps", 60.0, None),
            ),
            (
                &[
                    "Epoch 0:   3%|█         | 10/350 [00:00<00:09, 35.20it/s]",
                    "Epoch 0:   6%|█         | 20/350 [00:00<00:09, 34.90it/s]",
                    "Epoch 0:   9%|█         | 30/350 [00:00<00:09, 36.20it/s]",
                ],
                ("steps", 30.0, None),
            ),
            (
                &[
                    "epoch 1: loss=0.31 time=9.8s",
                    "epoch 2: loss=0.3 time=9.7s",
                ],
                ("epochs", 2.0, None),
            ),
            (
                &["Epoch 1/4", "Epoch 2/4", "Epoch 3/4"],
                ("steps", 3.0, Some(4.0)),
            ),
            (
                &["[10/1500] error 0.1", "[20/1500] error 0.3"],
                ("steps", 20.0, Some(1500.0)),
            ),
            (
                &[
                    "Train Epoch: 0 [0/32000] error: 0.3",
                    "Train Epoch: 0 [640/32000] error: 0.2",
                    "Train Epoch: 0 [1280/32000] error: 0.4",
                ],
                ("steps", 1280.0, None),
            ),
            (
                &[
                    "loss 0.31",
                    "loss 0.27",
                    "loss 0.29",
                    "loss 0.2",
                    "loss 0.1",
                ],
                ("lines", 5.0, None),
            ),
            (&["loading", "12 files", "ready"], ("nothing", 0.0, None)),
            (
                &["37 of 600, loss 0.3", "38 of 600, loss 0.2"],
                ("steps", 38.0, Some(600.0)),
            ),
            (
                &[
                    r#"{"loss": 0.3, "step": 7}"#,
                    r#"{"loss": 0.31, "step": 9}"#,
                ],
                ("steps", 9.0, None),
            ),
            (
                &[
                    r#"{"epoch": 0.1, "max_steps": 40, "step": 7}"#,
                    r#"{"epoch": 0.2, "max_steps": 40, "step": 9}"#,
                ],
                ("steps", 9.0, Some(40.0)),
            ),
            (
                &[
                    "Total optimization steps = 600",
                    "{'step': 1}",
                    "{'step': 2}",
                ],
                ("steps", 2.0, Some(600.0)),
            ),
        ];
        for (lines, wanted) in cases {
            assert_eq!(found(lines), wanted, "{lines:?}");
        }
        let protocol = r#"{"mt":"step","samples":128}"#;
        assert_eq!(found(&["x", protocol, protocol]), ("samples", 256.0, None));
    }
}
