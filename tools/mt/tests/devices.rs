//! Queues on a fake box of unlike cards whose memory is counted.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use testkit::fakes::{Card, FakeMps};

/// A queue on a box, in a folder of its own; its server ends with it.
struct Queue {
    folder: tempfile::TempDir,
    fake: FakeMps,
}

/// A process of a stranger.
struct Stranger(Child);

impl Drop for Stranger {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

impl Queue {
    /// With a card of 24 GB and one of 80 GB that is twice as fast; `None` where they cannot be built.
    fn on_two_cards() -> Option<Self> {
        let fake = FakeMps::install();
        let large = Card {
            speed: 2.0,
            ..Card::of_gib(80)
        };
        fake.set_cards(&[Card::of_gib(24), large]);
        if !(fake.build_driver() && fake.build_nvml() && fake.build_trainer()) {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        Some(Self { folder, fake })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mt"));
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .current_dir(self.path())
            .env("PATH", format!("{}:{path}", self.fake.folder().display()))
            .env("LD_LIBRARY_PATH", self.fake.folder())
            .env_remove("CUDA_VISIBLE_DEVICES")
            .arg(verb)
            .arg("--queue")
            .arg(self.path().join("q"));
        command
    }

    fn mt(&self, words: &str) -> Output {
        let mut words = words.split(' ').filter(|word| !word.is_empty());
        let verb = words.next().expect("a verb");
        self.command(verb).args(words).output().expect("mt starts")
    }

    fn text(&self, words: &str) -> String {
        let output = self.mt(words);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "mt {words}: {error}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// What stands after `name` in each job of the status, up to the next comma or brace.
    fn each(&self, name: &str) -> Vec<String> {
        let status = self.text("status --all --json");
        let name = format!("\"{name}\":");
        let fields = status.split(&name).skip(1);
        let value = |field: &str| field.split([',', '}']).next().unwrap_or("").to_owned();
        fields.map(value).collect()
    }

    fn log(&self, id: usize) -> String {
        fs::read_to_string(self.path().join(format!("q/logs/{id}.log"))).unwrap_or_default()
    }

    fn stranger(&self, arguments: &[&str]) -> Stranger {
        let mut command = Command::new(self.fake.trainer());
        let started = command.args(arguments).stdout(Stdio::null()).spawn();
        Stranger(started.expect("the fake trainer starts"))
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.mt("queue --stop");
    }
}

fn wait_until(what: &str, happened: impl Fn() -> bool) {
    let begun = Instant::now();
    while !happened() {
        assert!(begun.elapsed() < Duration::from_secs(60), "not yet: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn jobs_see_the_cards_that_they_were_granted() {
    let Some(queue) = Queue::on_two_cards() else {
        return;
    };
    let [small, large] = [FakeMps::uuid(0), FakeMps::uuid(1)];
    let shown = "sh -c 'echo [$CUDA_VISIBLE_DEVICES]$CUDA_MPS_ACTIVE_THREAD_PERCENTAGE'";
    fs::write(queue.path().join("jobs"), format!("{shown}\n")).expect("a file");
    for words in [
        "--env CUDA_VISIBLE_DEVICES=1",
        "--env CUDA_VISIBLE_DEVICES=",
        "--gpus 2",
    ] {
        queue.text(&format!("sweep {words} --jobs jobs"));
    }
    assert_eq!(queue.log(1), format!("[{large}]100\n"));
    assert_eq!(queue.log(2), "[]\n");
    assert_eq!(queue.log(3), format!("[{small},{large}]\n"));
    let refused = queue.mt("add --env CUDA_VISIBLE_DEVICES=7 -- true");
    assert_eq!(refused.status.code(), Some(2));
    let refused = queue.mt("add --gpus 3 -- true");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        said.contains("requests 3 whole GPUs, and it may use 2"),
        "{said}"
    );
    // A program that another one starts is a client of a card, too.
    let lent = queue
        .command("exec")
        .args(["--share", "40", "--", "sh", "-c"])
        .arg("echo [$CUDA_VISIBLE_DEVICES]$CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")
        .output();
    let lent = String::from_utf8(lent.expect("mt starts").stdout).expect("text");
    let on = |card: &String| lent == format!("[{card}]40\n");
    assert!(on(&small) || on(&large), "{lent}");
}

#[test]
fn a_sweep_over_cards_is_one_sweep() {
    let Some(queue) = Queue::on_two_cards() else {
        return;
    };
    let sweep = [
        "--",
        "CUDA_VISIBLE_DEVICES={g}",
        "sh",
        "-c",
        "echo $CUDA_VISIBLE_DEVICES",
        ":::",
        "g=0,1,0",
    ];
    let output = queue
        .command("sweep")
        .args(sweep)
        .output()
        .expect("mt starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let seen: Vec<String> = (1..=3).map(|id| queue.log(id)).collect();
    let line = |card| format!("{}\n", FakeMps::uuid(card));
    assert_eq!(seen, [line(0), line(1), line(0)]);
    let results = queue.text("results 1 --csv");
    assert_eq!(results.lines().count(), 4, "{results}");
}

#[test]
fn a_lost_card_is_told_and_its_jobs_move() {
    let Some(queue) = Queue::on_two_cards() else {
        return;
    };
    let program = queue.fake.trainer();
    let trainer = program.display();
    // Two that fill a card each: one is on the second.
    queue.text(&format!(
        "add -- {trainer} --memory 20G --seconds 6 --steps 60"
    ));
    queue.text(&format!(
        "add -- {trainer} --memory 20G --seconds 6 --steps 61"
    ));
    queue.text("queue --most 2");
    wait_until("a job runs on the second card", || {
        !queue.text("status").contains("gpu1 (Fake 80 GB): 0 jobs")
    });
    queue.fake.lose(1);
    wait_until("the loss is told", || {
        queue
            .text("status")
            .contains("gpu1 (Fake 80 GB): 0 jobs, cannot be used")
    });
    assert!(
        queue.mt("wait").status.success(),
        "{}",
        queue.text("status")
    );
    assert_eq!(
        queue.each("state"),
        ["\"done\""; 2],
        "{}",
        queue.text("status --all")
    );
}

/// Jobs whose memory nobody declares, beside a stranger that holds half of a card for a while. `MT_BOX_JOBS`: so many
/// instead of 24.
#[test]
fn undeclared_memory_costs_each_template_one_failure_at_most() {
    let Some(queue) = Queue::on_two_cards() else {
        return;
    };
    let asked = std::env::var("MT_BOX_JOBS").ok();
    let jobs = asked.map_or(24, |n| n.parse().expect("a number of jobs"));
    let stranger = queue.stranger(&["--card", "0", "--memory", "12G", "--seconds", "1000"]);
    let trainer = queue.fake.trainer().display().to_string();
    let each = jobs / 3;
    // A job on the faster card takes 0.75 s, so it does not show there all that it reaches on the smaller one.
    for (memory, ramp) in [("3G", "0.5"), ("7G", "1"), ("11G", "0.2")] {
        let steps = format!("n=40..{}", 39 + each);
        let mut command = queue.command("sweep");
        command
            .arg("--no-wait")
            .args(["--", &trainer, "--memory", memory, "--ramp", ramp]);
        command.args(["--seconds", "1.5", "--steps", "{n}", ":::", &steps]);
        let output = command.output().expect("mt starts");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    wait_until("a third is done", || {
        let done = queue
            .each("state")
            .iter()
            .filter(|s| *s == "\"done\"")
            .count();
        done >= jobs / 3
    });
    assert!(
        queue.text("status").contains("holds 12.9 GB"),
        "{}",
        queue.text("status")
    );
    drop(stranger);
    assert!(
        queue.mt("wait").status.success(),
        "{}",
        queue.text("status --all")
    );
    let logs = (1..=each * 3).map(|id| (id, queue.log(id)));
    let failed: Vec<usize> = logs
        .filter(|(_, log)| log.contains("out of memory"))
        .map(|(id, _)| id)
        .collect();
    for template in 0..3 {
        let own = template * each + 1..=(template + 1) * each;
        let count = failed.iter().filter(|id| own.contains(id)).count();
        assert!(count <= 1, "template {template}: {failed:?}");
    }
}

/// A fault of the MPS server ends all commands; who made it has failed, and the others run again.
#[test]
fn a_command_that_another_ended_by_a_fault_runs_again() {
    let fake = FakeMps::install();
    if !fake.build_driver() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let worker = fake.worker().display().to_string();
    let scripts = [
        (
            "good.sh",
            format!("MT_BATCH_SIZE=1 {worker} & w=$!; sleep 2; kill $w; exit 0"),
        ),
        (
            "bad.sh",
            format!("FAKE_CLIENTS=2 FAKE_MODE=faults exec {worker}"),
        ),
    ];
    for (name, script) in scripts {
        fs::write(folder.path().join(name), script).expect("a file");
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new(env!("CARGO_BIN_EXE_mt"))
        .current_dir(folder.path())
        .env("PATH", format!("{}:{path}", fake.folder().display()))
        .env("LD_LIBRARY_PATH", fake.folder())
        .env("TMPDIR", folder.path())
        .env("CUDA_VISIBLE_DEVICES", "0")
        .args(["run", "sh good.sh", "sh bad.sh", "-o", "out"])
        .stdin(Stdio::null())
        .output()
        .expect("mt starts");
    let told = String::from_utf8_lossy(&output.stderr);
    let done = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("good was ended by a fault"), "{told}");
    assert!(done.contains("good: done"), "{done}{told}");
    assert!(done.contains("bad: failed (exit status 1)"), "{done}{told}");
    assert_eq!(FakeMps::processes_below(folder.path()), Vec::<i32>::new());
}
