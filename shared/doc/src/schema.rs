use jsonschema::error::ValidationErrorKind;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::wire::{self, Wire};
use crate::{Code, Fault};

/// The schema ids, for messages.
pub(crate) fn names() -> String {
    [
        wire::Workload::SCHEMA,
        wire::ProfileHeader::SCHEMA,
        wire::Model::SCHEMA,
        wire::Plan::SCHEMA,
        wire::Timeline::SCHEMA,
        wire::RunEvent::SCHEMA,
    ]
    .join(", ")
}

fn schema_of<W: Wire>() -> Value {
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

/// Every place where JSON does not have the shape of `W`; `serde` would stop at the first.
pub(crate) fn structural_faults<W: Wire>(bytes: &[u8]) -> Vec<Fault> {
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else {
        return Vec::new();
    };
    let Ok(validator) = jsonschema::validator_for(&schema_of::<W>()) else {
        return Vec::new();
    };
    validator
        .iter_errors(&value)
        .flat_map(|error| faults_of(&error))
        .collect()
}

fn faults_of(error: &jsonschema::ValidationError<'_>) -> Vec<Fault> {
    let path = json_path(error.instance_path().as_str());
    let fault = |code: Code, path: String, problem: String, advice: String| Fault {
        code,
        path,
        problem,
        advice,
    };
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => unexpected
            .iter()
            .map(|name| {
                let problem = format!("the field {name:?} is not known");
                let advice = Code::UnknownField.action().to_owned();
                fault(
                    Code::UnknownField,
                    format!("{path}.{name}"),
                    problem,
                    advice,
                )
            })
            .collect(),
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            let problem = format!("the field {name:?} is missing");
            vec![fault(
                Code::MissingField,
                path,
                problem,
                "add it".to_owned(),
            )]
        }
        _ => vec![fault(
            Code::WrongType,
            path,
            shortened(&error.to_string()),
            Code::WrongType.action().to_owned(),
        )],
    }
}

/// The JSON path of a JSON pointer: `/tasks/1/id` is `$.tasks[1].id`.
fn json_path(pointer: &str) -> String {
    let mut path = String::from("$");
    for segment in pointer.split('/').skip(1) {
        let segment = segment.replace("~1", "/").replace("~0", "~");
        if segment.bytes().all(|b| b.is_ascii_digit()) {
            path.push_str(&format!("[{segment}]"));
        } else {
            path.push_str(&format!(".{segment}"));
        }
    }
    path
}

/// A message may quote a whole document; people need its beginning and its end.
fn shortened(message: &str) -> String {
    const KEEP: usize = 80;
    let characters: Vec<char> = message.chars().collect();
    if characters.len() <= 2 * KEEP {
        return message.to_owned();
    }
    let head: String = characters[..KEEP].iter().collect();
    let tail: String = characters[characters.len() - KEEP..].iter().collect();
    format!("{head} … {tail}")
}
