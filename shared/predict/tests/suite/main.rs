//! The predictor: models written for ever, robustness, round trips.

mod copies;
mod forever;
mod robust;
mod written;

use doc::{Documents, Frames, Workload};

/// A workload of replayed tasks, written out.
fn workload(tasks: &[String]) -> Workload {
    let text = format!(
        r#"{{"schema":"mt.workload/1","device":{{"kind":"replay"}},"tasks":[{}]}}"#,
        tasks.join(",")
    );
    Documents::new(Frames::new(text.as_bytes(), "workload"))
        .next()
        .expect("a document")
        .expect("a valid one")
}
