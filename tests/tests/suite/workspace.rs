//! The statements of ARCHITECTURE.md about the workspace are true: its table of dependencies, its layers, no unused
//! dependency, programs of a few lines.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Around the table that `BLESS=1` rewrites.
const TABLE: [&str; 2] = ["<!-- dependencies -->\n", "<!-- end of dependencies -->"];

/// Dependencies named in a manifest only for their features: `argmin` needs this one for arithmetic on `Vec`.
const FOR_FEATURES: [&str; 1] = ["argmin_math"];

/// The program that contains every tool, and so the only tool that depends on others.
const EVERY_TOOL: &str = "tools/mt";

#[derive(Deserialize)]
struct Metadata<P> {
    packages: Vec<P>,
}

#[derive(Deserialize)]
pub struct Package {
    name: String,
    manifest_path: PathBuf,
    version: String,
    /// The registries that it may go to: none if it is not published, any if absent.
    publish: Option<Vec<String>>,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    rename: Option<String>,
    kind: Option<String>,
    path: Option<PathBuf>,
    req: String,
}

impl Dependency {
    /// Its name in source code.
    fn code_name(&self) -> String {
        self.rename.as_ref().unwrap_or(&self.name).replace('-', "_")
    }
}

impl Package {
    /// Folder below the root of the workspace: `shared/document/doc`.
    pub fn folder(&self) -> String {
        let folder = self
            .manifest_path
            .parent()
            .expect("a manifest is in a folder");
        let folder = folder
            .strip_prefix(root())
            .expect("members are below the root");
        folder.to_string_lossy().into_owned()
    }

    /// Folders of the workspace in a kind of dependency.
    fn uses(&self, kind: Option<&str>) -> BTreeSet<String> {
        let of_kind = self
            .dependencies
            .iter()
            .filter(|d| d.kind.as_deref() == kind);
        let paths = of_kind.filter_map(|d| d.path.as_deref());
        let folder = |path: &Path| path.strip_prefix(root()).unwrap_or(path).to_owned();
        paths
            .map(|p| folder(p).to_string_lossy().into_owned())
            .collect()
    }

    /// The text of every source below `parts` of the package's folder.
    fn text(&self, parts: &[&str]) -> String {
        let mut text = String::new();
        for part in parts {
            for path in sources(&root().join(self.folder()).join(part)) {
                text += &fs::read_to_string(path).expect("a source is read");
            }
        }
        text
    }
}

pub fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests
        .parent()
        .expect("tests/ is in the workspace")
        .to_owned()
}

pub fn members() -> Vec<Package> {
    packages(&["--no-deps"])
}

/// What `cargo metadata` says of the packages.
pub fn packages<P: DeserializeOwned>(options: &[&str]) -> Vec<P> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--offline", "--format-version", "1"])
        .args(options)
        .current_dir(root())
        .output()
        .expect("cargo starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Metadata<P> = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    metadata.packages
}

/// The Rust files in a folder and below; none where it is absent.
pub fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else {
        return found;
    };
    for entry in entries {
        let path = entry.expect("a folder is read").path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found
}

/// Whether `text` uses the crate `name`: as the start of a path, or as a whole in a `use`.
fn mentions(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = &text[at + name.len()..];
        let starts = !before.is_some_and(|c| c.is_alphanumeric() || c == '_');
        starts && (after.starts_with("::") || after.starts_with(" as ") || after.starts_with(';'))
    })
}

#[test]
fn the_table_of_dependencies_is_true() {
    let path = root().join("ARCHITECTURE.md");
    let text = fs::read_to_string(&path).unwrap();
    let [start, end] = TABLE;
    let (before, rest) = text
        .split_once(start)
        .expect("a table between the two comments");
    let (_, after) = rest
        .split_once(end)
        .expect("a table between the two comments");
    let rows: BTreeMap<String, String> = members()
        .iter()
        .map(|package| {
            let uses: Vec<String> = package.uses(None).into_iter().collect();
            let names = uses.iter().map(|u| u.rsplit('/').next().expect("a name"));
            (package.folder(), names.collect::<Vec<_>>().join(", "))
        })
        .collect();
    let mut table = "| crate | stands on |\n|---|---|\n".to_owned();
    for (folder, uses) in rows {
        table += &format!("| `{folder}` | {uses} |\n");
    }
    let wanted = format!("{before}{start}{table}{end}{after}");
    if std::env::var_os("BLESS").is_some_and(|v| v == "1") {
        fs::write(&path, wanted).unwrap();
    } else {
        assert!(
            text == wanted,
            "ARCHITECTURE.md is behind; `BLESS=1 cargo test -p mt-tests workspace` writes:\n{table}"
        );
    }
}

/// A crate depends on its own layer and on those below. Planners know no process. The simulated GPU, measuring and
/// playing are in one layer, because a simulated launch needs no process.
fn level(folder: &str) -> usize {
    let layer = |folder: &str| LAYERS.iter().position(|l| folder.starts_with(l));
    layer(folder).unwrap_or(LAYERS.len())
}

