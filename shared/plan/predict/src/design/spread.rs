//! The first co-runs of a design.

use std::collections::HashSet;

use rand::rngs::StdRng;
use units::corun::Setting;

use super::climb::CANDIDATES;
use super::space::{Design, coruns_per_fit, fit_so_far};
use crate::dataset::{Dataset, Sample};

/// Each of the first co-runs is chosen among this number of draws, the best ones according to the current model.
///
/// Nearly all configurations are far worse than the best, and teach little about it. When co-runs were spread over
/// the whole space, the next dozen were needed to find the region that solo runs and one or two co-runs already
/// indicate.
const PROMISING: usize = CANDIDATES / 100;

/// Chooses [`coruns_per_fit`] configurations among the random draws that the current model (learnt from at least the
/// solo runs) ranks best: each is the farthest from all measured co-runs and from the ones chosen before. Empty if
/// nothing new can be drawn.
pub(super) fn spread(
    design: &Design<'_>,
    data: &Dataset,
    together: &[&Sample],
    rng: &mut StdRng,
) -> Vec<Vec<Setting>> {
    let mut seen: HashSet<Vec<Setting>> = together.iter().map(|s| s.active.clone()).collect();
    let draws = (0..design.candidates()).map_while(|_| design.draw(rng));
    let mut all: Vec<(f64, Vec<Setting>)> = draws
        .filter(|active| seen.insert(active.clone()))
        .map(|active| (0.0, active))
        .collect();
    // If no model is possible yet, for example because the solo runs of a task failed, choose among all draws:
    // co-runs may make a model possible.
    if let Ok(model) = fit_so_far(data) {
        design.values(&model, &mut all);
        super::climb::best_first(&mut all);
        all.truncate(PROMISING);
    }
    let gap = |active: &[Setting]| {
        let gaps = together.iter().map(|s| distance(design, active, &s.active));
        gaps.fold(f64::INFINITY, f64::min)
    };
    let mut left: Vec<(f64, Vec<Setting>)> = all
        .into_iter()
        .map(|(_, active)| (gap(&active), active))
        .collect();
    let mut chosen: Vec<Vec<Setting>> = Vec::new();
    while chosen.len() < coruns_per_fit(design.batches.len()) {
        // `min_by` returns the first of equally far draws, which has the best value.
        let farthest = (0..left.len()).min_by(|&a, &b| left[b].0.total_cmp(&left[a].0));
        let Some(at) = farthest else { break };
        let (_, next) = left.remove(at);
        for (gap, active) in &mut left {
            *gap = gap.min(distance(design, active, &next));
        }
        chosen.push(next);
    }
    chosen
}

/// Squared distance between the ranks of the shares and batch sizes of common tasks, each scaled to 0..1.
fn distance(design: &Design<'_>, x: &[Setting], y: &[Setting]) -> f64 {
    let rank = |at: Option<usize>, n: usize| at.unwrap_or(0) as f64 / (n.max(2) - 1) as f64;
    let ranks = |a: &Setting| {
        let batches = &design.batches[a.task];
        let shares = &design.shares;
        (
            rank(batches.iter().position(|b| *b == a.batch), batches.len()),
            rank(shares.iter().position(|s| *s == a.share), shares.len()),
        )
    };
    x.iter()
        .flat_map(|a| y.iter().filter(|b| b.task == a.task).map(move |b| (a, b)))
        .map(|(a, b)| {
            let (p, q) = (ranks(a), ranks(b));
            (p.0 - q.0).powi(2) + (p.1 - q.1).powi(2)
        })
        .sum()
}
