//! One program is every tool, and acts as the one whose name it is called by.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use mt_tests::{Folder, Ran, tools};

/// The folders of `tools/`; each name is also the name of its tool.
fn names() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools");
    let entries = fs::read_dir(folder).expect("a folder of the tests");
    entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("a name of a tool")
        })
        .collect()
}

fn answer(ran: &Ran) -> (Option<i32>, &str, &str) {
    (ran.code, &ran.stdout, &ran.stderr)
}

#[test]
fn each_name_answers_as_its_own_program_does() {
    let folder = Folder::new();
    let names = names();
    assert!(names.len() > 10, "{names:?}");
    for name in &names {
        symlink(tools().join("mt"), folder.path().join(name)).unwrap();
        for asked in ["--version", "--help", "--man", "--no-such-option"] {
            let own = folder.run(&format!("{name} {asked}"));
            let linked = folder.run(&format!("./{name} {asked}"));
            assert_eq!(answer(&own), answer(&linked), "{name} {asked}");
            let code = if asked == "--no-such-option" { 2 } else { 0 };
            own.assert_code(code);
        }
        let version = folder.run(&format!("./{name} --version")).stdout;
        assert!(version.starts_with(&format!("{name} ")), "{version}");
    }
}

#[test]
fn mt_becomes_a_tool_by_its_verb_and_by_its_name() {
    let folder = Folder::new();
    // A copy alone in a folder, without its other names.
    let copy = folder.run("cp \"$(command -v mt)\" mt");
    copy.assert_code(0);
    for name in names() {
        let Some(verb) = name.strip_prefix("mt-") else {
            continue;
        };
        for words in [verb, &name] {
            let ran = folder.run(&format!("PATH=/bin:/usr/bin; ./mt {words} --version"));
            assert_eq!(
                ran.stdout.split(' ').next(),
                Some(name.as_str()),
                "{ran:#?}"
            );
        }
        let help = folder.run(&format!("PATH=/bin:/usr/bin; ./mt help {verb}"));
        let own = folder.run(&format!("{name} --help"));
        assert_eq!(help.stdout, own.stdout, "{name}");
    }
}

#[test]
fn a_name_that_is_none_is_told_all_of_them() {
    let folder = Folder::new();
    for called in ["solver", "mt-solv", "MT", "a b"] {
        symlink(tools().join("mt"), folder.path().join(called)).unwrap();
        let ran = folder.run(&format!("'./{called}' --version"));
        ran.assert_code(2);
        assert_eq!(ran.stdout, "");
        for name in names() {
            assert!(ran.stderr.contains(&name), "{name}: {}", ran.stderr);
        }
    }
    let nameless = folder.run("(exec -a '' mt --version)");
    nameless.assert_code(2);
}

/// The name by which pkill(1) and top(1) know a process; after it has executed itself again, it would be `exe`.
#[test]
fn a_process_is_called_by_the_name_of_its_tool() {
    let folder = Folder::new();
    // Neither end of the input is reached before it is killed.
    let shown = "mkfifo f; mt mt-report <> f & for i in $(seq 100); do name=$(cat /proc/$!/comm); \
                 [ \"$name\" = mt-report ] && break; sleep 0.1; done; kill $!; echo \"$name\"";
    let ran = folder.run(shown);
    assert_eq!(ran.stdout, "mt-report\n", "{ran:#?}");
}
