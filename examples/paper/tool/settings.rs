//! Every setting of the paper as a workload.

use std::fs::{self, File};
use std::io::{BufReader, Write};
use std::path::Path;

use doc::{Document, Frames, Workload};
use gpusim::Network;

use crate::Outcome;
use crate::reported;

/// Mixes of Figs. 7, 9 and 10.
pub const MIXES: [&str; 3] = ["D121+V16+R101", "R18+M3+S2", "R50+V16+M3"];
/// The mix of Figs. 6 and 11.
pub const FIG6: &str = "D121+V16+M3";
/// The mix of Fig. 12.
pub const FIG12: &str = "R101+D121+M3";
/// The mix of Table II.
pub const TABLE2: &str = "V16+R18+M3";
/// GPUs of Fig. 10: the paper names none, so all GPUs of its tables.
pub const GPUS: [&str; 3] = ["titan-v", "rtx-3080", "rtx-3090"];
/// Data volumes of Fig. 10 in every order, a thousand images each.
pub const VOLUMES: [[u64; 3]; 6] = [
    [1, 2, 3],
    [1, 3, 2],
    [2, 1, 3],
    [2, 3, 1],
    [3, 1, 2],
    [3, 2, 1],
];
/// Images of one part of the volumes of Fig. 10. Only ratios of times are shown; on processors a round takes 12 to 20
/// s, compared with which the 0.3 s for starting a job are small.
const PART: u64 = 40_000;
/// Batch sizes of Fig. 10: in proportion to the volumes 1:2:3; the first is that of the baselines.
const CYCLE_BATCHES: [u64; 3] = [128, 256, 384];
/// Batch sizes of Table II: 128 and 20 % below and above.
pub const SEARCH_BATCHES: [u64; 3] = [102, 128, 154];

/// How the transfers of Table I are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Once, as download.
    Down,
    /// Once, as upload.
    Up,
    /// Once, half of it in each direction.
    Half,
    /// In both directions.
    Twice,
}

impl Reading {
    pub const ALL: [Reading; 4] = [Self::Up, Self::Down, Self::Half, Self::Twice];

    pub fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Up => "up",
            Self::Half => "half",
            Self::Twice => "twice",
        }
    }

    fn bytes(self, model: u64) -> (u64, u64) {
        match self {
            Self::Down => (model, 0),
            Self::Up => (0, model),
            Self::Half => (model / 2, model / 2),
            Self::Twice => (model, model),
        }
    }
}

/// Splits of the images of a round of Table I: equal parts, and 1:2:3 in every order.
pub fn splits() -> Vec<(String, [f64; 3])> {
    let mut all = vec![("equal".to_owned(), [1.0 / 3.0; 3])];
    all.extend(VOLUMES.map(|v| (volumes_name(&v), v.map(|part| part as f64 / 6.0))));
    all
}

/// `123` for volumes 1:2:3.
pub fn volumes_name(volumes: &[u64; 3]) -> String {
    volumes.map(|v| v.to_string()).concat()
}

/// Which workloads are written.
pub struct Plan<'a> {
    pub data: &'a Path,
    pub out: &'a Path,
    pub device: &'a str,
    pub quick: bool,
}

/// One task: name in the paper, batch sizes, samples of a round, bytes down and up.
struct PaperTask {
    short: String,
    batches: Vec<u64>,
    samples: u64,
    bytes: (u64, u64),
}

/// Catalogue name and update size in MB (section VI-D; AlexNet and ResNet34 by our own count).
fn model(short: &str) -> Outcome<(&'static str, u64)> {
    Ok(match short {
        "ALEX" => ("alexnet", 93),
        "V16" => ("vgg16", 55),
        "R18" => ("resnet18", 45),
        "R34" => ("resnet34", 85),
        "R50" => ("resnet50", 100),
        "R101" => ("resnet101", 170),
        "M3" => ("mobilenet_v3_large", 15),
        "S2" => ("shufflenet_v2_x1_0", 9),
        "D121" => ("densenet121", 30),
        _ => return Err(format!("no model is called {short}").into()),
    })
}

fn jobs(mix: &str, batches: &[u64], samples: &[u64]) -> Vec<PaperTask> {
    let task = |(i, short): (usize, &str)| PaperTask {
        short: short.to_owned(),
        batches: batches.to_vec(),
        samples: samples[i % samples.len()],
        bytes: (0, 0),
    };
    mix.split('+').enumerate().map(task).collect()
}

