//! Prices at which the demand for GPU time about equals its supply, from a simple model of how jobs
//! choose.
//!
//! In the model a job chooses one class g and a start t at or after `a + R (Tc + Ts - l)^+`; it then uses the class evenly
//! for its least length `R l`, and pays
//!
//! ```text
//! c_n(g, t) = w t + V Tc / (R l) int_t^(t + R l) lambda_g
//! ```
//!
//! A job does not take only the cheapest choice: it is split over all choices, in proportion to
//! `exp(-c_n / (h V min Tc))`. The temperature h, here called *heat*, is a price. This is the
//! transportation problem with entropic regularisation (Cuturi 2013). If all GPUs were alike and
//! jobs short, `lambda += h ln(used / capacity)` would be its Sinkhorn step, exact for one interval
//! at a time. On a class where jobs take longer than on their fastest class, they react more
//! strongly to prices, and the step is shorter by the same factor. The heat falls from step to
//! step. A step costs jobs x classes x intervals, a fiftieth of a subgradient step of the bound.
//!
//! Any prices give a valid bound, so the model may be wrong without making the bound invalid.

use crate::{Problem, Schedule, TrainingJob};

/// Prices of GPU time, and the classes that jobs choose at these prices.
#[derive(Debug, Clone, PartialEq)]
pub struct Equilibrium {
    /// Seconds of an interval.
    interval: f64,
    /// Price of a second on each class in the middle of each interval.
    prices: Vec<Vec<f64>>,
    /// Fraction of every job on every class, by job; all zero for a job that the model does not
    /// place.
    parts: Vec<Vec<f64>>,
}

/// Intervals of prices. Fewer are smoother: for 300 jobs on 15 GPUs the bound on the flow began at
/// 885e3 with 32 or 64, and at 826e3 with 128, where jobs find cheap times between the starts that
/// the model lets them choose.
const INTERVALS: usize = 64;
/// Steps of the price search. After them the demand in scarce intervals exceeds the capacity by a
/// few per cent.
const STEPS: usize = 200;
/// First and last heat, relative to the mean of the incumbent's prices. With more heat prices stay
/// far below the best ones; with less the search needs more steps.
const HEAT: (f64, f64) = (0.1, 0.01);
/// Choices with odds below `exp(-16)` of the best one are left out.
const LEAST_ODDS: f64 = 16.0;

impl Equilibrium {
    /// Searches for prices, starting from those of a schedule; the prices end at its makespan.
    pub fn new(problem: &Problem, incumbent: &Schedule) -> Self {
        let classes = problem.classes.len();
        let interval = incumbent.makespan() / INTERVALS as f64;
        let mut found = Self {
            interval,
            prices: vec![vec![0.0; INTERVALS]; classes],
            parts: vec![vec![0.0; classes]; problem.jobs.len()],
        };
        if interval <= 0.0 {
            return found;
        }
        found.prices = first_prices(problem, incumbent, interval, INTERVALS);
        let means = found.prices.iter().zip(&problem.classes);
        let sum: f64 = means
            .map(|(row, class)| class.count as f64 * row.iter().sum::<f64>())
            .sum();
        let mean = sum / (INTERVALS * problem.gpus.len()) as f64;
        if mean <= 0.0 {
            return found;
        }
        let damping: Vec<f64> = (0..classes).map(|g| calmness(problem, g)).collect();
        let mut used = vec![vec![0.0; INTERVALS]; classes];
        for step in 0..STEPS {
            let progress = step as f64 / (STEPS - 1) as f64;
            let heat = mean * HEAT.0 * (HEAT.1 / HEAT.0).powf(progress);
            found.demand(problem, heat, &mut used);
            for (g, row) in used.iter().enumerate() {
                let capacity = problem.classes[g].count as f64 * interval;
                for (price, used) in found.prices[g].iter_mut().zip(row) {
                    // A ratio beyond exp(2) says only that the demand is far too high or far too
                    // low.
                    let excess = (used / capacity).ln().clamp(-2.0, 2.0);
                    *price = (*price + damping[g] * heat * excess).max(0.0);
                }
            }
        }
        found
    }

    /// Price of a second of class g at time t, interpolated linearly between the middles of
    /// intervals; zero after the last interval.
    pub(super) fn at(&self, g: usize, t: f64) -> f64 {
        let row = &self.prices[g];
        let place = (t / self.interval - 0.5).max(0.0);
        let k = place as usize;
        if k >= row.len() {
            return 0.0;
        }
        let next = row.get(k + 1).copied().unwrap_or(0.0);
        row[k] + (place - k as f64) * (next - row[k])
    }

