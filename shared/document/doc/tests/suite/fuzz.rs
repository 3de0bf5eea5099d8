//! Mutations of the tools' own test documents: none causes a panic, and an accepted one survives a
//! round trip unchanged.

use std::path::{Path, PathBuf};

use doc::*;
use testkit::fuzz::fuzz;

/// Folders with documents, besides our own findings.
fn corpus(own: &str) -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tools = [
        "check", "cluster", "elastic", "overlap", "profile", "report", "solve",
    ];
    let of_tool = |tool| here.join(format!("../../../tools/mt-{tool}/tests/cli/in"));
    let own = here.join("tests/fuzz").join(own);
    [own].into_iter().chain(tools.map(of_tool)).collect()
}

/// A fault without the parts that differ from input to input.
fn class(error: &ReadError) -> String {
    match error {
        ReadError::Faults(faults) => {
            let fault = &faults.faults[0];
            let path: String = fault.path.chars().filter(|c| !c.is_ascii_digit()).collect();
            // Paths contain names from the input, of any length.
            format!(
                "{:?} {}",
                fault.code,
                path.chars().take(60).collect::<String>()
            )
        }
        ReadError::Io { .. } => "io".to_owned(),
    }
}

fn again<D: Document + PartialEq + std::fmt::Debug>(document: &D) {
    let mut text = Vec::new();
    write_line(&mut text, document).unwrap();
    let read = Documents::<_, D>::new(Frames::new(text.as_slice(), "again")).next();
    assert_eq!(read.unwrap().as_ref().unwrap(), document);
}

fn documents(input: &[u8]) -> String {
    let mut out: Vec<String> = Vec::new();
    for document in AnyDocuments::new(Frames::new(input, "t")) {
        out.push(match &document {
            Ok(Any::Workload(d)) => {
                again(&**d);
                "workload".to_owned()
            }
            Ok(Any::Model(d)) => {
                again(&**d);
                "model".to_owned()
            }
            Ok(Any::Plan(d)) => {
                again(&**d);
                "plan".to_owned()
            }
            Ok(Any::Timeline(d)) => {
                again(&**d);
                "timeline".to_owned()
            }
            Ok(Any::Cluster(d)) => {
                again(&**d);
                "cluster".to_owned()
            }
            Ok(Any::Schedule(d)) => {
                again(&**d);
                "schedule".to_owned()
            }
            Ok(Any::Status(d)) => {
                again(&**d);
                "status".to_owned()
            }
            Ok(Any::Profile(p)) => format!("profile {}", p.samples.len().min(3)),
            Ok(Any::Run(events)) => {
                events.iter().for_each(again);
                format!("run {}", events.len().min(3))
            }
            Ok(Any::Allocations(all)) => {
                all.iter().for_each(again);
                "allocations".to_owned()
            }
            Err(error) => class(error),
        });
    }
    out.truncate(3);
    out.join(", ")
}

#[test]
fn fuzz_documents() {
    let paths = corpus("documents");
    let folders: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    fuzz("documents", &folders, documents);
}

#[test]
fn fuzz_forms_for_people() {
    let paths = corpus("forms");
    let mut folders: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/forms-corpus");
    folders.push(&own);
    fuzz("forms", &folders, |input| {
        let forms = ["w.yaml", "w.toml"].map(|name| Form::of_name(Path::new(name)).unwrap());
        let each = forms.map(|form| match form.to_json(input, "t") {
            Ok(json) => format!("read: {}", documents(&json)),
            Err(error) => class(&error),
        });
        each.join("; ")
    });
}