fn with_transfers(mut jobs: Vec<PaperTask>, reading: Reading) -> Outcome<Vec<PaperTask>> {
    for job in &mut jobs {
        job.bytes = reading.bytes(model(&job.short)?.1 * 1_000_000);
    }
    Ok(jobs)
}

/// Hidden layers of the networks that replace the catalogue on a CPU.
const DEPTH: f64 = 3.0;
/// Operations of a catalogue model per operation of its replacement: a step of VGG16 at batch size 128 then takes
/// some 0.1 s on a core, so that a window of a second contains several.
const SHRINK: f64 = 200.0;

/// The training program of a task on a real device. On a CPU it is a fully connected network whose operations per
/// sample are those of the model divided by [`SHRINK`]: `6 DEPTH width^2`.
fn command(model: &str, device: &str) -> Outcome<Vec<String>> {
    let mut words = vec!["mt-worker", "--device", device];
    let width;
    match device {
        "cpu" => {
            let flops = Network::by_name(model)?.flops_per_sample() / SHRINK;
            width = format!("{:.0}", (flops / (6.0 * DEPTH)).sqrt().max(8.0));
            words.extend(["--depth", "3", "--width", &width]);
        }
        _ => words.extend(["--model", model]),
    }
    Ok(words.into_iter().map(str::to_owned).collect())
}

impl Plan<'_> {
    fn write(&self, name: &str, gpu: &str, jobs: &[PaperTask]) -> Outcome<()> {
        let mut tasks = Vec::new();
        for job in jobs {
            let (model, _) = model(&job.short)?;
            let program = if self.device == "sim" {
                String::new()
            } else {
                let argv = command(model, self.device)?;
                format!(",\"job\":{{\"argv\":{argv:?},\"pool\":true}}")
            };
            let (down, up) = job.bytes;
            tasks.push(format!(
                "{{\"id\":\"{}\",\"model\":\"{model}\",\"batch_sizes\":{:?},\"samples\":{},\
                 \"update_bytes\":{{\"down\":{down},\"up\":{up}}}{program}}}",
                job.short, job.batches, job.samples
            ));
        }
        let gpu = if self.device == "sim" {
            format!(",\"gpu\":\"{gpu}\"")
        } else {
            String::new()
        };
        let link = if jobs.iter().any(|j| j.bytes != (0, 0)) {
            "\"link\":{\"down_bps\":4e8,\"up_bps\":4e8},"
        } else {
            ""
        };
        let text = format!(
            "{{\"schema\":\"mt.workload/1\",\"id\":\"{name}\",\"device\":{{\"kind\":\"{}\"{gpu}}},\
             {link}\"tasks\":[{}]}}\n",
            self.device,
            tasks.join(",")
        );
        fs::write(self.out.join(format!("{name}.workload.json")), text)?;
        Ok(())
    }

    /// Writes the workload of every setting, and their names and kinds to `list`.
    pub fn write_all(&self, list: &mut impl Write) -> Outcome<()> {
        let equal = |mix: &str| jobs(mix, &[128], &[20_000]);
        self.rows(list)?;
        self.allocations(list)?;
        self.write("fig6", "titan-v", &equal(FIG6))?;
        writeln!(list, "fig6 rank")?;
        if !self.quick {
            self.write("fig12", "titan-v", &equal(FIG12))?;
            writeln!(list, "fig12 plan")?;
        }
        for (i, mix) in MIXES.iter().enumerate() {
            if !self.quick || i == 2 {
                self.write(&format!("mix{i}"), "titan-v", &equal(mix))?;
                writeln!(list, "mix{i} rank")?;
            }
            self.cycles(i, mix, list)?;
            self.overlap(i, list)?;
        }
        let search = jobs(TABLE2, &SEARCH_BATCHES, &[20_000]);
        self.write(
            "search",
            "rtx-3090",
            &with_transfers(search, Reading::Twice)?,
        )?;
        writeln!(list, "search search")?;
        Ok(())
    }

    /// Tables IV and V.
    fn rows(&self, list: &mut impl Write) -> Outcome<()> {
        let mut rows: Vec<_> = reported::throughputs(self.data)?
            .into_iter()
            .enumerate()
            .collect();
        // The longest first, so that two workers end at about the same time.
        rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.mix.matches('+').count()));
        for (i, row) in rows {
            if !self.quick || [0, 13].contains(&i) {
                let name = format!("row{i}");
                self.write(&name, &row.gpu, &jobs(&row.mix, &[128], &[20_000]))?;
                writeln!(list, "{name} plan")?;
            }
        }
        Ok(())
    }

    /// Table III.
    fn allocations(&self, list: &mut impl Write) -> Outcome<()> {
        let allocations = reported::allocations(self.data)?;
        let settings: &[&str] = if self.quick {
            &["1"]
        } else {
            &["1", "2", "3", "4"]
        };
        for setting in settings {
            let chosen = allocations.iter().filter(|a| a.setting == *setting);
            let jobs: Vec<PaperTask> = chosen
                .map(|a| PaperTask {
                    short: a.model.clone(),
                    batches: vec![a.batch],
                    samples: 20_000,
                    bytes: (0, 0),
                })
                .collect();
            let name = format!("setting{setting}");
            self.write(&name, "titan-v", &jobs)?;
            writeln!(list, "{name} rank")?;
        }
        Ok(())
    }

    /// Fig. 10: each mix on each GPU once, and the volumes of each round.
    fn cycles(&self, i: usize, mix: &str, list: &mut impl Write) -> Outcome<()> {
        for (g, gpu) in GPUS.iter().enumerate() {
            if self.quick && (i, g) != (2, 0) {
                continue;
            }
            let name = format!("cycle{g}_{i}");
            for volumes in &VOLUMES {
                let tasks = jobs(mix, &CYCLE_BATCHES, &volumes.map(|v| v * PART));
                self.write(&format!("{name}.{}", volumes_name(volumes)), gpu, &tasks)?;
            }
            let tasks = jobs(mix, &CYCLE_BATCHES, &VOLUMES[0].map(|v| v * PART));
            self.write(&name, gpu, &tasks)?;
            writeln!(list, "{name} cycle")?;
        }
        Ok(())
    }

    /// Table I: one profile, and the round of every split and reading.
    fn overlap(&self, i: usize, list: &mut impl Write) -> Outcome<()> {
        if self.quick && self.device != "sim" && i != 2 {
            return Ok(());
        }
        let row = &reported::overlaps(self.data)?[i];
        let name = format!("overlap{i}");
        for (split, parts) in splits() {
            let samples = parts.map(|part| (part * row.images()).round() as u64);
            for reading in Reading::ALL {
                let tasks = with_transfers(jobs(&row.mix, &[128], &samples), reading)?;
                let round = format!("{name}.{split}.{}", reading.name());
                self.write(&round, "rtx-3090", &tasks)?;
            }
        }
        let samples = (row.images() / 3.0).round() as u64;
        let tasks = with_transfers(jobs(&row.mix, &[128], &[samples]), Reading::Twice)?;
        self.write(&name, "rtx-3090", &tasks)?;
        writeln!(list, "{name} overlap")?;
        Ok(())
    }
}

