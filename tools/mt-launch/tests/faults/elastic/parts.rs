//! Parts of one device instead of GPUs, and other programs on a GPU.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use doc::EventKind;
use testkit::fakes::FakeMps;

use super::{case, heard, three_of_four};
use crate::support::{Corner, Ran, needs_cgroups, ran};

#[test]
fn on_processors_shares_move_and_nobody_is_stopped() {
    needs_cgroups!();
    // Long enough for a controller that hears of the arrival seconds late, on a busy machine.
    let mut case = case(&[("a", 0.0, 150), ("b", 0.8, 80)]);
    case.start = "echo $MT_SHARE_PERCENT >> $MT_TASK.shares";
    case.arguments = &["--parts", "4"];
    let ran = case.run(&three_of_four(heard("arrive", "b")));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    // One process each, from the first step to the last.
    assert_eq!((case.sizes("a"), case.sizes("b")), ("1".into(), "1".into()));
    assert_eq!(case.corner.log("a.shares").trim(), "100");
    assert_eq!(case.corner.log("b.shares").trim(), "75");
    case.assert_every_step_once("a", 150);
    case.assert_every_step_once("b", 80);
    assert_eq!(case.heard_gpus("a"), [4, 1, 4]);
}

/// A fake GPU under a fake MPS, and a folder with a training that is a client.
struct Gpu {
    fake: FakeMps,
    corner: Corner,
}

fn gpu() -> Option<Gpu> {
    let fake = FakeMps::install();
    let built = fake.build_driver() && fake.build_nvml();
    built.then(|| Gpu {
        fake,
        corner: Corner::new(),
    })
}

impl Gpu {
    fn command(&self, arguments: &[&str], controller: &str) -> Command {
        let script = format!(
            r#"trap 'kill $w; wait $w; echo "{{\"mt\":\"parked\"}}"; exit 0' TERM
               echo $MT_SHARE_PERCENT >> $MT_TASK.shares
               "{}" & w=$!; wait $w"#,
            self.fake.worker().display()
        );
        let task = |id: &str| {
            serde_json::json!({"id": id, "batch_sizes": [10], "job": {
                "argv": ["sh", "-c", script],
                "env": {"CORNER": self.corner.mark(), "FAKE_STEP_S": "0.05"}
            }})
        };
        let workload = serde_json::json!({
            "schema": "mt.workload/1", "device": {"kind": "cuda"}, "tasks": [task("a"), task("b")]
        });
        fs::write(self.corner.path("plan.json"), workload.to_string()).unwrap();
        let arrivals = r#"{"event":"arrive","time_s":0,"task":"a","total_steps":50}
{"event":"arrive","time_s":0.5,"task":"b","total_steps":10}
"#;
        fs::write(self.corner.path("arrivals"), arrivals).unwrap();
        let path = std::env::var("PATH").unwrap();
        let mut command = self.corner.command(arguments);
        command
            .env("PATH", format!("{}:{path}", self.fake.folder().display()))
            .env("LD_LIBRARY_PATH", self.fake.folder())
            .env("TMPDIR", self.corner.dir.path())
            .env("FAKE_COMPUTING", self.corner.path("computing"))
            .args(["--logs", "logs", "--arrivals", "arrivals"])
            .args(["--controller", "sh", "-c", controller]);
        command
    }

    fn run(&self, arguments: &[&str], controller: &str) -> Ran {
        let ran = ran(self.command(arguments, controller).output().unwrap());
        self.corner.nothing_is_left();
        ran
    }
}

const ALL: &str = r#"echo '{"schema":"mt.allocation/1","seq":1,"time_s":0,"total_gpus":4,"gpus":{"a":2,"b":2},"reason":"test","pause_s":0}'; cat > heard"#;

#[test]
fn under_mps_a_training_is_started_anew_with_the_share_of_its_parts() {
    let Some(gpu) = gpu() else { return };
    let ran = gpu.run(&["--parts", "4"], &three_of_four(heard("arrive", "b")));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let shares = |task: &str| gpu.corner.log(&format!("{task}.shares")).replace('\n', " ");
    assert_eq!(shares("a"), "100 25 100 ");
    assert_eq!(shares("b"), "75 ");
    let left = FakeMps::processes_below(gpu.corner.dir.path());
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn others_on_the_gpu_are_refused_allowed_or_waited_for() {
    let Some(gpu) = gpu() else { return };
    let computing = gpu.corner.path("computing");
    fs::write(&computing, "4711\n").unwrap();
    let refused = gpu.run(&["--parts", "4"], ALL);
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("4711 on GPU-"),
        "{}",
        refused.stderr
    );
    assert!(refused.events.is_empty());
    let allowed = gpu.run(&["--parts", "4", "--others", "allow"], ALL);
    assert_eq!(allowed.code, Some(0), "{}", allowed.stderr);
    assert!(allowed.stderr.contains("4711"), "{}", allowed.stderr);

    let mut command = gpu.command(&["--parts", "4", "--others", "wait"], ALL);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    assert!(child.try_wait().unwrap().is_none());
    fs::remove_file(&computing).unwrap();
    let waited = ran(child.wait_with_output().unwrap());
    assert_eq!(waited.code, Some(0), "{}", waited.stderr);
    assert!(waited.stderr.contains("waiting for"), "{}", waited.stderr);
    assert_eq!(waited.events[0].event, EventKind::Launch);
    gpu.corner.nothing_is_left();
}

#[test]
fn without_nvml_it_is_told_that_others_cannot_be_seen() {
    let Some(gpu) = gpu() else { return };
    fs::remove_file(gpu.fake.folder().join("libnvidia-ml.so.1")).unwrap();
    let ran = gpu.run(&["--parts", "4"], ALL);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("NVML does not tell"), "{}", ran.stderr);
    let waits = gpu.run(&["--parts", "4", "--others", "wait"], ALL);
    assert_eq!(waits.code, Some(3), "{}", waits.stderr);
}
