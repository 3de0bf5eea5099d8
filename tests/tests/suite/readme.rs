//! The README and its pages show the tools' real output, and their links work. `BLESS=1` writes the output into the
//! pages.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use mt_tests::Folder;

const TOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Pages that may link to each other as files: everything except build output and what examples measured (`out`).
fn pages() -> Vec<PathBuf> {
    let mut pages = Vec::new();
    let mut folders = vec![PathBuf::from(TOP)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of the project") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let output = name == "target" || name == "out" || name.starts_with('.');
            if path.is_dir() && !path.is_symlink() && !output {
                folders.push(path);
            } else if name.ends_with(".md") {
                pages.push(path);
            }
        }
    }
    pages
}

/// Targets of links outside of code, and names of headings in the form of web pages.
fn links_and_anchors(text: &str) -> (Vec<String>, BTreeSet<String>) {
    let (mut links, mut anchors, mut code) = (Vec::new(), BTreeSet::new(), false);
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            code = !code;
        } else if !code {
            if let Some(heading) = line.strip_prefix('#') {
                let heading = heading.trim_start_matches('#').trim().to_lowercase();
                let kept = heading
                    .chars()
                    .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
                anchors.insert(kept.map(|c| if c == ' ' { '-' } else { c }).collect());
            }
            let parts = line.split("](").skip(1);
            links.extend(parts.filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())));
        }
    }
    (links, anchors)
}

#[test]
fn links_lead_somewhere() {
    let mut dead = Vec::new();
    let read = |path: &Path| fs::read_to_string(path).expect("a page");
    for page in pages() {
        for link in links_and_anchors(&read(&page)).0 {
            if link.contains("://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file {
                "" => page.clone(),
                _ => page.with_file_name("").join(file),
            };
            let found = target.exists()
                && (anchor.is_empty() || links_and_anchors(&read(&target)).1.contains(anchor));
            if !found {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(dead.is_empty(), "{}", dead.join("\n"));
}

/// The first two pictures of a page with several: the round, and the seconds of schemes.
fn first_two(svg: &str) -> String {
    let begin = |n| {
        svg.match_indices("<g transform=\"translate(0 ")
            .nth(n)
            .expect("three pictures")
            .0
    };
    let third = &svg[begin(2)..];
    let height = third["<g transform=\"translate(0 ".len()..]
        .split(')')
        .next()
        .expect("the top of the third");
    let whole = svg
        .split("height=\"")
        .nth(1)
        .expect("a height")
        .split('"')
        .next()
        .expect("a number");
    let (head, rest) = svg[..begin(2)].split_at(begin(0));
    let head = head.replace(
        &format!("height=\"{whole}\""),
        &format!("height=\"{height}\""),
    );
    let head = head.replace(&format!(" {whole}\""), &format!(" {height}\""));
    format!("{head}{rest}</svg>\n")
}

#[test]
fn the_plan_of_the_pipe_is_that_of_the_tools() {
    let folder = Folder::new();
    let workload = format!("{TOP}/examples/quickstart/workload.json");
    folder
        .run(&format!(
            "set -e; mt-profile {workload} | mt-fit -q | mt-solve -o plan; mt-overlap plan -o timeline"
        ))
        .assert_code(0);
    let plan = folder.run("mt-report plan").stdout;
    let verdict = plan
        .lines()
        .find(|line| line.starts_with("Share: "))
        .expect("a verdict");
    let table = plan
        .split("What each task gets\n")
        .nth(1)
        .and_then(|rest| rest.split("\n\n").next())
        .expect("a table");
    let shown = format!("<!-- plan -->\n```\n{verdict}\n\n{table}\n```\n");
    let svg = first_two(&folder.run("mt-report --format svg timeline").stdout);
    let (page, picture) = (
        format!("{TOP}/docs/pipe.md"),
        format!("{TOP}/docs/round.svg"),
    );
    let text = fs::read_to_string(&page).expect("the page");
    let (before, rest) = text
        .split_once("<!-- plan -->\n")
        .expect("the place of the plan");
    let after = rest.splitn(3, "```\n").nth(2).expect("a block of code");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&page, format!("{before}{shown}{after}")).expect("the page is written");
        fs::write(&picture, &svg).expect("the picture is written");
        return;
    }
    assert!(
        text.contains(&shown),
        "docs/pipe.md shows another plan than\n{shown}"
    );
    let committed = fs::read_to_string(&picture).expect("the picture");
    assert!(
        committed == svg,
        "docs/round.svg is not what mt-report draws"
    );
}

#[test]
fn the_readme_is_read_in_a_minute() {
    let readme = fs::read_to_string(format!("{TOP}/README.md")).expect("the README");
    assert!(readme.lines().count() <= 130);
}