const LAYERS: [&str; 5] = [
    "shared/base/",
    "shared/document/",
    "shared/plan/",
    "shared/run/",
    "shared/show/",
];

#[test]
fn dependencies_point_one_way() {
    let packages = members();
    let uses: BTreeMap<String, BTreeSet<String>> = packages
        .iter()
        .map(|p| (p.folder(), p.uses(None)))
        .collect();
    // Everything that is reachable, over any number of steps.
    let reach = |from: &str| {
        let mut reached = BTreeSet::new();
        let mut next = vec![from.to_owned()];
        while let Some(folder) = next.pop() {
            for used in &uses[&folder] {
                if reached.insert(used.clone()) {
                    next.push(used.clone());
                }
            }
        }
        reached
    };
    for folder in uses.keys() {
        let tools = reach(folder)
            .into_iter()
            .filter(|f| f.starts_with("tools/"));
        let allowed: Vec<String> = match folder.as_str() {
            EVERY_TOOL => {
                let others = uses.keys().filter(|f| f.starts_with("tools/"));
                others.filter(|f| *f != EVERY_TOOL).cloned().collect()
            }
            _ => Vec::new(),
        };
        assert_eq!(tools.collect::<Vec<_>>(), allowed, "{folder}: its tools");
        assert!(
            !reach(folder).contains("shared/testkit"),
            "{folder}: testkit is for tests only"
        );
    }
    for (folder, used) in &uses {
        // Running code prints its messages through `cli`, which is in no layer.
        let runs = level(folder) >= level("shared/run/");
        for used in used.iter().filter(|u| !(runs && *u == "shared/cli")) {
            assert!(
                level(used) <= level(folder),
                "{folder} stands on {used}, which is in a layer above"
            );
        }
    }
    let never = |from: &str, to: &[&str]| {
        assert!(uses.contains_key(from), "{from} has moved");
        let reached = reach(from);
        for to in to {
            assert!(uses.contains_key(*to), "{to} has moved");
            assert!(!reached.contains(*to), "{from} reaches {to}");
        }
    };
    // The checker may not call what it checks.
    for judged in ["alloc", "overlap", "cluster", "learning"] {
        never("shared/show/check", &[&format!("shared/plan/{judged}")]);
    }
    never("shared/show/check", &["shared/run/launch"]);
    // Crates shared by two planners, or by a planner and the checker, contain no arithmetic of either.
    never("shared/base/math", &["shared/base/units"]);
    never("shared/base/units", &["shared/base/math"]);
    // The simulator's true values must not come from the predictor.
    never(
        "shared/run/gpusim",
        &["shared/plan/predict", "shared/run/jobs"],
    );
}

fn architecture() -> String {
    fs::read_to_string(root().join("ARCHITECTURE.md")).expect("a page")
}

/// Text between back-quotes, outside of code blocks.
fn quoted(text: &str) -> Vec<&str> {
    let lines = text.split("```").step_by(2).flat_map(str::lines);
    lines
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .collect()
}

#[test]
fn every_path_of_the_architecture_is_there() {
    let text = architecture();
    let begins = |name: &&str| {
        let first = name.split('/').next().unwrap_or_default();
        name.contains('/') && ["shared", "tools", "tests", "schemas", "examples"].contains(&first)
    };
    let paths: Vec<&str> = quoted(&text).into_iter().filter(begins).collect();
    assert!(paths.len() > 40, "{} paths", paths.len());
    let lost: Vec<&str> = paths
        .into_iter()
        .filter(|p| !root().join(p).exists())
        .collect();
    assert!(lost.is_empty(), "not there: {}", lost.join(", "));
}

/// Each crate is in the picture of the layers, in the line of its folder.
#[test]
fn the_picture_of_layers_is_the_folders() {
    let text = architecture();
    let picture = text
        .split("```")
        .find(|block| block.starts_with("\ntools/ "))
        .expect("a picture");
    for layer in [
        "tools",
        "shared/show",
        "shared/run",
        "shared/plan",
        "shared/document",
        "shared/base",
    ] {
        let (_, line) = picture
            .split_once(&format!("\n{layer}/ "))
            .expect("a layer in the picture");
        // Up to the next line that begins with a folder.
        let line = line.split("\nshared/").next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        for entry in fs::read_dir(root().join(layer)).expect("a folder") {
            let folder = entry.expect("a folder is read").file_name();
            let name = folder.to_str().expect("a name in UTF-8");
            assert!(
                words.contains(&name),
                "{layer}/{name} is not in the picture"
            );
        }
    }
}

