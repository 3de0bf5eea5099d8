//! The manual pages: mt-workload(5) names every member of the documents that it is about, and the page of
//! each tool has its sections.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use mt_tests::Folder;
use serde_json::Value;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Names of members anywhere in a schema, and constants that members may be.
fn named(schema: &Value, names: &mut BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::Object(properties)) = members.get("properties") {
                names.extend(properties.keys().cloned());
            }
            names.extend(
                members
                    .get("const")
                    .and_then(Value::as_str)
                    .map(str::to_owned),
            );
            members.values().for_each(|value| named(value, names));
        }
        Value::Array(items) => items.iter().for_each(|item| named(item, names)),
        _ => {}
    }
}

#[test]
fn mt_workload_names_every_member() {
    let page = read("tools/mt-launch/man/mt-workload.5").replace('\\', "");
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
    let words: BTreeSet<&str> = page
        .split(|c| !is_word(c))
        .map(|w| w.trim_matches(['.', '-']))
        .collect();
    for document in ["workload", "training", "allocation"] {
        let schema = read(&format!("schemas/mt.{document}.1.schema.json"));
        let mut names = BTreeSet::new();
        named(&serde_json::from_str(&schema).unwrap(), &mut names);
        assert!(names.len() > 10, "{document}: {names:?}");
        let missing: Vec<&String> = names
            .iter()
            .filter(|n| !words.contains(n.as_str()))
            .collect();
        assert!(
            missing.is_empty(),
            "mt-workload(5) lacks {missing:?} of mt.{document}/1"
        );
    }
}

/// Columns by which man(1) indents the text of a section.
const INDENT: usize = 7;

#[test]
fn every_tool_has_a_page_with_its_sections() {
    let folder = Folder::new();
    for tool in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools")).unwrap() {
        let tool = tool.unwrap().file_name().into_string().unwrap();
        let page = folder.run(&format!("{tool} --man"));
        page.assert_code(0);
        for section in ["OPTIONS", "EXAMPLES", "EXIT STATUS", "SEE ALSO", "VERSION"] {
            let heading = format!("\n.SH {section}\n");
            assert!(page.stdout.contains(&heading), "{tool} lacks {section}");
        }
        assert!(page.stdout.contains(".BR mt\\-workload (5)"), "{tool}");
        // What is not filled is cut, or broken anywhere, by the reader of a terminal of 80 columns.
        let blocks = page.stdout.split("\n.nf\n").skip(1);
        let lines = blocks.flat_map(|block| block.split(".fi\n").next().unwrap_or("").lines());
        for line in lines {
            let shown = line
                .replace("\\(aq", "'")
                .replace("\\&", "")
                .replace("\\e", "!");
            let columns = INDENT + shown.replace('\\', "").chars().count();
            assert!(columns <= 80, "{tool}, {columns} columns: {line}");
        }
    }
}
