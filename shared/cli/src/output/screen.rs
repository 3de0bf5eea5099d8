//! On a terminal, a summary that fits on a screen replaces the documents, which are for programs and files.

use doc::{AnyDocuments, Document, Frames};
use report::{Report, Reporter};

use crate::Failure;

/// Text below a summary.
const MORE: &str =
    "The document itself goes into a pipe or a file (-o FILE); mt-report shows all of it.";

/// Documents to summarise at the end.
#[derive(Debug, Default)]
pub(super) struct Held {
    documents: Vec<u8>,
    /// Whether records of profiles and runs are summarised, too. Tools that answer event by event cannot do that.
    pub(super) records: bool,
}

impl Held {
    /// Adds a document.
    pub(super) fn take<D: Document>(&mut self, document: &D) -> Result<(), Failure> {
        doc::write_line(&mut self.documents, document).map_err(|error| Failure::write(&error))
    }

    /// The summary; for documents without a report, the documents themselves.
    pub(super) fn summary(&self, width: Option<u16>) -> String {
        let mut reporter = Reporter::default();
        let mut text = String::new();
        for document in AnyDocuments::new(Frames::new(&*self.documents, "output")) {
            let Ok(document) = document else {
                return String::from_utf8_lossy(&self.documents).into_owned();
            };
            let report = first_screen(reporter.report(&document));
            text.push_str(&report::terminal(&report, width));
            text.push('\n');
        }
        if !text.is_empty() {
            text.push_str(MORE);
            text.push('\n');
        }
        text
    }
}

/// The headline, the facts and the first table, which has the settings of a plan, the measurements of a profile, or
/// the outcomes of a run's tasks.
fn first_screen(mut report: Report) -> Report {
    report.tables.retain(|table| !table.long);
    report.tables.truncate(1);
    report.legend.clear();
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKLOAD: &str = r#"{"schema":"mt.workload/1","id":"three","device":{"kind":"sim"},
        "tasks":[{"id":"a","model":"alexnet","batch_sizes":[32,64]}]}"#;

    fn held(text: &str) -> Held {
        let mut held = Held::default();
        let frames = Frames::new(text.as_bytes(), "test");
        for document in doc::Documents::<_, doc::Workload>::new(frames) {
            held.take(&document.unwrap()).unwrap();
        }
        held
    }

    #[test]
    fn a_document_is_summed_up() {
        let text = held(WORKLOAD).summary(Some(60));
        assert!(text.contains("three"), "{text}");
        assert!(!text.contains('{'), "{text}");
        assert!(text.ends_with(&format!("{MORE}\n")), "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 90),
            "{text}"
        );
    }

    #[test]
    fn what_has_no_report_is_shown_as_it_is() {
        let held = Held {
            documents: b"{\"schema\":\"mt.devices/1\"}\n".to_vec(),
            records: false,
        };
        assert_eq!(held.summary(None), "{\"schema\":\"mt.devices/1\"}\n");
        assert_eq!(Held::default().summary(None), "");
    }
}