/// Whether `source` defines an item with this name.
fn defines(source: &str, name: &str) -> bool {
    let kinds = ["fn", "struct", "enum", "trait", "type", "const"];
    kinds.iter().any(|kind| {
        source
            .split(&format!("{kind} {name}"))
            .skip(1)
            .any(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    })
}

/// The table "Where to look" names existing files, and in each row items that its files define; a function of a type
/// as `Type::function`.
#[test]
fn the_walk_leads_somewhere() {
    let text = architecture();
    let (_, walk) = text.split_once("## Where to look\n").expect("a walk");
    let (walk, _) = walk.split_once("\n## ").expect("something after it");
    let rows = walk.lines().filter(|line| line.contains('`'));
    assert!(rows.clone().count() >= 9, "{} rows", rows.count());
    for row in rows {
        let names = quoted(row);
        let paths: Vec<PathBuf> = names
            .iter()
            .filter(|name| name.contains('/'))
            .map(|path| root().join(path))
            .collect();
        let mut source = String::new();
        for path in &paths {
            let inside = match path.is_dir() {
                true => sources(path),
                false => vec![path.clone()],
            };
            for file in inside {
                source += &fs::read_to_string(file).expect("a file of the walk");
            }
        }
        for name in names.iter().filter(|n| !n.contains(['/', ' '])) {
            if name.contains('.') {
                let beside = |path: &PathBuf| match path.is_dir() {
                    true => path.join(name),
                    false => path.with_file_name(name),
                };
                let mut places = paths.iter().map(beside).chain([root().join(name)]);
                let file = places
                    .find(|file| file.exists())
                    .unwrap_or_else(|| panic!("{name} is not there: {row}"));
                source += &fs::read_to_string(file).expect("a file of the walk");
            }
        }
        for name in names.iter().filter(|n| !n.contains(['/', ' ', '.'])) {
            let (of, item) = name.rsplit_once("::").unwrap_or(("", name));
            let known = of.is_empty()
                || defines(&source, of)
                || source.lines().any(|line| {
                    let mut words = line.split([' ', '<']);
                    line.starts_with("impl") && words.any(|word| word == of)
                });
            assert!(known && defines(&source, item), "no {name} there: {row}");
        }
    }
}

/// `cargo package` refuses a dependency on another member without a version. Those that only tests use are left out of
/// what is packaged, and need none.
#[test]
fn what_is_published_has_versions() {
    let mut wrong = Vec::new();
    for package in members().iter().filter(|p| p.publish.is_none()) {
        let wanted = format!("^{}", package.version);
        let own = package.dependencies.iter().filter(|d| d.path.is_some());
        for dependency in own.filter(|d| d.kind.as_deref() != Some("dev") && d.req != wanted) {
            wrong.push(format!(
                "{}: {} {}",
                package.name, dependency.name, dependency.req
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "not the version of the workspace:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn every_dependency_is_used() {
    let mut unused = Vec::new();
    for package in members() {
        let code = package.text(&["src"]);
        let tests = package.text(&["src", "tests", "examples", "benches"]) + &beside(&package);
        for dependency in &package.dependencies {
            let text = match dependency.kind.as_deref() {
                None => &code,
                Some("dev") => &tests,
                Some(_) => continue,
            };
            let name = dependency.code_name();
            if !FOR_FEATURES.contains(&name.as_str()) && !mentions(text, &name) {
                let folder = package.folder();
                unused.push(format!("{folder}/Cargo.toml: {name}"));
            }
        }
    }
    assert!(
        unused.is_empty(),
        "unused dependencies:\n{}",
        unused.join("\n")
    );
}

/// The examples of mt-tests that are stored beside their data.
fn beside(package: &Package) -> String {
    if package.name == "mt-tests" {
        package.text(&["../examples/paper/tool", "../examples/elastic/tool"])
    } else {
        String::new()
    }
}

#[test]
fn programs_call_their_libraries() {
    for package in members() {
        let folder = package.folder();
        if !folder.starts_with("tools/") {
            continue;
        }
        let main = fs::read_to_string(root().join(&folder).join("src/main.rs"))
            .unwrap()
            .lines()
            .count();
        // The names of the tools and no more.
        let most = if folder == EVERY_TOOL { 40 } else { 5 };
        assert!(main <= most, "{folder}/src/main.rs: calls the library");
    }
}

#[test]
fn engines_know_no_command_line() {
    let knows_clap = |p: &Package| p.dependencies.iter().any(|d| d.name == "clap");
    for package in members().iter().filter(|p| knows_clap(p)) {
        let folder = package.folder();
        let may = folder.starts_with("tools/") || folder == "shared/cli";
        assert!(may, "{folder} depends on clap: arguments belong to tools");
    }
}

/// Crates that may name a wire form. The parameters of a predictor are stored directly, so `predict` still builds
/// their wire form itself.
const WIRE: [&str; 2] = ["shared/document/doc", "shared/plan/predict"];

#[test]
fn wire_forms_are_private_to_doc() {
    let packages = members();
    for package in packages
        .iter()
        .filter(|p| !WIRE.contains(&p.folder().as_str()))
    {
        for part in ["src", "tests", "examples"] {
            for path in sources(&root().join(package.folder()).join(part)) {
                let text = fs::read_to_string(&path).unwrap();
                // In two pieces, so that this file does not contain it.
                let found = text.contains(concat!("wire", "::"));
                assert!(!found, "{}: wire forms stay in doc", path.display());
            }
        }
    }
}