    /// The classes that each job chooses for more than the fraction `least` of itself, as a bit
    /// mask; all classes if there are none.
    pub fn classes(&self, least: f64) -> Vec<u64> {
        let bits = |parts: &Vec<f64>| {
            let chosen = parts.iter().enumerate().filter(|(_, part)| **part > least);
            let bits = chosen.map(|(g, _)| 1 << g).sum();
            if bits == 0 { u64::MAX } else { bits }
        };
        self.parts.iter().map(bits).collect()
    }

    /// Smith's ratio of job n, with its mean training time over the classes that it chooses.
    pub fn smith_ratio(&self, problem: &Problem, n: usize) -> f64 {
        let job = &problem.jobs[n];
        let own = job.train.iter().zip(&self.parts[n]);
        let mean: f64 = own.filter(|(_, p)| **p > 0.0).map(|(t, p)| t * p).sum();
        let train = if mean > 0.0 { mean } else { job.fastest() };
        job.volume() as f64 * train / job.weight
    }

    /// Writes into `used`, for every class and interval, the seconds that all jobs together use at
    /// the present prices. Updates the `parts` of the jobs.
    fn demand(&mut self, problem: &Problem, heat: f64, used: &mut [Vec<f64>]) {
        let tariffs: Vec<Tariff> = self.prices.iter().map(|row| Tariff::new(row)).collect();
        let mut ramps = vec![Ramp::default(); used.len()];
        let mut choices: Vec<Choice> = Vec::new();
        for (job, parts) in problem.jobs.iter().zip(&mut self.parts) {
            let least_need = job.volume() as f64 * job.fastest();
            // In intervals.
            let length = job.rounds as f64 * job.shortest_round / self.interval;
            if !(least_need > 0.0 && length > 0.0 && length.is_finite()) {
                continue;
            }
            choices.clear();
            for (g, tariff) in tariffs.iter().enumerate() {
                if job.train[g].is_finite() && problem.classes[g].count > 0 {
                    offer(job, g, self.interval, length, tariff, &mut choices);
                }
            }
            let costs = choices.iter().map(|c| c.cost);
            let least = costs.fold(f64::INFINITY, f64::min);
            let mut sum = 0.0;
            choices.retain_mut(|c| {
                let dearer = (c.cost - least) / (heat * least_need);
                // From here on `cost` holds the odds.
                c.cost = (-dearer).exp();
                let kept = dearer < LEAST_ODDS;
                sum += if kept { c.cost } else { 0.0 };
                kept
            });
            parts.fill(0.0);
            for c in &choices {
                let part = c.cost / sum;
                parts[c.class] += part;
                let rate = part * job.volume() as f64 * job.train[c.class] / length;
                ramps[c.class].add(c.start, c.start + length, rate);
            }
        }
        for (row, ramp) in used.iter_mut().zip(&ramps) {
            ramp.write(row);
        }
    }
}

/// Prices from a schedule. On one machine the price of time falls by `w / (V p)` per second while a
/// job of V tasks of p seconds runs, since its completion would move by as much. On a class, the
/// price falls by the mean over its GPUs.
fn first_prices(
    problem: &Problem,
    incumbent: &Schedule,
    interval: f64,
    intervals: usize,
) -> Vec<Vec<f64>> {
    let mut fall = vec![vec![0.0; intervals + 1]; problem.classes.len()];
    for a in &incumbent.assignments {
        let g = problem.gpus[a.gpu];
        let job = &problem.jobs[a.job];
        let density = job.weight / (job.volume() as f64 * job.train[g]);
        // For merged rounds: the fraction of the time from the first start to the last end that is
        // training.
        let end_of_task = a.last_trained();
        let seconds = a.rounds as f64 * (a.trained - a.start);
        let busy = match a.rounds {
            1 => 1.0,
            _ => seconds / (end_of_task - a.start),
        };
        let share = busy * density / problem.classes[g].count as f64;
        let first = (a.start / interval) as usize;
        for (k, fall) in fall[g].iter_mut().enumerate().take(intervals).skip(first) {
            let begin = k as f64 * interval;
            let end = (k + 1) as f64 * interval;
            if begin >= end_of_task {
                break;
            }
            *fall += share * (end_of_task.min(end) - a.start.max(begin)).max(0.0);
        }
    }
    for row in &mut fall {
        let mut sum = 0.0;
        for value in row.iter_mut().rev() {
            sum += *value;
            *value = sum;
        }
        row.truncate(intervals);
    }
    fall
}

