use std::collections::BTreeSet;
use std::fmt;

use units::{MOST, UnitError, shown};

use crate::{Code, Fault};

/// Collects the faults of one document while it is converted from wire to validated form, and tracks the
/// JSON path of the current place.
#[derive(Debug)]
pub struct Checker {
    path: String,
    faults: Vec<Fault>,
    /// Number of faults found after [`MOST_FAULTS`].
    more: u64,
}

/// Maximum number of faults reported for one document. The first few show what is wrong; without a limit, a
/// document of 4 MB of wrong values gave 221 MB of messages.
const MOST_FAULTS: usize = 100;

impl Default for Checker {
    fn default() -> Self {
        Self {
            path: "$".to_owned(),
            faults: Vec::new(),
            more: 0,
        }
    }
}

impl Checker {
    /// Enters field `name` for the duration of `look`.
    pub fn field<T>(&mut self, name: &str, look: impl FnOnce(&mut Self) -> T) -> T {
        self.at([".", name, ""], look)
    }

    /// Enters element `index` of the current list for the duration of `look`.
    pub fn index<T>(&mut self, index: usize, look: impl FnOnce(&mut Self) -> T) -> T {
        self.at(["[", &index.to_string(), "]"], look)
    }

    fn at<T>(&mut self, segment: [&str; 3], look: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        self.path.extend(segment);
        let out = look(self);
        self.path.truncate(length);
        out
    }

    /// Whether a name on the path to the current place contains `word`.
    pub(crate) fn is_about(&self, word: &str) -> bool {
        self.path.contains(word)
    }

    /// Records a fault at the current place.
    pub fn fault(&mut self, code: Code, problem: impl fmt::Display, advice: impl fmt::Display) {
        if self.faults.len() == MOST_FAULTS {
            self.more += 1;
            return;
        }
        self.faults.push(Fault {
            code,
            path: self.path.clone(),
            problem: problem.to_string(),
            advice: advice.to_string(),
        });
    }

    /// Like [`Checker::fault`], for a problem and advice that are expensive to build: only faults that will
    /// be reported build them. Building them for all of two million wrong values took 3 s.
    pub(crate) fn fault_of(&mut self, code: Code, words: impl FnOnce() -> (String, String)) {
        if self.faults.len() == MOST_FAULTS {
            self.more += 1;
            return;
        }
        let (problem, advice) = words();
        self.fault(code, problem, advice);
    }

    /// Unwraps a quantity of field `name`, or records why it is invalid.
    pub fn unit<T>(&mut self, name: &str, value: Result<T, UnitError>) -> Option<T> {
        match value {
            Ok(value) => Some(value),
            Err(error) => {
                self.field(name, |c| {
                    c.fault(
                        Code::OutOfRange,
                        format_args!("{} is not a {}", error.value, error.quantity),
                        format_args!("give {}", error.expected),
                    );
                });
                None
            }
        }
    }

    /// Like [`Checker::unit`], for a field that may be absent: `Some(None)` if it is.
    pub fn optional_unit<W, T>(
        &mut self,
        name: &str,
        value: Option<W>,
        build: impl FnOnce(W) -> Result<T, UnitError>,
    ) -> Option<Option<T>> {
        match value {
            None => Some(None),
            Some(value) => self.unit(name, build(value)).map(Some),
        }
    }

    /// Converts every element of the list in field `name`; `None` if any failed.
    pub fn list<W, T>(
        &mut self,
        name: &str,
        items: &[W],
        mut convert: impl FnMut(&W, &mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        self.field(name, |c| {
            let converted: Vec<Option<T>> = items
                .iter()
                .enumerate()
                .map(|(i, item)| c.index(i, |c| convert(item, c)))
                .collect();
            converted.into_iter().collect()
        })
    }

    /// Whether no fault has been found so far.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.faults.is_empty()
    }

    /// The faults found: the first hundred, and a note of how many more there are.
    #[must_use]
    pub fn into_faults(mut self) -> Vec<Fault> {
        if self.more > 0 {
            self.faults.push(Fault {
                code: Code::TooMany,
                path: "$".to_owned(),
                problem: format!("{} more faults are not listed", self.more),
                advice: "correct those above first".to_owned(),
            });
        }
        self.faults
    }
}

/// Converts the optional value of field `name`.
pub(crate) fn optional<W: ?Sized, T>(
    c: &mut Checker,
    name: &str,
    wire: Option<&W>,
    convert: impl FnOnce(&W, &mut Checker) -> Option<T>,
) -> Option<Option<T>> {
    match wire {
        None => Some(None),
        Some(wire) => c.field(name, |c| convert(wire, c)).map(Some),
    }
}

/// Records a fault for every name of list `field` that appeared before.
pub(crate) fn unique_ids<'a>(c: &mut Checker, field: &str, ids: impl Iterator<Item = &'a str>) {
    let mut seen = BTreeSet::new();
    c.field(field, |c| {
        for (i, id) in ids.enumerate() {
            if !seen.insert(id) {
                c.index(i, |c| {
                    c.field("id", |c| {
                        let problem = format_args!("the name {id:?} is used twice");
                        c.fault(Code::Duplicate, problem, "rename one of the two");
                    });
                });
            }
        }
    });
}

pub(crate) fn positive(
    c: &mut Checker,
    name: &str,
    value: f64,
    what: &'static str,
    zero_is_fine: bool,
) -> Option<f64> {
    if value <= MOST && (value > 0.0 || (zero_is_fine && value == 0.0)) {
        return Some(value);
    }
    c.field(name, |c| {
        let bound = if zero_is_fine { "0 or more" } else { "above 0" };
        let advice = format_args!("give a number {bound}, at most 1e30");
        c.fault(
            Code::OutOfRange,
            format_args!("{} is not a {what}", shown(value)),
            advice,
        );
    });
    None
}
