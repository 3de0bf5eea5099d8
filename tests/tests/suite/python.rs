//! The Python module: its own tests, and a loop of it under the launcher.

use mt_tests::{Folder, example};

/// The module in the repository.
fn module() -> String {
    example("../python")
}

/// A folder for a test of Python programs; `None`, and said so, where there is no python3.
pub(crate) fn folder() -> Option<Folder> {
    Some(Folder::new()).filter(has_python)
}

/// Whether there is a python3; says so if not.
pub(crate) fn has_python(folder: &Folder) -> bool {
    let found = folder.run("command -v python3").code == Some(0);
    if !found {
        testkit::skipped("python", "there is no python3");
    }
    found
}

#[test]
fn the_module_passes_its_own_tests() {
    let Some(folder) = folder() else {
        return;
    };
    let tests = module();
    let run = folder.run(&format!(
        "python3 -B -m unittest discover -v -s {tests}/tests -p '*_test.py'"
    ));
    run.assert_code(0);
    for line in run.stderr.lines().filter(|l| l.contains("... skipped ")) {
        testkit::skipped("frameworks", line);
    }
    assert!(run.stderr.contains("Ran 87 tests"), "{}", run.stderr);
    // Two tests need frameworks that are not installed here; the tools are available.
    let tables = "skipped 'mt-report is not on PATH'";
    assert!(!run.stderr.contains(tables), "{}", run.stderr);
}

/// A loop over the batches of a data loader, ended by the count; the launcher repeats what it reported.
#[test]
fn a_plain_loop_trains_under_the_launcher() {
    let folder = Folder::new();
    let probe = folder.run("mt-launch exec --share 50 --device cpu -- python3 -c pass");
    if probe.code != Some(0) {
        testkit::skipped("cgroups", probe.stderr);
        return;
    }
    let script = "\
from mt_tools import Worker
worker = Worker.from_environment()
worker.ready()
loss = 1.0
while True:
    for _ in range(20000): loss *= 0.99999
    if not worker.step(worker.batch, loss): break
worker.done()
";
    std::fs::write(folder.path().join("loop.py"), script).unwrap();
    let task = |id: &str| {
        format!(
            r#"{{"id":"{id}","batch_sizes":[32],"samples":1600,"job":{{"argv":["python3","loop.py"],
            "env":{{"PYTHONPATH":"{}"}}}}}}"#,
            module()
        )
    };
    let plan = format!(
        r#"{{"schema":"mt.plan/1","tasks":[{{"id":"a","batch":32,"share_percent":60,"samples":1600}},
        {{"id":"b","batch":32,"share_percent":60,"samples":1600}}],"workload":{{"schema":"mt.workload/1",
        "device":{{"kind":"cpu"}},"tasks":[{},{}]}}}}"#,
        task("a"),
        task("b")
    );
    std::fs::write(folder.path().join("plan.json"), plan).unwrap();
    folder
        .run("mt-launch plan.json -o run.ndjson && mt-check run.ndjson")
        .assert_code(0);
    // Fifty steps, each with 0.82 times the previous loss. The first report may be the last of several that were read
    // at once, so the last one is compared with its known value.
    let ends = folder.run(
        "python3 -B -c \"import sys; sys.path.insert(0, '$MODULE')
from mt_tools import documents
for task in documents.read('run.ndjson')[-1]['tasks']:
    print(task['id'], task['finished'], task['samples'], task['last_loss'] < 1e-4)\""
            .replace("$MODULE", &module())
            .as_str(),
    );
    assert_eq!(
        ends.stdout, "a True 1600 True\nb True 1600 True\n",
        "{ends:#?}"
    );
}
