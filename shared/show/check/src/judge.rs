//! Collects contradictions in a document, each with its JSON path.

use std::fmt::Display;

use serde::Serialize;

/// Relative difference that counts as rounding: the same sum in another order.
pub const ROUNDING: f64 = 1e-9;

/// A field that does not agree with the recomputed value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lie {
    /// JSON path.
    pub path: String,
    /// What the document says.
    pub claimed: String,
    /// What it should say.
    pub recomputed: String,
}

/// A remark about one place of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Remark {
    /// JSON path.
    pub path: String,
    /// The remark.
    pub text: String,
}

/// Findings about one document.
#[derive(Debug)]
pub struct Judge {
    path: String,
    /// Contradictions: fields that are wrong.
    pub lies: Vec<Lie>,
    /// Implausible measurements.
    pub doubts: Vec<Remark>,
    /// Fields that could not be recomputed.
    pub unjudged: Vec<Remark>,
}

impl Judge {
    /// Starts at the top of a document, with no findings.
    pub fn new() -> Self {
        Self {
            path: "$".to_owned(),
            lies: Vec::new(),
            doubts: Vec::new(),
            unjudged: Vec::new(),
        }
    }

    /// Enters a field for the duration of `look`.
    pub fn field<T>(&mut self, name: &str, look: impl FnOnce(&mut Self) -> T) -> T {
        self.at(&format!(".{name}"), look)
    }

    /// Enters an element of the current list for the duration of `look`.
    pub fn index<T>(&mut self, index: usize, look: impl FnOnce(&mut Self) -> T) -> T {
        self.at(&format!("[{index}]"), look)
    }

    fn at<T>(&mut self, segment: &str, look: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        self.path.push_str(segment);
        let out = look(self);
        self.path.truncate(length);
        out
    }

    fn place(&self, name: &str) -> String {
        if name.is_empty() {
            self.path.clone()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    /// Reports that field `name` (or the current place, if empty) is wrong.
    pub fn contradiction(&mut self, name: &str, claimed: impl Display, recomputed: impl Display) {
        self.lies.push(Lie {
            path: self.place(name),
            claimed: claimed.to_string(),
            recomputed: recomputed.to_string(),
        });
    }

    /// Reports that field `name` is implausible.
    pub fn doubt(&mut self, name: &str, text: impl Display) {
        self.doubts.push(Remark {
            path: self.place(name),
            text: text.to_string(),
        });
    }

    /// Reports that field `name` cannot be recomputed.
    pub fn unjudged(&mut self, name: &str, text: impl Display) {
        self.unjudged.push(Remark {
            path: self.place(name),
            text: text.to_string(),
        });
    }

    /// Compares two numbers up to rounding.
    pub fn number(&mut self, name: &str, claimed: f64, recomputed: f64) {
        self.number_of(name, claimed, recomputed, 0.0);
    }

    /// Compares two numbers up to the rounding of sums of numbers of size `scale`.
    pub fn number_of(&mut self, name: &str, claimed: f64, recomputed: f64, scale: f64) {
        if !close(claimed, recomputed, scale) {
            self.contradiction(name, claimed, recomputed);
        }
    }

    /// Like [`Judge::number`], for a field that is absent exactly if the recomputed value is.
    pub fn optional_number(&mut self, name: &str, claimed: Option<f64>, recomputed: Option<f64>) {
        match (claimed, recomputed) {
            (None, None) => {}
            (Some(claimed), Some(recomputed)) => self.number(name, claimed, recomputed),
            (claimed, recomputed) => self.contradiction(name, shown(claimed), shown(recomputed)),
        }
    }

    /// Compares two values exactly.
    pub fn same<T: PartialEq + Display>(&mut self, name: &str, claimed: T, recomputed: T) {
        if claimed != recomputed {
            self.contradiction(name, claimed, recomputed);
        }
    }

    /// Like [`Judge::same`], for values that may be absent.
    pub fn same_option<T: PartialEq + Display>(
        &mut self,
        name: &str,
        claimed: Option<T>,
        recomputed: Option<T>,
    ) {
        if claimed != recomputed {
            self.contradiction(name, shown(claimed), shown(recomputed));
        }
    }
}

/// An optional value as text.
pub fn shown<T: Display>(value: Option<T>) -> String {
    value.map_or("nothing".to_owned(), |v| v.to_string())
}

/// Whether two numbers agree up to the rounding of sums of numbers of size `scale`.
pub fn close(a: f64, b: f64, scale: f64) -> bool {
    (a - b).abs() <= ROUNDING * a.abs().max(b.abs()).max(scale)
}
