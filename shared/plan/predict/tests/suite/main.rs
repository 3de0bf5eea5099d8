//! The predictor: robustness, round trips.

mod copies;
mod kinds;
mod robust;
mod sums;
mod written;

use std::io::BufRead;

use doc::{Document, Documents, Frames, Workload};

/// The document that `from` begins with.
fn read<D: Document>(from: impl BufRead) -> D {
    Documents::new(Frames::new(from, "document"))
        .next()
        .expect("a document")
        .expect("a valid one")
}

/// A workload of replayed tasks, written out.
fn workload(tasks: &[String]) -> Workload {
    let text = format!(
        r#"{{"schema":"mt.workload/1","device":{{"kind":"replay"}},"tasks":[{}]}}"#,
        tasks.join(",")
    );
    read(text.as_bytes())
}
