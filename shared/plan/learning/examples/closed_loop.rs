//! Sum of completion times over that of equal shares, in a closed loop with noisy losses: a table in Markdown.
//!
//! `cargo run --release -p mt-learning --example closed-loop [first-seed [seeds]]`

#![expect(clippy::unwrap_used, reason = "shared with the tests")]
#![expect(clippy::print_stdout, reason = "the table is what it is for")]

#[path = "../tests/suite/closed.rs"]
mod closed;

use closed::{Case, Family};

fn main() {
    let mut numbers = std::env::args()
        .skip(1)
        .filter_map(|a| a.parse::<u64>().ok());
    let first = numbers.next().unwrap_or(10_001);
    let seeds = numbers.next().unwrap_or(40);
    println!("| trainings | noise | report every | mean | 95 % | worst | over 1.02 | decisions |");
    println!("|---|---|---|---|---|---|---|---|");
    for family in [Family::Powers, Family::Mixed, Family::Rising, Family::Flat] {
        for noise in [0.0, 0.03, 0.1] {
            for report_s in [1.0, 5.0] {
                row(family, noise, report_s, first..first + seeds);
            }
        }
    }
}

fn row(family: Family, noise: f64, report_s: f64, seeds: std::ops::Range<u64>) {
    let n = (seeds.end - seeds.start) as f64;
    let played: Vec<(u64, (f64, usize))> = seeds
        .map(|seed| (seed, Case::draw(family, noise, report_s, seed).over_equal()))
        .collect();
    let mut parts: Vec<f64> = played.iter().map(|p| p.1.0).collect();
    parts.sort_by(f64::total_cmp);
    let at = |q: f64| parts[((parts.len() - 1) as f64 * q).round() as usize];
    let mean = parts.iter().sum::<f64>() / n;
    let over = parts.iter().filter(|p| **p > 1.02).count();
    let decisions = played.iter().map(|p| p.1.1).sum::<usize>() as f64 / n;
    println!(
        "| {family:?} | {noise} | {report_s} s | {mean:.3} | {:.3} | {:.3} | {over} | {decisions:.1} |",
        at(0.95),
        at(1.0)
    );
}
