//! A run that is killed continues: what is done is not done again, nothing is lost, nothing runs twice at
//! once.

use super::*;

/// Five steps, of which each is its own checkpoint: the line that it writes. They are made by a process of its
/// own, which nobody tells that its parent was killed.
const STEPS: &str = r#"steps() { f="work.$MT_TASK.$1.$2"; touch "$f"; n=$(wc -l <"$f")
while [ "$n" -lt 5 ]; do sleep 0.02; n=$((n + 1)); echo $n >>"$f"; done; }
"#;

/// Jobs of every kind: of several rounds and tasks, of one after another, a gang, a pool.
fn jobs() -> Value {
    let once = format!("{STEPS} steps $MT_ROUND $MT_RANK & wait $!");
    let pool = format!(
        "{STEPS} while read -r word a b; do case $word in task) round=$a; rank=$b;; \
         run) steps $round $rank & wait $!; echo '{{\"mt\":\"done\"}}'; echo '{{\"mt\":\"parked\"}}';; \
         quit) exit;; esac; done"
    );
    let mut cluster = cluster(&[
        ("a", 3, 2, &once),
        ("b", 4, 1, &once),
        ("pair", 2, 2, &once),
        ("pool", 3, 1, &pool),
    ]);
    cluster["jobs"][2]["gang"] = true.into();
    cluster["jobs"][3]["job"]["pool"] = true.into();
    cluster
}

/// The same jobs, all of which but the gang may share a GPU.
fn sharing_jobs() -> Value {
    let mut cluster = jobs();
    let pairs = [["a", "b"], ["a", "pool"], ["b", "pool"]]
        .map(|pair| json!({"jobs": pair, "type": "t", "rates": [0.9, 0.9]}));
    cluster["sharing"] = pairs.to_vec().into();
    cluster
}

/// SplitMix64 (Steele, Lea, Flood 2014), so that a seed makes the same moments on every machine.
fn random(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) as f64 / u64::MAX as f64
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .filter_map(|l| serde_json::from_str(l).ok())
        .collect()
}

/// Tasks that the journal says are done, of gangs only whole rounds: job, round, task.
fn confirmed(folder: &Path) -> BTreeSet<(String, u64, u64)> {
    let mut done = BTreeSet::new();
    for record in lines(&folder.join("journal")) {
        let task = &record["done"]["task"];
        if let Some(job) = task["job"].as_str() {
            let number = |field: &str| task[field].as_u64().unwrap();
            done.insert((job.to_owned(), number("round"), number("task")));
        }
        if let Some(job) = record["undone"]["job"].as_str() {
            let last = done.iter().filter(|t| t.0 == job).map(|t| t.1).max();
            done.retain(|t| t.0 != job || Some(t.1) != last);
        }
    }
    let all = done.clone();
    let half = |t: &(String, u64, u64)| {
        t.0 == "pair" && !(0..2).all(|n| all.contains(&(t.0.clone(), t.1, n)))
    };
    done.retain(|t| !half(t));
    done
}

/// Tasks that a run started, by its events.
fn starts(events: &[Value]) -> BTreeSet<(String, u64, u64)> {
    let starts = events.iter().filter(|e| e["event"] == "start");
    let task = |e: &Value| {
        let (name, round) = (e["task"].as_str().unwrap(), e["round"].as_u64().unwrap());
        let (job, task) = name.split_once('.').unwrap_or((name, "0"));
        (job.to_owned(), round, task.parse().unwrap())
    };
    starts.map(task).collect()
}

/// The process that would clean up after another.
fn guard(pid: u32) -> Option<String> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    let is_guard = |pid: &&str| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split('\0').any(|word| word == "--guard")
    };
    children.split(' ').find(is_guard).map(str::to_owned)
}

fn kill(pid: &str) {
    // One that has ended needs no signal.
    let pid = Pid::from_raw(pid.parse().unwrap());
    signal::kill(pid, Signal::SIGKILL).ok();
}

/// Every step of every task was made once, in order.
fn complete(folder: &Path) {
    let tasks = [("a", 3, 2), ("b", 4, 1), ("pair", 2, 2), ("pool", 3, 1)];
    for (job, rounds, tasks) in tasks {
        for (round, task) in (0..rounds).flat_map(|r| (0..tasks).map(move |t| (r, t))) {
            let name = format!("work.{job}.{round}.{task}");
            let work = fs::read_to_string(folder.join(&name)).unwrap_or_default();
            assert_eq!(work, "1\n2\n3\n4\n5\n", "{name}");
        }
    }
}

