//! Licences and sources of the dependencies on this platform, as `deny.toml` allows them. Crates that only other
//! platforms need are in Cargo.lock, but a build here never downloads them, so their licences cannot be read offline:
//! only their sources are checked here, and their licences by `cargo deny`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use crate::workspace::packages;

const INDEX: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[derive(Deserialize)]
struct Package {
    name: String,
    license: Option<String>,
    source: Option<String>,
}

/// Whether an SPDX expression of OR, AND and parentheses (without further nesting) is met; the old
/// form `MIT/Apache-2.0` means OR.
fn is_met(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let old = expression.replace('/', " OR ");
    let plain = old.replace(['(', ')'], " ");
    let joined = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    let one = |part: &str| part.split(" OR ").any(|name| allowed.contains(name.trim()));
    joined.split(" AND ").all(one)
}

/// The platform that this toolchain builds for.
fn host() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .arg("-vV")
        .output()
        .expect("rustc starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.expect("rustc names its host").to_owned()
}

fn allowed() -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deny.toml");
    let text = fs::read_to_string(path).expect("deny.toml is read");
    let list = text
        .split("allow = [")
        .nth(1)
        .expect("it allows some licences");
    let list = list.split(']').next().expect("a list ends");
    list.split('"')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_dependency_has_a_licence_and_a_source_that_are_allowed() {
    let packages: Vec<Package> = packages(&["--locked", "--filter-platform", &host()]);
    let allowed = allowed();
    assert!(allowed.contains("MIT") && packages.len() > 100);
    for package in &packages {
        let name = &package.name;
        let licence = package.license.as_deref().unwrap_or("none");
        assert!(is_met(licence, &allowed), "{name}: licence {licence}");
        let source = package.source.as_deref();
        let ours = source.is_none() && name.starts_with("mt");
        assert!(
            ours || source == Some(INDEX),
            "{name} comes from {source:?}"
        );
    }
}

#[test]
fn every_locked_package_of_every_platform_comes_from_the_index() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock");
    let text = fs::read_to_string(path).expect("Cargo.lock is read");
    let sources: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("source = "))
        .collect();
    assert!(sources.len() > 100);
    for source in sources {
        assert_eq!(source.trim_matches('"'), INDEX);
    }
}

#[test]
fn expressions_of_licences_are_read() {
    let allowed = BTreeSet::from(["MIT".to_owned(), "Unicode-3.0".to_owned()]);
    for (expression, met) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0/MIT", true),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
        ("MIT AND GPL-3.0", false),
        ("Apache-2.0 WITH LLVM-exception", false),
    ] {
        assert_eq!(is_met(expression, &allowed), met, "{expression}");
    }
}
