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
        wire::ClusterStatus::SCHEMA,
    ]
    .join(", ")
}

/// Kinds of documents: schema, the tool that writes it, the tool that reads it.
const TOOLS: [(&str, &str, &str); 10] = [
    (wire::Workload::SCHEMA, "mt init or an editor", "mt-profile"),
    (wire::ProfileHeader::SCHEMA, "mt-profile", "mt-fit"),
    (wire::Model::SCHEMA, "mt-fit", "mt-solve"),
    (wire::Plan::SCHEMA, "mt-solve", "mt-overlap and mt-launch"),
    (wire::Timeline::SCHEMA, "mt-overlap", "mt-launch"),
    (
        wire::RunEvent::SCHEMA,
        "mt-launch",
        "mt-report, mt-check and mt-fit",
    ),
    (
        wire::Allocation::SCHEMA,
        "mt-elastic",
        "mt-report and mt-check",
    ),
    (
        wire::Cluster::SCHEMA,
        "mt-cluster generate, mt-cluster import or an editor",
        "mt-cluster plan and mt-cluster online",
    ),
    (
        wire::Schedule::SCHEMA,
        "mt-cluster plan",
        "mt-cluster run and mt-report",
    ),
    (
        wire::ClusterStatus::SCHEMA,
        "mt-cluster online and mt-cluster run",
        "mt-report and mt-check",
    ),
];

/// The tools that read documents of a schema; `None` if the schema is unknown.
#[must_use]
pub fn readers(schema: &str) -> Option<&'static str> {
    TOOLS.iter().find(|t| t.0 == schema).map(|t| t.2)
}

/// Similarity (Jaro-Winkler) above which an unknown schema is treated as a misspelling. All schema names
/// begin and end alike, yet no two are this similar, while `mt.worklod/1` and `mt.plan/2` exceed 0.95.
const ALIKE: f64 = 0.9;

/// Error and advice for a document whose schema is not the one that the tool reads.
pub(crate) fn other(found: &str, wanted: &str) -> (String, String) {
    let known = readers(found);
    if known.is_none() && strsim::jaro_winkler(found, wanted) >= ALIKE {
        let problem = format!("{found:?} is not known");
        return (problem, format!("did you mean {wanted:?}?"));
    }
    let problem = format!("this is a {found:?} document");
    let mut advice = format!("give a {wanted:?} document");
    if let Some((_, writer, _)) = TOOLS.iter().find(|t| t.0 == wanted) {
        advice += &format!(", which {writer} writes");
    }
    if let Some(readers) = known {
        advice += &format!("; what you gave is read by {readers}");
    }
    (problem, advice)
}

/// The error and advice for a document of an unknown schema.
pub(crate) fn unknown(found: &str) -> (String, String) {
    let alike = |tool: &&(&str, _, _)| strsim::jaro_winkler(found, tool.0) >= ALIKE;
    match TOOLS.iter().find(alike) {
        Some((meant, ..)) => other(found, meant),
        None => (
            format!("{found:?} is none of {}", names()),
            Code::WrongSchema.action().to_owned(),
        ),
    }
}

/// Every JSON Schema: file name and text, in a fixed order.
///
/// Each record type of a profile has its own schema.
#[must_use]
pub fn schemas() -> Vec<(String, String)> {
    fn one<W: Wire>() -> (String, String) {
        let name = W::SCHEMA.replace('/', ".");
        let record = W::RECORD.map_or(String::new(), |r| format!(".{r}"));
        let text = format!("{:#}\n", W::schema());
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
        one::<crate::TrainingEvent>(),
        one::<wire::Cluster>(),
        one::<wire::Schedule>(),
        one::<crate::QueueEvent>(),
        one::<crate::QueueStart>(),
        one::<wire::ClusterStatus>(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_schema_finds_the_one_that_is_wanted() {
        for (found, wanted) in [
            ("mt.worklod/1", "mt.workload/1"),
            ("mt.plan/2", "mt.plan/1"),
        ] {
            let (problem, advice) = other(found, wanted);
            assert_eq!(problem, format!("{found:?} is not known"));
            assert_eq!(advice, format!("did you mean {wanted:?}?"));
        }
        for (one, ..) in TOOLS {
            for (two, ..) in TOOLS.iter().filter(|t| t.0 != one) {
                assert!(strsim::jaro_winkler(one, two) < ALIKE, "{one} {two}");
            }
        }
    }
}