/// Runs the jobs to their end, and kills the tool after random times, every other time with its guard;
/// returns how often it was killed.
fn killed_on_the_way(cluster: &Value, state: &mut u64, most: usize) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let schedule = plan(cluster, "hare");
    let mut kills = 0;
    loop {
        let before = confirmed(folder.path());
        let more = [
            "--journal",
            "journal",
            "--resume",
            "--force",
            "-o",
            "run.ndjson",
        ];
        let mut child = command(folder.path(), &schedule, &more).spawn().unwrap();
        if kills < most {
            // Long enough for some tasks, and from the very beginning.
            sleep(Duration::from_secs_f64(0.8 * random(state)));
            let guard = guard(child.id()).filter(|_| random(state) < 0.5);
            guard.iter().for_each(|pid| kill(pid));
            kill(&child.id().to_string());
        }
        let status = child.wait().unwrap();
        let events = lines(&folder.path().join("run.ndjson"));
        fs::remove_file(folder.path().join("run.ndjson")).ok();
        let again: Vec<_> = starts(&events).intersection(&before).cloned().collect();
        assert!(again.is_empty(), "done before and started again: {again:?}");
        assert!(
            confirmed(folder.path()).is_superset(&before),
            "what was done is lost"
        );
        if status.success() {
            checked(&events);
            complete(folder.path());
            assert_eq!(confirmed(folder.path()).len(), 17);
            return kills;
        }
        assert_eq!(status.code(), None, "it was killed");
        kills += 1;
    }
}

/// `MT_KILLS=50 cargo test -p mt-cluster --test run kill` kills fifty times.
fn killed_often(cluster: &Value) {
    let wanted = std::env::var("MT_KILLS").map_or(10, |n| n.parse().unwrap());
    let (mut state, mut kills) = (wanted as u64, 0);
    while kills < wanted {
        kills += killed_on_the_way(cluster, &mut state, wanted - kills);
    }
}

#[test]
fn a_run_that_is_killed_at_random_moments_does_everything_once() {
    killed_often(&jobs());
}

#[test]
fn a_run_that_shares_gpus_and_is_killed_at_random_moments_does_everything_once() {
    let cluster = sharing_jobs();
    let schedule: Value = serde_json::from_slice(&plan(&cluster, "hare")).unwrap();
    let tasks = schedule["assignments"].as_array().unwrap();
    let second = |a: &Value, time: &str| a[time].as_f64().unwrap();
    let beside = |a: &Value| {
        let mut others = tasks
            .iter()
            .filter(|b| b["gpu"] == a["gpu"] && b["job"] != a["job"]);
        others.any(|b| {
            (second(b, "start_s")..second(b, "train_end_s") - 1e-9).contains(&second(a, "start_s"))
        })
    };
    assert!(tasks.iter().any(beside), "{schedule}");
    killed_often(&cluster);
}

#[test]
fn a_journal_is_gone_on_with_where_that_is_asked_for_and_after_a_restart_of_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let run_with = |cluster: &Value, more: &[&str]| {
        let more = [&["--journal", "journal"], more].concat();
        run(folder.path(), &plan(cluster, "hare"), &more)
    };
    // The second task of a fails, at first.
    let first = cluster(&[
        ("a", 2, 1, "test $MT_ROUND = 0 || test -e mended"),
        ("b", 1, 1, "true"),
    ]);
    let (output, _) = run_with(&first, &["--restarts", "0"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let (output, events) = run_with(&first, &[]);
    assert_eq!((output.status.code(), events.len()), (Some(2), 0));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("2 of 3 tasks done: go on with --resume"),
        "{said}"
    );
    let (output, _) = run_with(&cluster(&[("other", 1, 1, "true")]), &["--resume"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("belongs to other jobs"));
    // In another boot the run directory of the journal is nobody's.
    let text = fs::read_to_string(&journal).unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert!(text.contains(boot.trim()));
    let half = r#"{"started":{"job":"a","#;
    fs::write(&journal, text.replace(boot.trim(), "another boot") + half).unwrap();
    fs::write(folder.path().join("mended"), "").unwrap();
    let (output, events) = run_with(&first, &["--resume"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    checked(&events);
    assert_eq!(starts(&events), BTreeSet::from([("a".to_owned(), 1, 0)]));
    // Nothing is left to do, and a clock continues from the first launch.
    let (output, events) = run_with(&first, &["--resume"]);
    assert_eq!(
        (output.status.code(), count(&events, "start")),
        (Some(0), 0)
    );
    let summary = events.last().unwrap();
    assert!(summary["ok"] == true && summary["makespan_s"].as_f64().unwrap() > 0.0);
    fs::write(
        &journal,
        "{\"started\":{\"job\":\"a\",\"round\":7,\"task\":0}}\n{}\n",
    )
    .unwrap();
    let (output, _) = run_with(&first, &["--resume"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("journal:1: no task 0 of round 7 of job \"a\""),
        "{said}"
    );
}
