//! Every setting of the paper as a workload, and what to measure in it.

use std::fs::{self, File};
use std::io::{BufReader, Write};
use std::path::Path;

use doc::{Document, Frames, Timeline, Workload};

use crate::Outcome;
use crate::reported;
use crate::table::{Cell, CoRun, Table};

/// Mixes of Figs. 7, 9 and 10.
pub const MIXES: [&str; 3] = ["D121+V16+R101", "R18+M3+S2", "R50+V16+M3"];
/// The mix of Fig. 6.
pub const FIG6: &str = "D121+V16+M3";

/// One task: name in the paper, batch sizes, samples of a round.
struct Job {
    short: String,
    batches: Vec<u64>,
    samples: u64,
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

fn jobs(mix: &str, batches: &[u64], samples: &[u64]) -> Vec<Job> {
    mix.split('+')
        .enumerate()
        .map(|(i, short)| Job {
            short: short.to_owned(),
            batches: batches.to_vec(),
            samples: samples[i % samples.len()],
        })
        .collect()
}

fn write_workload(folder: &Path, name: &str, gpu: &str, jobs: &[Job], link: bool) -> Outcome<()> {
    let mut tasks = Vec::new();
    for job in jobs {
        let (model, megabytes) = model(&job.short)?;
        let bytes = megabytes * 1_000_000;
        let update = if link {
            format!(",\"update_bytes\":{{\"down\":{bytes},\"up\":{bytes}}}")
        } else {
            ",\"update_bytes\":{\"down\":0,\"up\":0}".to_owned()
        };
        tasks.push(format!(
            "{{\"id\":\"{}\",\"model\":\"{model}\",\"batch_sizes\":{:?},\"samples\":{}{update}}}",
            job.short, job.batches, job.samples
        ));
    }
    let link = if link {
        "\"link\":{\"down_bps\":4e8,\"up_bps\":4e8},"
    } else {
        ""
    };
    let text = format!(
        "{{\"schema\":\"mt.workload/1\",\"id\":\"{name}\",\"device\":{{\"kind\":\"sim\",\"gpu\":\"{gpu}\"}},{link}\"tasks\":[{}]}}\n",
        tasks.join(",")
    );
    fs::write(folder.join(format!("{name}.workload.json")), text)?;
    Ok(())
}

/// Writes the workload of every setting, and their names and kinds to `list`.
pub fn write_all(data: &Path, out: &Path, quick: bool, list: &mut impl Write) -> Outcome<()> {
    let take = |index: usize, wanted: &[usize]| !quick || wanted.contains(&index);
    // The longest first, so that two workers end together.
    let mut rows: Vec<(usize, reported::Throughputs)> = reported::throughputs(data)?
        .into_iter()
        .enumerate()
        .collect();
    rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.mix.matches('+').count()));
    for (i, row) in rows {
        if take(i, &[0, 13]) {
            let name = format!("row{i}");
            write_workload(
                out,
                &name,
                &row.gpu,
                &jobs(&row.mix, &[128], &[20_000]),
                false,
            )?;
            writeln!(list, "{name} plan")?;
        }
    }
    let allocations = reported::allocations(data)?;
    for setting in ["1", "2", "3", "4"] {
        let chosen = allocations.iter().filter(|a| a.setting == setting);
        let jobs: Vec<Job> = chosen
            .map(|a| Job {
                short: a.model.clone(),
                batches: vec![a.batch],
                samples: 20_000,
            })
            .collect();
        if take(setting.parse()?, &[1]) {
            let name = format!("setting{setting}");
            write_workload(out, &name, "titan-v", &jobs, false)?;
            writeln!(list, "{name} rank")?;
        }
    }
    write_workload(
        out,
        "fig6",
        "titan-v",
        &jobs(FIG6, &[128], &[20_000]),
        false,
    )?;
    writeln!(list, "fig6 rank")?;
    for (i, mix) in MIXES.iter().enumerate() {
        if take(i, &[2]) {
            let name = format!("mix{i}");
            write_workload(out, &name, "titan-v", &jobs(mix, &[128], &[20_000]), false)?;
            writeln!(list, "{name} rank")?;
            let name = format!("round{i}");
            let volumes = jobs(mix, &[32, 64, 128, 256], &[10_000, 20_000, 30_000]);
            write_workload(out, &name, "titan-v", &volumes, false)?;
            writeln!(list, "{name} round")?;
        }
        let name = format!("overlap{i}");
        write_workload(out, &name, "rtx-3090", &jobs(mix, &[128], &[20_000]), true)?;
        writeln!(list, "{name} overlap")?;
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

/// Names and batch sizes of the tasks of a workload.
pub fn tasks_of(workload: &Path) -> Outcome<Vec<(String, u64)>> {
    let workload: Workload = read(workload)?;
    let tasks = workload.tasks.iter();
    let named = tasks.map(|t| (t.id.to_string(), u64::from(t.batch_sizes[0].get())));
    Ok(named.collect())
}

/// Shares in percent as a co-run to measure.
pub fn co_run(tasks: &[(String, u64)], share: impl Fn(usize) -> f64) -> CoRun {
    let mut cells: Vec<Cell> = tasks
        .iter()
        .enumerate()
        .map(|(i, (task, batch))| Cell {
            task: task.clone(),
            batch: *batch,
            share: share(i),
            rate: 0.0,
        })
        .collect();
    cells.sort_by(|a, b| a.task.cmp(&b.task));
    CoRun(cells)
}

/// Isolated, sharing, 200/n, moderate and aggressive shares.
pub fn schemes(tasks: &[(String, u64)]) -> [CoRun; 5] {
    let n = tasks.len() as f64;
    let even = |percent: f64| (percent / n * 100.0).floor() / 100.0;
    [even(100.0), 100.0, even(200.0).min(100.0), 60.0, 80.0].map(|share| co_run(tasks, |_| share))
}

/// Step of the exhaustive search in percent.
pub fn grid_step(tasks: usize) -> u32 {
    match tasks {
        0..=2 => 5,
        3 | 4 => 10,
        _ => 20,
    }
}

/// Co-runs of the exhaustive search that are measured again with long windows.
const CHECKED: usize = 100;

/// What to measure with long windows: the simple schemes, the best of our samples, and the best
/// of the exhaustive search.
pub fn check(out: &Path, name: &str) -> Outcome<Table> {
    let tasks = tasks_of(&out.join(format!("{name}.workload.json")))?;
    let n = tasks.len();
    let mut all = schemes(&tasks).to_vec();
    let samples = Table::read_file(&out.join(format!("{name}.samples.csv")))?;
    all.extend(samples.best(n).cloned());
    let grid = Table::read_file(&out.join(format!("{name}.grid.csv")))?;
    let mut best: Vec<&CoRun> = grid.full(n).collect();
    best.sort_by(|a, b| b.total().total_cmp(&a.total()));
    all.extend(best.into_iter().take(CHECKED).cloned());
    for run in &mut all {
        for cell in &mut run.0 {
            cell.rate = 0.0;
        }
    }
    Ok(Table(all))
}

/// The co-run of one scheme alone, to trace it.
pub fn scheme(out: &Path, name: &str, scheme: &str) -> Outcome<Table> {
    let tasks = tasks_of(&out.join(format!("{name}.workload.json")))?;
    let run = match scheme {
        "temporal" => co_run(&tasks[..1], |_| 100.0),
        "isolated" => schemes(&tasks)[0].clone(),
        "sharing" => schemes(&tasks)[1].clone(),
        "ours" => {
            let samples = Table::read_file(&out.join(format!("{name}.samples.csv")))?;
            let best = samples.best(tasks.len()).ok_or("no co-run was sampled")?;
            co_run(&tasks, |i| best.share(&tasks[i].0).unwrap_or(100.0))
        }
        _ => return Err(format!("no scheme is called {scheme}").into()),
    };
    Ok(Table(vec![run]))
}

/// Gives every task of an overlap setting as many samples as make the round without overlap last
/// as long as the paper's, in equal parts.
pub fn rescale(data: &Path, out: &Path, name: &str) -> Outcome<()> {
    let index: usize = name.trim_start_matches("overlap").parse()?;
    let timeline: Timeline = read(&out.join(format!("{name}.timeline.json")))?;
    let workload: Workload = read(&out.join(format!("{name}.workload.json")))?;
    let row = &reported::overlaps(data)?[index];
    let mut transfers = 0.0;
    for task in &workload.tasks {
        if let (Some(update), Some(link)) = (task.update_bytes, workload.link) {
            transfers += update.down.transfer_seconds(link.down);
            transfers += update.up.transfer_seconds(link.up);
        }
    }
    let factor = (row.off_s - transfers) / (timeline.overlap_off.get() - transfers);
    let samples = (20_000.0 * factor).round() as u64;
    write_workload(
        out,
        name,
        "rtx-3090",
        &jobs(&row.mix, &[128], &[samples]),
        true,
    )
}
