//! No cycle of files within a crate: each file can be read knowing only those that it depends on.
//!
//! File A depends on file B if A names an item that B defines, in a `use` or in a path. A re-exported name is
//! followed to its definition, so a module may re-export the items of those below it (`pub use`) without depending on
//! them, unless it uses the name itself. Comments, strings and test code do not count.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::Path;

use crate::workspace::{members, root, sources};

/// The path of a module in its crate; empty for the crate itself.
type Module = Vec<String>;

#[test]
fn no_circle_of_files_within_a_crate() {
    let tied: Vec<String> = members()
        .iter()
        .filter_map(|package| {
            let folder = package.folder();
            let circles = Crate::read(&root().join(&folder).join("src")).circles()?;
            Some(format!("{folder}/src: {circles}"))
        })
        .collect();
    assert!(
        tied.is_empty(),
        "files that need each other; move what the lower one needs down, or join them:\n{}",
        tied.join("\n")
    );
}

/// References in a source file.
#[derive(Default)]
struct Source {
    /// Imported names, with the path of each, and whether they are only re-exported.
    imports: Vec<Import>,
    /// Paths within code, each with the module in which it is resolved.
    paths: Vec<(Module, Vec<String>)>,
    /// Names of items that are defined here.
    defined: BTreeSet<String>,
    /// Every name outside of a `use`.
    used: BTreeSet<String>,
    /// Child modules that are compiled for tests only.
    tests: BTreeSet<String>,
}

struct Import {
    /// The module of the `use`.
    at: Module,
    path: Vec<String>,
    /// The imported name; `*` for all names of a module.
    name: String,
    public: bool,
}

struct Crate {
    files: BTreeMap<Module, Source>,
}

impl Crate {
    fn read(src: &Path) -> Self {
        let mut files = BTreeMap::new();
        for path in sources(src) {
            let below = path
                .strip_prefix(src)
                .expect("a source is below its folder");
            let below = below.with_extension("");
            let mut module: Module = below
                .iter()
                .map(|part| part.to_str().expect("a name in UTF-8").to_owned())
                .collect();
            if matches!(
                module.last().map_or("", String::as_str),
                "lib" | "main" | "mod"
            ) {
                module.pop();
            }
            let text = fs::read_to_string(&path).expect("a source is read");
            files.insert(module.clone(), Source::of(&text, &module));
        }
        Self::of(files)
    }

    fn of(mut files: BTreeMap<Module, Source>) -> Self {
        let tests: Vec<Module> = files
            .iter()
            .flat_map(|(module, s)| s.tests.iter().map(|t| child(module, t)))
            .collect();
        files.retain(|module, _| !tests.iter().any(|t| module.starts_with(t)));
        Self { files }
    }

    /// The file that holds a module, which may be an inline one.
    fn file(&self, module: &[String]) -> Module {
        let mut module = module.to_vec();
        while !module.is_empty() && !self.files.contains_key(&module) {
            module.pop();
        }
        module
    }

    /// The item of a path, resolved in module `at`; `None` for a path of another crate, and for a module as a whole.
    fn target(&self, at: &[String], path: &[String], depth: usize) -> Option<Item> {
        // Cyclic re-exports would not compile.
        if depth > 16 {
            return None;
        }
        let mut module = at.to_vec();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => (module, rest) = (Vec::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {}
            first => {
                let known = self.files.contains_key(&child(at, first));
                let passed = self.files[&self.file(at)].import(at, first).is_some();
                if !known && !passed {
                    return None;
                }
            }
        }
        while rest.first().is_some_and(|p| p == "super") {
            module.pop();
            rest = &rest[1..];
        }
        while let Some(next) = rest.first() {
            let below = child(&module, next);
            if self.files.contains_key(&below) {
                (module, rest) = (below, &rest[1..]);
                continue;
            }
            let file = self.file(&module);
            let source = &self.files[&file];
            if let Some(import) = source.import(&module, next) {
                let mut path = import.path.clone();
                // `use x::y as y` in x would lead to itself.
                if path == [next.clone()] {
                    return None;
                }
                path.extend_from_slice(&rest[1..]);
                return self.target(&import.at, &path, depth + 1);
            }
            if !source.defined.contains(next) {
                for glob in source.imports.iter().filter(|i| i.name == "*") {
                    let mut path = glob.path.clone();
                    path.extend_from_slice(rest);
                    let found = self.target(&glob.at, &path, depth + 1);
                    let defines = |i: &Item| self.files[&i.file].defined.contains(&i.name);
                    if found.as_ref().is_some_and(defines) {
                        return found;
                    }
                }
            }
            let name = next.clone();
            return Some(Item { file, name });
        }
        None
    }

