use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::Code;
use crate::wire::{self, Wire};

/// The schema ids, for messages.
pub(crate) fn names() -> String {
    [
        wire::Workload::SCHEMA,
        wire::ProfileHeader::SCHEMA,
        wire::Model::SCHEMA,
        wire::Plan::SCHEMA,
        wire::Timeline::SCHEMA,
        wire::RunEvent::SCHEMA,
        wire::Allocation::SCHEMA,
        wire::Cluster::SCHEMA,
        wire::Schedule::SCHEMA,
    ]
    .join(", ")
}

/// What to do with a document that a tool does not read.
pub(crate) fn other_tool(found: &str, wanted: &str) -> String {
    // (document, what writes it, what reads it)
    const TOOLS: [(&str, &str, &str); 8] = [
        (wire::Workload::SCHEMA, "mt init or an editor", "mt-profile"),
        (wire::ProfileHeader::SCHEMA, "mt-profile", "mt-fit"),
        (wire::Model::SCHEMA, "mt-fit", "mt-solve"),
        (wire::Plan::SCHEMA, "mt-solve", "mt-overlap and mt-launch"),
        (wire::Timeline::SCHEMA, "mt-overlap", "mt-launch"),
        (
            wire::RunEvent::SCHEMA,
            "mt-launch",
            "mt-report and mt-elastic",
        ),
        (
            wire::Cluster::SCHEMA,
            "mt-cluster or an editor",
            "mt-cluster",
        ),
        (wire::Schedule::SCHEMA, "mt-cluster", "mt-report"),
    ];
    let tool = |schema: &str| TOOLS.iter().find(|t| t.0 == schema);
    let mut advice = format!("give a {wanted:?} document");
    if let Some((_, writer, _)) = tool(wanted) {
        advice += &format!(", which {writer} writes");
    }
    if let Some((_, _, reader)) = tool(found) {
        advice += &format!("; what you gave is read by {reader}");
    }
    advice
}

pub(crate) fn schema_of<W: Wire>() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<W>().to_value();
    let fixed = |text: &str| serde_json::json!({"const": text, "type": "string"});
    if let Some(properties) = schema.get_mut("properties") {
        properties["schema"] = fixed(W::SCHEMA);
        if let Some(record) = W::RECORD {
            properties["record"] = fixed(record);
        }
    }
    schema
}

/// Every JSON Schema: file name and text, in a fixed order.
///
/// The records of a profile have a schema each.
#[must_use]
pub fn schemas() -> Vec<(String, String)> {
    fn one<W: Wire>() -> (String, String) {
        let name = W::SCHEMA.replace('/', ".");
        let record = W::RECORD.map_or(String::new(), |r| format!(".{r}"));
        let text = format!("{:#}\n", schema_of::<W>());
        (format!("{name}{record}.schema.json"), text)
    }
    vec![
        one::<wire::Workload>(),
        one::<wire::ProfileHeader>(),
        one::<wire::ProfileSample>(),
        one::<wire::ProfileFailure>(),
        one::<wire::ProfileEnd>(),
        one::<wire::Model>(),
        one::<wire::Plan>(),
        one::<wire::Timeline>(),
        one::<wire::RunEvent>(),
        one::<wire::DeviceList>(),
        one::<wire::Allocation>(),
        one::<wire::TrainingEvent>(),
        one::<wire::Cluster>(),
        one::<wire::Schedule>(),
        one::<wire::QueueEvent>(),
        one::<wire::QueueStart>(),
    ]
}

/// The page about the numbered faults, as Markdown.
#[must_use]
pub fn error_reference() -> String {
    use std::fmt::Write;
    let mut page = String::from(
        "# Faults in documents\n\nEvery fault that a tool finds in its input has a stable number. \
         The exit code is 2.\n",
    );
    for code in Code::ALL {
        // Writing to a String cannot fail.
        let _ = write!(
            page,
            "\n## {code}: {}\n\n{}\n\nWhat to do: {}\n",
            code.title(),
            code.cause(),
            code.action()
        );
    }
    page
}
