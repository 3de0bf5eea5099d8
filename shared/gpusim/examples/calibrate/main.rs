//! Judges the simulator against Tables IV and V of the FedMT paper.

mod evaluate;
mod fit;
mod rows;

use std::error::Error;
use std::io::Write;

use evaluate::Constants;

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    let rows = rows::read()?;
    let mut c = Constants::default();
    for arg in std::env::args().skip(1) {
        let (k, v) = arg.split_once('=').ok_or("k=v")?;
        let v: f64 = v.parse()?;
        match k {
            "conv3" => c.tuning.conv3_efficiency = v,
            "gemm" => c.tuning.gemm_efficiency = v,
            "dw" => c.tuning.depthwise_efficiency = v,
            "ew" => c.tuning.elementwise_efficiency = v,
            "traffic" => c.tuning.traffic = v,
            "occ" => c.tuning.occupancy = v,
            "launch" => { c.host.launch_us = v; c.rtx_host.launch_us = v; },
            "gap" => c.tuning.gap_us = v,
            "inter" => c.tuning.interference = v,
            "handover" => c.tuning.handover = v,
            "operand" => c.tuning.operand_rate = v,
            "reach" => c.tuning.memory_reach = v,
            "spread" => c.tuning.spreading = v > 0.5,
            "switch" => c.tuning.switch_us = v,
            "jitter" => c.tuning.jitter = v,
            "merge" => c.tuning.merge_us = v,
            "step" => c.host.us_per_step = v,
            "sample" => c.host.us_per_sample = v,
            "cont" => c.host.contention = v,
            "rcont" => c.rtx_host.contention = v,
            "rsample" => c.rtx_host.us_per_sample = v,
            _ => return Err("key".into()),
        }
    }
    if std::env::var_os("FIT").is_some() {
        c = fit::fit(&rows, c)?;
        writeln!(out, "{c:?}")?;
    }
    if std::env::var_os("SPEED").is_some() {
        return speed(&mut out, &rows, &c);
    }
    report(&mut out, &rows, &c)
}

fn speed(out: &mut impl Write, rows: &[rows::Row], c: &Constants) -> Result<(), Box<dyn Error>> {
    use gpusim::{Gpu, Network, Options, SimTask, Simulator};
    use units::{Batch, Share};
    let m: u32 = std::env::var("STEPS")?.parse()?;
    let mut speeds = vec![];
    let mut errors = vec![];
    let mut task_errors = vec![];
    for row in rows {
        let sim = Simulator::with_tuning(Gpu::built_in(&row.gpu)?.with_host(c.host)?, c.tuning);
        let programs: Vec<_> = row.models.iter().map(|m| sim.program(&Network::by_name(m).unwrap(), Batch::new(128).unwrap(), None).unwrap()).collect();
        let n = programs.len();
        let mut events = 0;
        let mut spent = 0.0;
        let mut count = 0.0;
        for k in 0..12usize {
            let tasks: Vec<_> = programs.iter().enumerate().map(|(i, program)| SimTask { program, share: Share::from_hundredths(if k == 0 { 10000 } else if k == 1 { 10000 / n as u32 } else { 3000 + 1000 * ((k * 5 + i * 3) % 8) as u32 }) }).collect();
            let t = std::time::Instant::now();
            let mut o = sim.run(&tasks, &Options { seed: 1, min_steps: m });
            for _ in 0..4 { o = sim.run(&tasks, &Options { seed: 1, min_steps: m }); }
            spent += t.elapsed().as_secs_f64() / 5.0;
            count += 1.0;
            events += o.events;
            let l = sim.run(&tasks, &Options { seed: 1, min_steps: 20 * m });
            errors.push((o.total() / l.total() - 1.0).abs());
            for (a, b) in o.samples_per_s.iter().zip(&l.samples_per_s) { task_errors.push((a / b - 1.0).abs()); }
        }
        speeds.push(count / spent);
        writeln!(out, "{} {:.0}/s {} events {:.0} ns/event", row.mix, count / spent, events / 12, spent * 1e9 / events as f64)?;
    }
    let med = |v: &mut Vec<f64>| { v.sort_by(f64::total_cmp); v[v.len() / 2] };
    let mean = |v: &Vec<f64>| v.iter().sum::<f64>() / v.len() as f64;
    writeln!(out, "total mean {:.4}", mean(&errors))?;
    writeln!(out, "task mean {:.4}", mean(&task_errors))?;
    let p90 = { errors.sort_by(f64::total_cmp); errors[errors.len() * 9 / 10] };
    writeln!(out, "median speed {:.0}/s, total error median {:.4} p90 {:.4}, task error median {:.4}", med(&mut speeds), med(&mut errors), p90, med(&mut task_errors))?;
    Ok(())
}

fn report(out: &mut impl Write, rows: &[rows::Row], c: &Constants) -> Result<(), Box<dyn Error>> {
    let mut sums = [0.0; 3];
    let mut s3080 = (0.0, 0.0);
    for row in rows {
        let s = evaluate::simulate(row, c, 10)?;
        let e: Vec<f64> = (0..3).map(|i| s.ratios[i] - row.ratios[i]).collect();
        for i in 0..3 {
            sums[i] += e[i].abs() / rows.len() as f64;
            if row.gpu == "rtx-3080" {
                s3080.0 += e[i].abs();
                s3080.1 += 1.0;
            }
        }
        writeln!(
            out,
            "{:9} {:24} T {:5.0}/{:5.0}={:4.2}  FI {:.2}({:+.2}) FS {:.2}({:+.2}) best {:.2}({:+.2}) FS-FI {:+.2}/{:+.2} best/FS {:.2}/{:.2} {:?}",
            row.gpu, row.mix, s.temporal, row.temporal, s.temporal / row.temporal,
            s.ratios[0], e[0], s.ratios[1], e[1], s.ratios[2], e[2],
            s.ratios[1] - s.ratios[0], row.ratios[1] - row.ratios[0],
            s.ratios[2] / s.ratios[1], row.ratios[2] / row.ratios[1],
            s.best_shares
        )?;
    }
    writeln!(out, "mae FI {:.3} FS {:.3} best {:.3} all {:.3}; 3080 {:.3}", sums[0], sums[1], sums[2], sums.iter().sum::<f64>() / 3.0, s3080.0 / s3080.1)?;
    Ok(())
}