    /// The files that each file depends on.
    fn edges(&self) -> BTreeMap<&Module, BTreeSet<Module>> {
        let edges = self.files.iter().map(|(module, source)| {
            let imported = source.imports.iter().filter(|i| {
                // A name that is only re-exported is not used here.
                i.name != "*" && (!i.public || source.used.contains(&i.name))
            });
            let imported = imported.map(|i| (&i.at, &i.path));
            let paths = source.paths.iter().map(|(at, path)| (at, path));
            let mut on = BTreeSet::new();
            for (at, path) in imported.chain(paths) {
                // A module that is imported as a whole counts by the paths through it.
                let item = self.target(at, path, 0);
                on.extend(item.map(|i| i.file).filter(|file| file != module));
            }
            (module, on)
        });
        edges.collect()
    }

    /// A shortest cycle through each strongly connected set of files, and the size of the set.
    fn circles(&self) -> Option<String> {
        let edges = self.edges();
        let mut seen: BTreeSet<&Module> = BTreeSet::new();
        let mut found = Vec::new();
        for from in edges.keys() {
            let circle = shortest_circle(&edges, from);
            if seen.contains(from) || circle.is_empty() {
                continue;
            }
            let reached = reach(&edges, from);
            let knot = reached
                .iter()
                .filter(|to| reach(&edges, to).contains(*from));
            let knot: Vec<&Module> = knot.copied().collect();
            let name = |m: &Module| match m.is_empty() {
                true => "the crate's own file".to_owned(),
                false => m.join("/"),
            };
            let names: Vec<String> = circle.iter().map(name).collect();
            found.push(format!(
                "{} ({} files in the knot)",
                names.join(" -> "),
                knot.len()
            ));
            seen.extend(knot);
        }
        (!found.is_empty()).then(|| found.join("; "))
    }
}

/// An item, in the file that defines it.
struct Item {
    file: Module,
    name: String,
}

type Edges<'a> = BTreeMap<&'a Module, BTreeSet<Module>>;

fn reach<'a>(edges: &'a Edges<'_>, from: &Module) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&Module> = edges[from].iter().collect();
    while let Some(file) = next.pop() {
        if reached.insert(file) {
            next.extend(&edges[file]);
        }
    }
    reached
}

/// From a file back to itself, by breadth-first search; empty if there is no path.
fn shortest_circle(edges: &Edges<'_>, from: &Module) -> Vec<Module> {
    let mut came: BTreeMap<&Module, &Module> = BTreeMap::new();
    let mut next = VecDeque::from([from]);
    while let Some(file) = next.pop_front() {
        for to in &edges[file] {
            if to == from {
                let mut way = vec![from.clone()];
                let mut at = file;
                while at != from {
                    way.push(at.clone());
                    at = came[at];
                }
                way.push(from.clone());
                way.reverse();
                return way;
            }
            if !came.contains_key(to) {
                came.insert(to, file);
                next.push_back(to);
            }
        }
    }
    Vec::new()
}

fn child(module: &[String], name: &str) -> Module {
    let mut below = module.to_vec();
    below.push(name.to_owned());
    below
}

impl Source {
    fn of(text: &str, module: &Module) -> Self {
        let tokens = tokens(text);
        let mut reader = Reader {
            tokens: &tokens,
            at: 0,
            module: module.clone(),
            inline: Vec::new(),
            depth: 0,
            source: Source::default(),
        };
        while reader.at < tokens.len() {
            reader.step();
        }
        reader.source
    }

    fn import(&self, at: &[String], name: &str) -> Option<&Import> {
        self.imports
            .iter()
            .find(|i| i.name == name && i.at == *at)
            .or_else(|| self.imports.iter().find(|i| i.name == name))
    }
}

/// Goes through the tokens of a file.
struct Reader<'t> {
    tokens: &'t [String],
    at: usize,
    module: Module,
    /// Depth of the braces of each inline module that is open.
    inline: Vec<usize>,
    depth: usize,
    source: Source,
}

