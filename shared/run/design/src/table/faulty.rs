use doc::{Code, Fault, Faults};

use crate::DesignError;

/// Maximum number of faults shown; the rest is only counted. A wrong column causes a fault in every row, and the
/// first rows are enough to show it.
const MOST_SHOWN: usize = 20;

/// Collects the faults of a table.
pub(super) struct Faulty<'a> {
    pub source: &'a str,
    pub lines: Vec<String>,
}

impl Faulty<'_> {
    /// Adds a fault at a line and column; `""` means no column.
    pub fn add(&mut self, line: u64, column: &str, problem: String, advice: &str) {
        let path = match column {
            "" => String::new(),
            column => format!("column {column}"),
        };
        let faults = Faults {
            source_name: self.source.to_owned(),
            line,
            lines: Vec::new(),
            faults: vec![Fault {
                code: Code::BadCsv,
                path,
                problem,
                advice: advice.to_owned(),
            }],
        };
        self.lines.extend(faults.lines());
    }

    /// All faults as one error; `None` if there are none.
    pub fn failure(mut self) -> Option<DesignError> {
        let more = self.lines.len().saturating_sub(MOST_SHOWN);
        self.lines.truncate(MOST_SHOWN);
        if more > 0 {
            self.lines.push(format!("{}: {more} more", self.source));
        }
        (!self.lines.is_empty()).then(|| DesignError::Table(self.lines.join("\n")))
    }
}
