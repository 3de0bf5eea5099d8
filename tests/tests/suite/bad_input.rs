//! Bad input for every tool: exit code 2, a message with position and advice, no panic, and nothing on standard
//! output.

use mt_tests::Folder;

const TOOLS: [&str; 6] = [
    "mt-profile",
    "mt-fit",
    "mt-solve",
    "mt-overlap",
    "mt-launch",
    "mt-report",
];

fn refused(folder: &Folder, tool: &str, input: &str, wanted: &str) {
    let out = folder.run(&format!("{input} | timeout 60 {tool}"));
    assert_eq!(out.code, Some(2), "{out:#?}");
    assert_eq!(out.stdout, "", "{tool} {input}");
    assert!(!out.stderr.contains("panicked"), "{out:#?}");
    assert!(out.stderr.contains(wanted), "{wanted}: {out:#?}");
}

#[test]
fn what_is_no_document_is_refused_by_every_tool() {
    let folder = Folder::new();
    let cases = [
        ("printf ''", "E101"),
        ("printf '{\"schema\":\"mt.plan/1\",'", "E103"),
        ("printf 'NaN'", "E102"),
        ("printf '{\"schema\":\"mt.plan/1\",\"x\":NaN}'", "E102"),
        ("printf '{\"schema\":\"mt.nothing/1\"}'", "E106"),
        ("printf '{\"tasks\":[]}'", "E106"),
        (
            "printf '{\"schema\":'; head -c 10000 /dev/zero | tr '\\0' '['",
            "E105",
        ),
    ];
    for tool in TOOLS.iter().chain(&["mt-check"]) {
        for (input, code) in cases {
            refused(&folder, tool, &format!("({input})"), code);
        }
    }
}

#[test]
fn a_line_of_a_gigabyte_is_refused_early() {
    let folder = Folder::new();
    for tool in TOOLS {
        let input = "(printf '{\"schema\":\"'; head -c 1000000000 /dev/zero | tr '\\0' 'x')";
        refused(&folder, tool, input, "E104");
    }
}

#[test]
fn faults_of_a_workload_are_named() {
    let folder = Folder::new();
    let cases = [
        (r#""tasks":[]"#, "$.tasks", "E204"),
        (
            r#""tasks":[{"id":"a","model":"vgg16","batch_sizes":[0]}]"#,
            "$.tasks[0].batch_sizes[0]",
            "E201",
        ),
        (
            r#""tasks":[{"id":"a","model":"vgg16","batch_sizes":[1]},{"id":"a","model":"vgg16","batch_sizes":[1]}]"#,
            "$.tasks[1].id",
            "E202",
        ),
        (
            r#""tasks":[{"id":"a","model":"vgg16","batch_sizes":[1],"colour":1}]"#,
            "$.tasks[0].colour",
            "E107",
        ),
        (
            r#""tasks":[{"id":"a","model":"vgg99","batch_sizes":[1]}]"#,
            "$.tasks[0].model",
            "E203",
        ),
        (
            r#""device":{"kind":"sim","gpu":"rtx-9999"},"tasks":[{"id":"a","model":"vgg16","batch_sizes":[1]}]"#,
            "$.device.gpu",
            "E203",
        ),
    ];
    for (body, path, code) in cases {
        let input = format!("echo '{{\"schema\":\"mt.workload/1\",{body}}}'");
        refused(&folder, "mt-profile", &input, path);
        refused(&folder, "mt-profile", &input, code);
    }
}

#[test]
fn faults_of_a_plan_are_named() {
    let folder = Folder::new();
    let cases = [
        (
            r#""tasks":[{"id":"a","share_percent":-5}]"#,
            "$.tasks[0].share_percent",
        ),
        (r#""tasks":[{"id":"a","batch":"big"}]"#, "$.tasks[0].batch"),
        (
            r#""tasks":[{"id":"a"}],"rates":[{"active":["b"],"samples_per_s":{"b":1}}]"#,
            "$.rates[0].active[0]",
        ),
        (
            r#""tasks":[{"id":"a"}],"rates":[{"active":["a"],"samples_per_s":{"a":0}}]"#,
            "$.rates[0].samples_per_s.a",
        ),
    ];
    for (body, path) in cases {
        let input = format!("echo '{{\"schema\":\"mt.plan/1\",{body}}}'");
        refused(&folder, "mt-overlap", &input, path);
        refused(&folder, "mt-launch", &input, path);
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let folder = Folder::new();
    for tool in TOOLS {
        let out = folder.run(&format!("{tool} nothing.json"));
        assert_eq!(out.code, Some(2), "{out:#?}");
        assert!(out.stderr.contains("nothing.json"), "{out:#?}");
        let out = folder.run(&format!("{tool} --no-such-option"));
        assert_eq!(out.code, Some(2), "{out:#?}");
        assert!(out.stderr.contains("--help"), "{out:#?}");
    }
}
