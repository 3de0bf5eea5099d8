//! No false alarm: mt-check accepts whatever the tools make from random workloads with random options.

use std::fs;

use gpusim::{Gpu, Network};
use mt_tests::Folder;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// Pipelines that `make test` draws. `MT_HONEST=N` draws N, `MT_HONEST_SEED=N` repeats one that failed.
const PIPELINES: u64 = 24;
/// Seeds that have found a fault: a model that overflowed, a front with penalised rates, an explanation in the order of
/// GPUs, a maximum in another unit than the plan, a plan of `--adapt` without the model's error.
const FOUND: [u64; 5] = [38, 40, 90, 133, 208];

/// Draws of one pipeline.
struct Draw(SmallRng);

impl Draw {
    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        *all.choose(&mut self.0).unwrap()
    }

    fn upto(&mut self, most: u64) -> u64 {
        self.0.random_range(1..=most)
    }

    /// A text in this percentage of cases, otherwise nothing.
    fn maybe(&mut self, percent: u32, text: impl Into<String>) -> String {
        let text = text.into();
        let taken = self.0.random_ratio(percent, 100);
        if taken { text } else { String::new() }
    }

    /// From `low` to `high`, log-uniform.
    fn log(&mut self, low: f64, high: f64) -> f64 {
        self.0.random_range(low.ln()..high.ln()).exp()
    }

    /// A workload of this many tasks.
    fn workload(&mut self, tasks: usize) -> String {
        let each: Vec<String> = (0..tasks).map(|i| self.task(i)).collect();
        let gpu = self.of(&Gpu::BUILT_IN);
        let gpus = self.of(&["", "", "", "", ",\"gpus\":2", ",\"gpus\":3"]);
        let memory = self.of(&["", "", ",\"memory_bytes\":9000000000"]);
        let (down, up) = (self.log(1e6, 1e10), self.log(1e6, 1e10));
        let duplex = self.of(&[
            "",
            ",\"duplex\":\"full\"",
            ",\"duplex\":\"half\"",
            ",\"duplex\":\"shared\"",
        ]);
        let speeds = format!("\"link\":{{\"down_bps\":{down:.0},\"up_bps\":{up:.0}{duplex}}},");
        let link = self.maybe(75, speeds);
        format!(
            r#"{{"schema":"mt.workload/1","id":"drawn",{link}"device":{{"kind":"sim","gpu":"{gpu}"{gpus}{memory}}},"tasks":[{}]}}"#,
            each.join(",")
        )
    }

    fn task(&mut self, i: usize) -> String {
        let model = self.of(&Network::CATALOGUE);
        let kind = if self.0.random_ratio(1, 5) {
            let (flops, bytes) = (self.log(1e6, 1e11), self.log(1e3, 1e8));
            format!(r#""flops_per_sample":{flops:.0},"bytes_per_sample":{bytes:.0}"#)
        } else {
            format!(r#""model":"{model}""#)
        };
        let sizes = self.of(&[
            "[32]",
            "[16,64]",
            "[8,32,128]",
            "[64]",
            "[1,100]",
            "[16,32]",
        ]);
        let samples = self.log(1.0, 3e5).ceil();
        let (down, up) = (self.log(1e3, 3e8), self.log(1e3, 3e8));
        let update = format!(",\"update_bytes\":{{\"down\":{down:.0},\"up\":{up:.0}}}");
        let memory = self.log(1e3, 4e7);
        let memory =
            format!(",\"memory\":{{\"fixed_bytes\":300000000,\"bytes_per_sample\":{memory:.0}}}");
        let weight = format!(",\"weight\":{:.3}", self.log(0.1, 10.0));
        let (update, memory, weight) = (
            self.maybe(60, update),
            self.maybe(30, memory),
            self.maybe(30, weight),
        );
        format!(
            r#"{{"id":"t{i}",{kind},"batch_sizes":{sizes},"samples":{samples}{update}{memory}{weight}}}"#
        )
    }

    fn profile(&mut self) -> String {
        let (budget, floor) = (2 + self.upto(8), self.of(&["0", "0.2"]));
        let objective = self.of(&["raw", "fairness", "max-min", "round", "weighted"]);
        let noise = self.of(&["0.5", "3"]);
        let designs = [
            "--design random",
            "--design random --share-step 12.5",
            "--design adaptive",
            "--design grid --share-step 50",
        ];
        [
            self.of(&designs).to_owned(),
            format!("--budget {budget} --seed {}", self.upto(1_000)),
            self.maybe(30, format!("--objective {objective} --floor {floor}")),
            self.maybe(30, format!("--noise {noise} --repeats 2")),
            self.maybe(20, "--rv-min 80 --rv-max 250"),
            self.maybe(20, "--subsets 60"),
        ]
        .join(" ")
    }

    /// `volumes`: the samples of a round are known, which some options require.
    fn solve(&mut self, tasks: usize, volumes: bool) -> String {
        let objectives = ["raw", "fairness", "max-min", "weighted", "round"];
        let objective = self.of(&objectives[..4 + usize::from(volumes)]);
        let rv = 25 * self.upto(4 * tasks as u64);
        let step = self.of(&["2.5", "5", "10", "25"]);
        let floor = self.of(&["0.05", "0.1", "0.3"]);
        let batch = self.of(&["fixed", "free", "same"]);
        let (mismatch, balance) = (
            self.of(&["least", "least", "3"]),
            self.of(&["batch", "workload", "time"]),
        );
        let pareto = self.of(&["mismatch", "fairness", "mismatch,fairness"]);
        let bounded = if volumes {
            let mismatch = format!("--mismatch {mismatch} --balance {balance}");
            let pareto = format!("--pareto {pareto}");
            format!("{} {}", self.maybe(20, mismatch), self.maybe(25, pareto))
        } else {
            String::new()
        };
        [
            format!("--max-points 3000 --starts 2 --step {step} {bounded}"),
            self.maybe(60, format!("--objective {objective}")),
            self.maybe(20, format!("--rv {rv}")),
            self.maybe(20, format!("--floor {floor}")),
            self.maybe(15, format!("--batch {batch}")),
            self.maybe(20, "--top 4"),
            self.maybe(20, "--explain"),
            self.maybe(20, "--solo same-batch"),
            self.maybe(10, "--memory 6000000000"),
            self.maybe(10, "--max-batch 64"),
            self.maybe(20, "--predicted"),
            self.maybe(85, "--outside"),
            self.maybe(20, "--search local"),
        ]
        .join(" ")
    }

    fn overlap(&mut self) -> String {
        let delta = self.of(&["0", "30"]);
        let link = self.of(&["full", "half", "shared"]);
        [
            "--max-nodes 2000 --max-plays 500".to_owned(),
            self.maybe(20, "--rates fixed"),
            self.maybe(20, "--single-order"),
            self.maybe(20, "--no-wait"),
            self.maybe(30, format!("--link {link}")),
            self.maybe(30, format!("--batch-delta {delta}")),
            self.maybe(20, "--federation devices.csv"),
        ]
        .join(" ")
    }

    fn launch(&mut self, tasks: usize) -> String {
        let rounds = self.upto(4);
        let damping = self.of(&["", "--damping 0", "--damping 0.8"]);
        let only = format!("--only t{}", self.upto(tasks as u64) - 1);
        [
            format!("--rounds {rounds} --seed {}", self.upto(1_000)),
            // For a recording, the workload's device is the recording.
            "--device sim".to_owned(),
            self.maybe(35, format!("--adapt {damping}")),
            self.maybe(20, "--keep-shares"),
            self.maybe(20, "--no-overlap"),
            self.maybe(20, "--round 7"),
            self.maybe(15, only),
        ]
        .join(" ")
    }

    /// A workload, and lines that make documents, each from earlier ones; each file is a document.
    fn pipeline(&mut self) -> (String, Vec<String>) {
        let tasks = self.of(&[1_usize, 2, 2, 3, 3, 4, 5, 8]);
        let volumes = self.0.random_ratio(4, 5);
        let workload = self.workload(tasks);
        let method = self.of(&["auto", "structured", "gp", "blend"]);
        let profile = self.profile();
        let (forget, renew) = match volumes {
            true => ("cp w2 w", ""),
            false => (
                r#"sed 's/"samples":[0-9]*,\?//g; s/,}/}/g' w2 >w"#,
                "--workload w2",
            ),
        };
        let mut lines = vec![
            forget.to_owned(),
            format!("mt-profile w {profile} --force -o p"),
        ];
        lines.push(match self.upto(6) {
            // Recorded, imported, or cut and continued.
            1 => "mt-profile w --replay p --design random --budget 3 -o p2".to_owned(),
            2 => "mt-report p --format csv -o c && mt-profile w --import c -o p2".to_owned(),
            3 => format!("head -3 p >p2 && mt-profile w {profile} --resume p2 -o p2 && cmp p p2"),
            _ => "cp p p2".to_owned(),
        });
        lines.push(format!("mt-fit -q --method {method} p2 -o m"));
        lines.push(format!("mt-solve {} m -o s", self.solve(tasks, volumes)));
        if self.0.random_ratio(1, 4) {
            let more = self.solve(tasks, volumes);
            lines.push(format!(
                "mt-solve {more} --previous s --damping 0.5 m -o s2 && mv s2 s"
            ));
        }
        lines.push(format!("mt-overlap {renew} {} s -o t", self.overlap()));
        let launch = self.launch(tasks);
        let from = self.of(&["t", "t", "t", if volumes { "s" } else { "t" }]);
        lines.push(format!("mt-launch {launch} {from} -o r"));
        // Ended by Ctrl-C in some round.
        let many = format!("mt-launch --device sim --rounds 1000000 --adapt {from} -o x");
        lines.push(self.maybe(25, format!("timeout -s INT 0.2 {many}; test $? = 124")));
        (workload, lines)
    }
}

const DOCUMENTS: [&str; 9] = ["w", "w2", "p", "p2", "m", "s", "t", "r", "x"];

/// Makes the documents of a seed and checks them; returns whether there was a run, or what is wrong. A line that a
/// tool refused goes to `refused`.
fn honest(seed: u64, refused: &mut Vec<String>) -> Result<bool, String> {
    let mut draw = Draw(SmallRng::seed_from_u64(seed));
    let (workload, lines) = draw.pipeline();
    let folder = Folder::new();
    fs::write(folder.path().join("w2"), &workload).unwrap();
    let mut told = format!("MT_HONEST_SEED={seed}\n{workload}\n");
    for line in &lines {
        let out = folder.run(&format!("export MALLOC_ARENA_MAX=2; {line}"));
        told += &format!("{line}\n{}", out.stderr);
        // 1: nothing feasible. 2: these options contradict each other; nothing else is refused.
        if !matches!(out.code, Some(0..=2)) || out.stderr.contains("panicked") {
            return Err(format!("{told}{:?}", out.code));
        }
        if out.code != Some(0) {
            refused.push(format!(
                "seed {seed}: {line}\n    {}",
                out.stderr.trim_end()
            ));
            break;
        }
    }
    let there = |name: &&&str| fs::metadata(folder.path().join(name)).is_ok_and(|f| f.len() > 0);
    let made: Vec<&str> = DOCUMENTS.iter().filter(there).copied().collect();
    let verdict = folder.run(&format!("mt-check {}", made.join(" ")));
    match verdict.code {
        Some(0) => Ok(made.contains(&"r")),
        _ => Err(format!("{told}{}{}", verdict.stdout, verdict.stderr)),
    }
}

#[test]
fn what_the_tools_make_of_generated_workloads_is_never_called_a_lie() {
    let number = |name: &str| std::env::var(name).ok().map(|n| n.parse().unwrap());
    let seeds: Vec<u64> = match number("MT_HONEST_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("MT_HONEST").unwrap_or(PIPELINES))
            .chain(FOUND)
            .collect(),
    };
    let mut refused = Vec::new();
    let each = seeds.iter().map(|seed| honest(*seed, &mut refused));
    let results: Vec<Result<bool, String>> = each.collect();
    println!("{}", refused.join("\n"));
    let ran = results.iter().filter(|r| **r == Ok(true)).count();
    println!("{} pipelines, of which {ran} came to a run", seeds.len());
    let wrong: Vec<String> = results.into_iter().filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(ran * 2 >= seeds.len() || seeds.len() == 1, "{ran}");
}
