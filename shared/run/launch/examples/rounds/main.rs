//! Explore.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints a table")]
mod mixes;
mod rivals;
mod world;

use std::process::ExitCode;
use world::World;

pub(crate) type Failure = Box<dyn std::error::Error>;

struct Row { n: usize, rounds: usize, learnt: f64, full: f64, ratios: Vec<f64> }

fn of_mix(index: usize, seed: u64, show: bool) -> Result<Vec<Row>, Failure> {
    let (name, workload) = mixes::draw(index, seed)?;
    let mut world = World::new(&workload, seed)?;
    let n = world.tasks();
    let mut rows = Vec::new();
    for (noise, drifts) in [(0.0, false), (3.0, false), (10.0, false), (3.0, true)] {
        for rounds in [5, 20, 100] {
            if std::env::var("ONLY").is_ok_and(|o| o != rounds.to_string()) { continue; }
            if (noise == 0.0 || drifts) && rounds == 100 && show { continue; }
            let weather = rivals::weather(n, rounds, noise, drifts, seed + index as u64);
            let (at, best) = rivals::best(&mut world, &weather)?;
            let (learnt, trials) = rivals::learnt(&mut world, &weather, show)?;
            let full = rivals::fixed(&mut world, &rivals::equal(n, 10_000), &weather)?;
            let sixty = rivals::fixed(&mut world, &rivals::equal(n, 6_000), &weather)?;
            let two = rivals::fixed(&mut world, &rivals::equal(n, 20_000 / n as u32), &weather)?;
            let random = rivals::random(&mut world, &weather, seed)?;
            let measuring = 40.0 * 2.0;
            let first = best + measuring;
            let at: Vec<String> = at.iter().map(|s| format!("{:.0}", s.percent())).collect();
            println!("{n} {rounds:3} noise {noise:2} drift {drifts:5} learnt {:.3} trials {trials:2} full {:.3} 60 {:.3} 200/n {:.3} random {:.3} first {:.3}  best {best:.0} s at {} {name}",
                learnt / best, full / best, sixty / best, two / best, random / best, first / best, at.join("/"));
            rows.push(Row { n, rounds, learnt: learnt / best, full: learnt / full, ratios: vec![full/best, sixty/best, two/best, random/best, first/best] });
        }
    }
    Ok(rows)
}

fn run() -> Result<(), Failure> {
    let seed: u64 = std::env::args().nth(1).ok_or("seed")?.parse()?;
    let from: usize = std::env::args().nth(2).ok_or("from")?.parse()?;
    let to: usize = std::env::args().nth(3).ok_or("to")?.parse()?;
    let show = std::env::args().nth(4).is_some();
    let mut rows = Vec::new();
    for index in from..to {
        rows.extend(of_mix(index, seed, show)?);
    }
    for rounds in [5, 20, 100] {
        let of = |f: &dyn Fn(&Row) -> f64| {
            let mut v: Vec<f64> = rows.iter().filter(|r| r.rounds == rounds).map(f).collect();
            v.sort_by(f64::total_cmp);
            if v.is_empty() { return "-".to_owned(); }
            format!("{:.3}..{:.3}", v[v.len() / 2], v[v.len() - 1])
        };
        print!("N {rounds}: learnt {} over full {}", of(&|r| r.learnt), of(&|r| r.full));
        for k in 0..5 { print!(" {} {}", ["full", "60", "200/n", "random", "first"][k], of(&|r| r.ratios[k])); }
        println!();
    }
    let _ = rows.iter().map(|r| r.n).max();
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rounds: {error}");
            ExitCode::from(2)
        }
    }
}
