use doc::{AnyDocuments, Frames};

use crate::{Report, Reporter, terminal};

/// Text below a summary.
const MORE: &str =
    "The document itself goes into a pipe or a file (-o FILE); mt-report shows all of it.";

/// What a terminal shows instead of these documents, which are for programs and files: a summary of each that fits on
/// a screen. `None` if one of them has no report, or there is none.
#[must_use]
pub fn summary(documents: &[u8], width: Option<u16>) -> Option<String> {
    let mut reporter = Reporter::default();
    let mut text = String::new();
    for document in AnyDocuments::new(Frames::new(documents, "output")) {
        let report = first_screen(reporter.report(&document.ok()?));
        text.push_str(&terminal(&report, width));
        text.push('\n');
    }
    text.push_str(MORE);
    text.push('\n');
    Some(text)
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

    const WORKLOAD: &[u8] = br#"{"schema":"mt.workload/1","id":"three","device":{"kind":"sim"},
        "tasks":[{"id":"a","model":"alexnet","batch_sizes":[32,64]}]}"#;

    #[test]
    fn a_document_is_summed_up() {
        let text = summary(WORKLOAD, Some(60)).unwrap();
        assert!(text.contains("three"), "{text}");
        assert!(!text.contains('{'), "{text}");
        assert!(text.ends_with(&format!("{MORE}\n")), "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 90),
            "{text}"
        );
    }

    #[test]
    fn what_has_no_report_is_not_summed_up() {
        assert_eq!(summary(b"{\"schema\":\"mt.devices/1\"}\n", None), None);
        assert_eq!(summary(b"", None), None);
    }
}