impl Reader<'_> {
    fn token(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).map_or("", String::as_str)
    }

    fn step(&mut self) {
        let public = self.at > 0 && matches!(self.tokens[self.at - 1].as_str(), "pub" | ")");
        match self.token(0) {
            "#" if self.is_test_attribute() => return self.skip_item(),
            "{" => self.depth += 1,
            "}" => {
                self.depth -= 1;
                if self.inline.last() == Some(&self.depth) {
                    self.inline.pop();
                    self.module.pop();
                }
            }
            // Declaring a module is not a use of it, nor of an item with its name.
            "mod" => {
                if self.token(2) == "{" {
                    self.inline.push(self.depth);
                    self.module.push(self.token(1).to_owned());
                }
                self.at += 1;
            }
            // `impl Trait + use<'a>` captures and imports nothing.
            "use" if self.token(1) != "<" => {
                self.at += 1;
                self.use_tree(&mut Vec::new(), public);
            }
            "struct" | "enum" | "fn" | "trait" | "type" | "const" | "static" | "union" => {
                let name = self.token(1).to_owned();
                self.source.defined.insert(name);
            }
            "macro_rules" => {
                let name = self.token(2).to_owned();
                self.source.defined.insert(name);
            }
            first if is_name(first) => self.path(),
            _ => {}
        }
        self.at += 1;
    }

    /// `#[cfg(test)]`, or `all(test, ..)` in it.
    fn is_test_attribute(&self) -> bool {
        let all = ["#", "[", "cfg", "("];
        all.iter().enumerate().all(|(k, t)| self.token(k) == *t)
            && (self.token(4) == "test" || (self.token(4) == "all" && self.token(6) == "test"))
    }

    /// Skips an item with its attributes; records a module of tests in a separate file.
    fn skip_item(&mut self) {
        let mut depth = 0_usize;
        loop {
            match self.token(0) {
                "" => return,
                "mod" if depth == 0 && self.token(2) == ";" => {
                    let name = self.token(1).to_owned();
                    self.source.tests.insert(name);
                }
                "{" | "[" | "(" => depth += 1,
                "}" | "]" | ")" => {
                    depth -= 1;
                    if depth == 0 && self.token(0) == "}" {
                        self.at += 1;
                        return;
                    }
                }
                ";" if depth == 0 => {
                    self.at += 1;
                    return;
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    /// The tree of a `use`, from its first name up to before its `;`, `,` or `}`.
    fn use_tree(&mut self, before: &mut Vec<String>, public: bool) {
        let length = before.len();
        loop {
            match self.token(0).to_owned().as_str() {
                "::" => self.at += 1,
                "{" => {
                    self.at += 1;
                    while self.token(0) != "}" && !self.token(0).is_empty() {
                        self.use_tree(before, public);
                        if self.token(0) == "," {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    break;
                }
                name if is_name(name) || name == "*" => {
                    self.at += 1;
                    if self.token(0) == "::" {
                        before.push(name.to_owned());
                        continue;
                    }
                    let mut path = before.clone();
                    if name != "self" && name != "*" {
                        path.push(name.to_owned());
                    }
                    let mut given = match name {
                        "self" => path.last().cloned().unwrap_or_default(),
                        other => other.to_owned(),
                    };
                    if self.token(0) == "as" {
                        given = self.token(1).to_owned();
                        self.at += 2;
                    }
                    self.source.imports.push(Import {
                        at: self.module.clone(),
                        path,
                        name: given,
                        public,
                    });
                    break;
                }
                _ => break,
            }
        }
        before.truncate(length);
    }

    /// A name, or a path of several, that stands in code.
    fn path(&mut self) {
        let after = self.at > 0 && matches!(self.tokens[self.at - 1].as_str(), "::" | ".");
        let mut path = vec![self.token(0).to_owned()];
        while self.token(1) == "::" && is_name(self.token(2)) {
            self.at += 2;
            path.push(self.token(0).to_owned());
        }
        self.source.used.insert(path[0].clone());
        if path.len() > 1 && !after {
            self.source.paths.push((self.module.clone(), path));
        }
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Names, `::` and single characters; comments, strings, characters and lifetimes are left out.
fn tokens(text: &str) -> Vec<String> {
    let c: Vec<char> = text.chars().collect();
    let at = |k: usize| c.get(k).copied().unwrap_or('\0');
    let mut tokens = Vec::new();
    let mut k = 0;
    while k < c.len() {
        match c[k] {
            '/' if at(k + 1) == '/' => {
                while k < c.len() && c[k] != '\n' {
                    k += 1;
                }
            }
            '/' if at(k + 1) == '*' => {
                while k < c.len() && !(c[k] == '*' && at(k + 1) == '/') {
                    k += 1;
                }
                k += 2;
            }
            '"' => k = string_end(&c, k),
            // A lifetime is a quote and a name without a second quote.
            '\'' if at(k + 1) != '\\' && at(k + 2) != '\'' => k += 2,
            '\'' => {
                k += if at(k + 1) == '\\' { 3 } else { 2 };
                while k < c.len() && c[k] != '\'' {
                    k += 1;
                }
                k += 1;
            }
            ':' if at(k + 1) == ':' => {
                tokens.push("::".to_owned());
                k += 2;
            }
            first if first.is_alphanumeric() || first == '_' => {
                let start = k;
                while at(k).is_alphanumeric() || at(k) == '_' {
                    k += 1;
                }
                let name: String = c[start..k].iter().collect();
                match (name.as_str(), at(k)) {
                    ("r" | "br" | "cr", '"' | '#') => k = raw_end(&c, k),
                    ("b" | "c", '"') => k = string_end(&c, k),
                    _ => tokens.push(name),
                }
            }
            space if space.is_whitespace() => k += 1,
            other => {
                tokens.push(other.to_string());
                k += 1;
            }
        }
    }
    tokens
}

/// Position after the string that begins at `k`.
fn string_end(c: &[char], mut k: usize) -> usize {
    k += 1;
    while k < c.len() && c[k] != '"' {
        k += if c[k] == '\\' { 2 } else { 1 };
    }
    k + 1
}

/// Position after the raw string, or the raw name, whose `#` or quote is at `k`.
fn raw_end(c: &[char], mut k: usize) -> usize {
    let hashes = c[k..].iter().take_while(|c| **c == '#').count();
    k += hashes;
    if c.get(k) != Some(&'"') {
        return k;
    }
    k += 1;
    while k < c.len() {
        let closes = c[k] == '"' && c[k + 1..].iter().take(hashes).all(|c| *c == '#');
        if closes && c.len() > k + hashes {
            return k + 1 + hashes;
        }
        k += 1;
    }
    k
}

/// A crate of these files.
fn made(files: &[(&str, &str)]) -> Crate {
    let module = |name: &str| -> Module {
        let parts = name.split('/').filter(|p| !p.is_empty());
        parts.map(str::to_owned).collect()
    };
    let files = files.iter().map(|(name, text)| {
        let module = module(name);
        let source = Source::of(text, &module);
        (module, source)
    });
    Crate::of(files.collect())
}

#[test]
fn a_circle_is_found_and_named() {
    for (files, circle) in [
        // Directly, and through a re-exported name.
        (
            [
                ("", "mod a; mod b; pub use b::B;"),
                ("a", "use crate::B; pub struct A(B);"),
                ("b", "pub struct B; fn f() { super::a::g(); }"),
            ],
            Some("a -> b -> a"),
        ),
        // A module that only re-exports does not depend on the items.
        (
            [
                ("", ""),
                ("a", "mod c; pub use c::C; pub struct A;"),
                ("a/c", "use super::A; pub struct C(A);"),
            ],
            None,
        ),
        // It does if it uses the name itself.
        (
            [
                ("", ""),
                ("a", "mod c; pub use c::C; pub struct A(Box<C>);"),
                ("a/c", "use super::A; pub struct C(A);"),
            ],
            Some("a -> a/c -> a"),
        ),
        // Comments, strings and tests do not count.
        (
            [
                ("", "mod a; mod b;"),
                (
                    "a",
                    "// crate::b::B\n#[cfg(test)]\nmod tests { use crate::b::B; }",
                ),
                (
                    "b",
                    r#"use crate::a::A; fn f() -> char { "crate::a"; '"' }"#,
                ),
            ],
            None,
        ),
    ] {
        let circles = made(&files).circles();
        let found = circles.as_deref().map(|f| f.split(" (").next().unwrap());
        assert_eq!(found, circle);
    }
}

#[test]
fn names_that_are_passed_on_lead_to_where_they_are_defined() {
    let files = made(&[
        ("", "mod a; mod b; pub use a::*;"),
        ("a", "mod deep; pub use deep::{self, Deep as Named};"),
        ("a/deep", "pub struct Deep; pub fn f() {}"),
        (
            "b",
            "use crate::a; use crate::Named; fn g() { a::deep::f() }",
        ),
    ]);
    let on = |file: &str| files.edges()[&vec![file.to_owned()]].clone();
    assert_eq!(on("a"), BTreeSet::new());
    let deep = vec!["a".to_owned(), "deep".to_owned()];
    assert_eq!(on("b"), BTreeSet::from([deep]));
}
