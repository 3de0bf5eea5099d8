//! The manual pages: mt-workload(5) names every member of its documents, and the page of each tool has its sections.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use mt_tests::Folder;
use serde_json::Value;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Names of members anywhere in a schema, and constants that may be values of members.
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

/// Every tool, and every command of one, that has `--help`.
fn commands(folder: &Folder) -> Vec<String> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools");
    let mut all = Vec::new();
    for tool in fs::read_dir(tools).expect("the folder of the tools") {
        let tool = tool
            .expect("a tool")
            .file_name()
            .into_string()
            .expect("a name in ASCII");
        let help = folder.run(&format!("{tool} --help")).stdout;
        let listed = help
            .split_once("\nCommands:\n")
            .map_or("", |(_, rest)| rest);
        let listed = listed.split("\n\n").next().unwrap_or("").lines();
        let named = listed.filter(|l| l.starts_with("  ") && !l.starts_with("   "));
        let verbs = named.filter_map(|l| l.split_whitespace().next());
        // clap's own `help` takes the name of a command, and no options.
        let verbs = verbs.filter(|verb| *verb != "help");
        all.extend(verbs.map(|verb| format!("{tool} {verb}")));
        all.push(tool);
    }
    all
}

/// Lines of examples: text for pasting must not be broken.
fn examples(help: &str) -> Vec<&str> {
    let examples = help
        .split_once("\nExamples:\n")
        .map_or("", |(_, rest)| rest);
    let examples = examples.split("\n\n").next().unwrap_or("").lines();
    let is_example = |l: &&str| l.starts_with("  ") && !l.starts_with("   ");
    examples.filter(is_example).collect()
}

#[test]
fn help_is_broken_by_the_terminal_and_nowhere_else() {
    let folder = Folder::new();
    let commands = commands(&folder);
    assert!(commands.len() > 30, "{commands:?}");
    assert!(commands.contains(&"mt sweep".to_owned()), "{commands:?}");
    for command in commands {
        let shown = [80, 100].map(|columns: usize| {
            let help = folder.run(&format!("COLUMNS={columns} {command} --help"));
            help.assert_code(0);
            let lines: Vec<&str> = help.stdout.lines().collect();
            for pair in lines.windows(2) {
                let width = pair[0].chars().count();
                assert!(width <= columns, "{command}, {width} columns: {}", pair[0]);
                // Of two lines of a paragraph, the first has no room for the first word of the second.
                let flows = |l: &str| !l.is_empty() && !l.starts_with(' ');
                let word = pair[1].split(' ').next().unwrap_or("").chars().count();
                let broken = flows(pair[0]) && flows(pair[1]) && width + 1 + word <= columns;
                assert!(!broken, "{command}, {columns} columns: {pair:#?}");
            }
            help.stdout
        });
        assert_eq!(examples(&shown[0]), examples(&shown[1]), "{command}");
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
        // Text that is not filled would be cut, or broken anywhere, on a terminal of 80 columns.
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

#[test]
fn every_command_of_mt_has_a_page_that_is_installed() {
    let folder = Folder::new();
    let help = folder.run("mt --help").stdout;
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let (commands, _) = commands.split_once("\n\n").unwrap();
    let names = commands
        .lines()
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next());
    // Tools have pages of their own.
    let is_verb = |name: &&str| *name != "help" && !commands.contains(&format!("(mt-{name})"));
    let verbs: Vec<&str> = names.filter(is_verb).collect();
    let makefile = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../Makefile")).unwrap();
    assert!(
        makefile.contains(&format!("\nVERBS := {}\n", verbs.join(" "))),
        "{verbs:?}"
    );
    for verb in verbs {
        let page = folder.run(&format!("mt {verb} --man"));
        page.assert_code(0);
        let name = verb.replace('-', "\\-");
        for part in [
            format!(".TH mt-{verb} 1"),
            format!("mt\\-{name}"),
            ".SH OPTIONS".to_owned(),
        ] {
            assert!(
                page.stdout.contains(&part),
                "{verb} lacks {part}: {}",
                page.stdout
            );
        }
    }
}