/// Factor, at most 1, for price steps on class g: the mean over jobs of their fastest training time
/// divided by that on the class. Jobs react more strongly to prices where they are slow, so the
/// step is shorter.
fn calmness(problem: &Problem, g: usize) -> f64 {
    let each = problem.jobs.iter().map(|j| j.fastest() / j.train[g]);
    each.filter(|r| r.is_finite()).sum::<f64>() / problem.jobs.len() as f64
}

/// A choice of a job: a class, a start (in intervals) and its cost.
struct Choice {
    class: usize,
    start: f64,
    cost: f64,
}

/// Adds the choices of a job on class g: one start per interval, and one after the last interval,
/// where time is free.
fn offer(
    job: &TrainingJob,
    g: usize,
    interval: f64,
    length: f64,
    tariff: &Tariff,
    out: &mut Vec<Choice>,
) {
    let rate = job.volume() as f64 * job.train[g] / length;
    let slower = (job.train[g] + job.sync[g] - job.shortest_round).max(0.0);
    let first = (job.arrival + job.rounds as f64 * slower) / interval;
    let end = INTERVALS as f64;
    for k in 0..=INTERVALS {
        let on_grid = first + k as f64;
        let start = if on_grid < end {
            on_grid
        } else {
            first.max(end)
        };
        let paid = rate * (tariff.before(start + length) - tariff.before(start));
        out.push(Choice {
            class: g,
            start,
            cost: job.weight * start * interval + paid,
        });
        if start >= end {
            break;
        }
    }
}

/// Cumulative price of a class at each edge of the intervals.
struct Tariff(Vec<f64>);

impl Tariff {
    fn new(prices: &[f64]) -> Self {
        let mut sum = 0.0;
        let sums = prices.iter().map(|price| {
            sum += price;
            sum
        });
        Self(std::iter::once(0.0).chain(sums).collect())
    }

    /// Price of all time before `place`, which is measured in intervals.
    fn before(&self, place: f64) -> f64 {
        // On a very slow class the first start may exceed every integer; the cast then saturates.
        let k = (place as usize).min(INTERVALS);
        match self.0.get(k + 1) {
            Some(next) => self.0[k] + (place - k as f64) * (next - self.0[k]),
            None => self.0[INTERVALS],
        }
    }
}

/// Time used in each interval, as a sum of uses at constant rates. Adding one changes four numbers,
/// however long it is.
#[derive(Clone)]
struct Ramp {
    /// Use in this interval, on top of the rate that continues from earlier intervals.
    once: [f64; INTERVALS],
    /// Change, from this interval on, of the rate per interval.
    rise: [f64; INTERVALS + 1],
}

impl Default for Ramp {
    fn default() -> Self {
        Self {
            once: [0.0; INTERVALS],
            rise: [0.0; INTERVALS + 1],
        }
    }
}

impl Ramp {
    /// Adds a use of `rate` per interval between two places, which are measured in intervals.
    fn add(&mut self, from: f64, to: f64, rate: f64) {
        for (place, rate) in [(from, rate), (to, -rate)] {
            let k = place as usize;
            if k < INTERVALS {
                self.once[k] += rate * ((k + 1) as f64 - place);
                self.rise[k + 1] += rate;
            }
        }
    }

    fn write(&self, used: &mut [f64]) {
        let mut rate = 0.0;
        for ((used, once), rise) in used.iter_mut().zip(&self.once).zip(&self.rise) {
            rate += rise;
            // Uses that have ended leave rounding errors in the sum, which may be negative.
            *used = (rate + once).max(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares uses that begin and end inside intervals, on their edges and after the last one
    /// with a sum over every interval.
    #[test]
    fn a_ramp_is_the_sum_of_its_uses() {
        let places = [0.0, 0.25, 1.0, 1.75, 5.5, 62.9, 63.0, 63.5, 64.0, 80.0];
        let mut ramp = Ramp::default();
        let mut slow = [0.0; INTERVALS];
        for (i, &from) in places.iter().enumerate() {
            for &to in &places[i..] {
                let rate = 1.0 + from;
                ramp.add(from, to, rate);
                for (k, used) in slow.iter_mut().enumerate() {
                    let (begin, end) = (k as f64, (k + 1) as f64);
                    *used += rate * (to.min(end) - from.max(begin)).max(0.0);
                }
            }
        }
        let mut fast = [0.0; INTERVALS];
        ramp.write(&mut fast);
        for (fast, slow) in fast.iter().zip(slow) {
            assert!((fast - slow).abs() < 1e-9 * slow.max(1.0), "{fast} {slow}");
        }
    }
}