/// Writes the rounds of Table I in which every task has images in proportion to its rate under the plan, so that
/// without overlap all compute equally long, as with the paper's batch sizes in proportion to the data.
pub fn together(plan: &Plan<'_>, name: &str) -> Outcome<()> {
    let i: usize = name.trim_start_matches("overlap").parse()?;
    let row = &reported::overlaps(plan.data)?[i];
    let planned: doc::Plan = read(&plan.out.join(format!("{name}.equal.twice.plan.json")))?;
    let mut rates = Vec::new();
    for short in row.mix.split('+') {
        let place = planned.tasks.iter().position(|t| t.id.as_str() == short);
        let rate = place.and_then(|place| planned.given(place).throughput);
        rates.push(rate.ok_or("a plan without rates")?.mean.get());
    }
    let total: f64 = rates.iter().sum();
    let parts = |rate: &f64| (rate / total * row.images()).round() as u64;
    let samples: Vec<u64> = rates.iter().map(parts).collect();
    for reading in Reading::ALL {
        let tasks = with_transfers(jobs(&row.mix, &[128], &samples), reading)?;
        plan.write(
            &format!("{name}.together.{}", reading.name()),
            "rtx-3090",
            &tasks,
        )?;
    }
    Ok(())
}

/// A document from a file.
pub fn read<D: Document>(path: &Path) -> Outcome<D> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|e| format!("{name}: {e}"))?;
    let frame = Frames::new(BufReader::new(file), &name)
        .next()
        .ok_or_else(|| format!("{name} is empty"))??;
    Ok(frame.parse::<D>()?)
}

/// Names and smallest batch sizes of the tasks of a workload.
pub fn tasks_of(workload: &Path) -> Outcome<Vec<(String, u64)>> {
    let workload: Workload = read(workload)?;
    let tasks = workload.tasks.iter();
    let named = tasks.map(|t| (t.id.to_string(), u64::from(t.batch_sizes[0].get())));
    Ok(named.collect())
}
