//! The named numbers that a job printed, such as scores and losses.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jobs::without_colours;
use regex::Regex;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::message::START;

/// Last value of each name, in the order in which the names first appeared.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics {
    names: Vec<String>,
    last: BTreeMap<String, f64>,
}

/// Maximum number of names that are kept: a table has no room for more, and a name that contains a counter would be new
/// on each line.
const MOST: usize = 64;
/// Fields of the worker protocol that report progress, which are no metrics.
const COUNTS: [&str; 8] = [
    "steps", "samples", "step", "sms", "grad_sq", "grads", "norms", "mps",
];
/// Words that loggers put before a message.
const LEVELS: [&str; 6] = ["INFO", "DEBUG", "WARNING", "ERROR", "root", "TRACE"];

/// Matches `name=0.5`, `name: 0.5`, `'name': 0.5`, and names of several words: `Test accuracy: 0.5`. Without a blank
/// after the colon, only a number with a fraction counts: `localhost:8080` and `12:30` are no metrics.
static PAIR: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let number = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?(?i:nan|inf)";
    let name = r"(?P<name>[A-Za-z_][\w./@-]*)";
    Regex::new(&format!(
        r#"(?P<words>(?:\b[A-Za-z_][\w-]* ){{0,3}}){name}["']?\s*(?:=\s*|:\s+|:(?P<tight>))(?P<number>{number})"#
    ))
    .ok()
});

/// A field of a JSON line. The format belongs to other programs, so the enum is untagged.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Field {
    Number(f64),
    Object(BTreeMap<String, Field>),
    Other(IgnoredAny),
}

impl Metrics {
    /// The metrics in a log, of the last start only.
    #[must_use]
    pub fn of(log: &[u8]) -> Self {
        let mut all = Self::default();
        for line in log.split(|byte| *byte == b'\n') {
            match line.starts_with(START.as_bytes()) {
                true => all = Self::default(),
                false => all.line(line),
            }
        }
        all
    }

    /// Names and values, in the order in which the names first appeared.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        let last = |name: &String| self.last.get(name).copied();
        self.names
            .iter()
            .filter_map(move |name| Some((&**name, last(name)?)))
    }

    fn line(&mut self, line: &[u8]) {
        let plain = without_colours(line);
        let text = String::from_utf8_lossy(&plain);
        // A progress bar overwrites its line; only the final text counts.
        let text = text.trim().rsplit('\r').next().unwrap_or_default();
        if text.starts_with('{')
            && let Ok(fields) = serde_json::from_str::<BTreeMap<String, Field>>(text)
        {
            let protocol = fields.contains_key("mt");
            for (name, value) in &fields {
                if !protocol || !COUNTS.contains(&&**name) {
                    self.json(name, value);
                }
            }
            return;
        }
        let Some(pair) = &*PAIR else { return };
        for found in pair.captures_iter(text) {
            let part = |name| found.name(name).map_or("", |m| m.as_str());
            let number = part("number");
            let rest = found.name("number").map_or("", |m| &text[m.end()..]);
            if !ends_a_number(rest) {
                continue;
            }
            let tight = found.name("tight").is_some();
            let is_pair = found.get(0).is_some_and(|all| all.as_str().contains('='));
            if tight && !number.contains('.') {
                continue;
            }
            let named = if is_pair { "" } else { part("words") };
            let words: Vec<&str> = named
                .split(' ')
                .filter(|w| !w.is_empty() && !LEVELS.contains(w))
                .collect();
            let name = words
                .into_iter()
                .chain([part("name")])
                .collect::<Vec<_>>()
                .join("_");
            if let Ok(value) = number.parse() {
                self.set(name, value);
            }
        }
    }

    fn json(&mut self, name: &str, value: &Field) {
        match value {
            Field::Number(value) => self.set(name.to_owned(), *value),
            Field::Object(fields) => {
                for (inner, value) in fields {
                    self.json(&format!("{name}.{inner}"), value);
                }
            }
            Field::Other(_) => {}
        }
    }

    fn set(&mut self, name: String, value: f64) {
        if !self.last.contains_key(&name) {
            if self.names.len() >= MOST {
                return;
            }
            self.names.push(name.clone());
        }
        self.last.insert(name, value);
    }
}

/// Whether a number is complete before this text: `time=9.8s`, `12:30:05`, `v=1.2.3` and `n=1,234` are no numbers, and
/// the full stop of a sentence does not belong to one.
fn ends_a_number(rest: &str) -> bool {
    let mut rest = rest.chars();
    let (first, second) = (rest.next(), rest.next());
    match first {
        Some('.') => second.is_none_or(char::is_whitespace),
        Some(',') => second.is_none_or(|c| !c.is_ascii_digit()),
        Some(c) => c.is_whitespace() || ";)]}|%\"'".contains(c),
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(log: &str) -> Vec<(String, f64)> {
        let all = Metrics::of(log.as_bytes());
        all.iter().map(|(n, v)| (n.to_owned(), v)).collect()
    }

    #[test]
    fn metrics_as_people_print_them() {
        for (log, wanted) in [
            (
                "epoch 1: loss=0.5 acc=0.8\nepoch 2: loss=0.25 acc=0.9\n",
                "loss 0.25, acc 0.9",
            ),
            ("accuracy: 0.93\n", "accuracy 0.93"),
            (
                "Test accuracy: 93.5%, Test loss: 1e-3",
                "Test_accuracy 93.5, Test_loss 0.001",
            ),
            ("{'loss': 0.5, 'epoch': 1.0}", "loss 0.5, epoch 1"),
            (
                r#"{"score": 0.5, "by": {"f1": 1}, "name": "x"}"#,
                "by.f1 1, score 0.5",
            ),
            (
                r#"{"mt":"step","samples":32,"steps":1,"loss":0.5}"#,
                "loss 0.5",
            ),
            ("2026-01-02 12:30:05 INFO val_loss = -0.5", "val_loss -0.5"),
            ("http://localhost:8080 took 3s, time=9.8s v=1.2.3", ""),
            (
                "Final accuracy: 0.93. Best loss=0.1.",
                "Final_accuracy 0.93, loss 0.1",
            ),
            ("n=1,234.5 loss=0,25 a=1,b=2, c=3", "a 1, b 2, c 3"),
            ("\u{1b}[32mloss:0.5\u{1b}[0m", "loss 0.5"),
            ("10% loss=0.9\r50% loss=0.7", "loss 0.7"),
            ("loss=nan", "loss NaN"),
            ("acc=0.5\n--- mt: start 2 ---\nloss=0.1", "loss 0.1"),
        ] {
            let text: Vec<String> = found(log).iter().map(|(n, v)| format!("{n} {v}")).collect();
            assert_eq!(text.join(", "), wanted, "{log}");
        }
        let many: String = (0..500).map(|n| format!("m{n}=1\n")).collect();
        assert_eq!(found(&many).len(), MOST);
    }
}
