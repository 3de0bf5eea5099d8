//! A model of jobs that share a GPU: what a cap costs a job by itself, apart from what its neighbours cost it.
//!
//! Job `j` of template `t` under cap `c` (a fraction) beside others has the rate
//!
//! ```text
//! ln rate = m_t + a_j + ln g_t(c) - ln(1 + sum over others o of l_to g_o(c_o)) - ln(1 + q max(0, sum of all caps - 2))
//! g(c) = c sqrt((1 + k^2) / (c^2 + k^2))
//! ```
//!
//! `g` is the rate alone under a cap relative to none: 1 for a job that waits for its host (`k` near 0), `c` for one that
//! fills the GPU (large `k`). `l_to` is what one job of template `o` costs a job of template `t`, and `q` what clients
//! lose that may use the same multiprocessors. A cap and a crowd are thus learnt from jobs with unlike caps, in any
//! number and mix, and what is learnt in one mix holds in another.
//!
//! The parameters minimise the sum of squared residuals, in units of their standard deviation, plus those of their
//! logarithms from usual values, or from those that an earlier sweep found. `a_j` is normal, as in `fit.rs`.

use std::collections::BTreeMap;

use crate::learnt::Sharing;
use crate::search::{Aim, Residuals};

/// Jobs of one template under one cap in percent, and how many.
pub(crate) type Part = (usize, u32, f64);

/// Templates that run together.
#[derive(Debug, Clone)]
pub(crate) struct Mix {
    /// Templates, and their parts of all jobs.
    pub(crate) parts: Vec<(usize, f64)>,
    /// Seconds of start-up of a job per second of its work alone, the mean of the jobs; 0 while unknown.
    pub(crate) startup: f64,
}

/// A measured rate: template, job, cap in percent, number of the crowd (with the job), logarithm, seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    pub(crate) template: usize,
    pub(crate) job: usize,
    pub(crate) cap: u32,
    pub(crate) crowd: usize,
    pub(crate) log: f64,
    pub(crate) seconds: f64,
}

/// Usual values of `k`, `l` and `q`, with the standard deviations of their logarithms; chosen on simulated sweeps with
/// even seeds. A loss of 0.2 is nearer to the recorded ones, but then more jobs than are good start before the first
/// measurements, and cannot be taken back. Knees of 0.3 and 0.9 cost 2 % each.
const KNEE: (f64, f64) = (0.5, 0.8);
const LOSS: (f64, f64) = (0.35, 0.8);
const CONTENTION: (f64, f64) = (0.1, 0.35);
/// Standard deviation of the logarithm of the loss of two templates from the mean of their own.
const PAIR: f64 = 0.5;
/// Standard deviation of the logarithm of a parameter from its value in an earlier sweep.
const AGAIN: f64 = 0.3;
/// Standard deviation of the logarithm of a rate of [`FULL`] seconds, and the most seconds that count: rates drift, so
/// longer windows are not better.
const NOISE: f64 = 0.06;
const FULL: f64 = 20.0;
/// Bounds of the standard deviation of `a_j`.
const SPREAD: (f64, f64) = (0.02, 0.5);
/// Factors by which a parameter is changed to find a better one.
const STEPS: [f64; 4] = [0.6, 0.87, 1.15, 1.6];
/// Bounds of a parameter.
const BOUNDS: (f64, f64) = (0.01, 20.0);
/// Passes over all parameters in one fit; the next fit goes on from there.
const PASSES: usize = 2;
/// Caps to choose from, percent.
const CAPS: [u32; 13] = [100, 85, 72, 62, 53, 46, 39, 33, 28, 24, 20, 15, 10];
/// The least cap as a part of the first cap of a number. A lower one may look better before it was measured, and jobs keep
/// it to their end: eleven jobs got 10 % each, and the last of them ran under it alone.
const LEAST: f64 = 0.6;
/// Part of the number at once that the last jobs of a sweep add to those left, because they run with ever fewer beside
/// them. Geometric mean over the best fixed choice on 140 of those sweeps: 1.063 with 0.15 and 0.3, 1.079 with 0.5; the
/// worst sweep took 1.92 with 0.15 and 1.72 with 0.3 and 0.5.
const TAIL: f64 = 0.3;
/// At least this part of the jobs that run use the device: those that started together start up together.
const LEAST_WORK: f64 = 0.75;
/// A larger number, or a lower cap, must gain by this factor; 1.02 costs 1.3 % on those sweeps.
const GAIN: f64 = 1.005;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Parameter {
    Knee(usize),
    Loss(usize, usize),
    Contention,
}

/// What each of some templates costs each of them.
#[derive(Debug, Clone)]
pub(crate) struct Pairs<'a> {
    model: &'a Model,
    /// Their numbers in the model.
    templates: Vec<usize>,
    /// Loss of each (row) beside one job of each.
    pub(crate) losses: Vec<Vec<f64>>,
    pub(crate) contention: f64,
}

impl Pairs<'_> {
    /// Rate alone of the template at this position under a cap in percent, relative to none.
    pub(crate) fn capped(&self, position: usize, cap: u32) -> f64 {
        self.model.capped(self.templates[position], cap)
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    values: BTreeMap<Parameter, f64>,
    /// Values of an earlier sweep.
    earlier: BTreeMap<Parameter, f64>,
    spread: f64,
}

fn square(value: f64) -> f64 {
    value * value
}

/// The rate of a job that has the rate `own` alone and loses `lost` to its neighbours, with this sum of all caps.
pub(crate) fn beside(own: f64, lost: f64, contention: f64, caps: f64) -> f64 {
    own / ((1.0 + lost.max(0.0)) * (1.0 + contention * (caps - 2.0).max(0.0)))
}

impl Model {
    fn knee(&self, template: usize) -> f64 {
        let known = self.values.get(&Parameter::Knee(template));
        known.copied().unwrap_or(KNEE.0)
    }

    fn loss(&self, template: usize, other: usize) -> f64 {
        let known = self.values.get(&Parameter::Loss(template, other));
        known
            .copied()
            .unwrap_or_else(|| self.usual_loss(template, other))
    }

    /// Loss of a pair that was not measured.
    fn usual_loss(&self, template: usize, other: usize) -> f64 {
        let own = |at| {
            let known = self.values.get(&Parameter::Loss(at, at));
            known.copied().unwrap_or(LOSS.0)
        };
        match template == other {
            true => LOSS.0,
            false => (own(template) * own(other)).sqrt(),
        }
    }

    fn contention(&self) -> f64 {
        let known = self.values.get(&Parameter::Contention);
        known.copied().unwrap_or(CONTENTION.0)
    }

    /// Rate alone under a cap relative to none.
    fn capped(&self, template: usize, cap: u32) -> f64 {
        let (c, k) = (f64::from(cap) / 100.0, self.knee(template));
        c * ((1.0 + k * k) / (c * c + k * k)).sqrt()
    }

    /// Rate of a job in a crowd that it belongs to, relative to alone and uncapped.
    pub(crate) fn rate(&self, template: usize, cap: u32, crowd: &[Part]) -> f64 {
        let own = self.capped(template, cap);
        let mut lost = -self.loss(template, template) * own;
        let mut caps = 0.0;
        for &(other, cap, count) in crowd {
            lost += count * self.loss(template, other) * self.capped(other, cap);
            caps += count * f64::from(cap) / 100.0;
        }
        beside(own, lost, self.contention(), caps)
    }

    /// What these templates cost each other.
    pub(crate) fn pairs(&self, templates: Vec<usize>) -> Pairs<'_> {
        let losses = |one: &usize| templates.iter().map(|o| self.loss(*one, *o)).collect();
        Pairs {
            model: self,
            losses: templates.iter().map(losses).collect(),
            contention: self.contention(),
            templates,
        }
    }

    /// Sum of the rates of a crowd.
    pub(crate) fn total(&self, crowd: &[Part]) -> f64 {
        let of = |&(template, cap, count): &Part| count * self.rate(template, cap, crowd);
        crowd.iter().map(of).sum()
    }

    /// Number to keep running, cap, and mean number of these that use the device, so that jobs of a mix of which `left`
    /// are still to be done end soonest; at most `most` at once.
    pub(crate) fn best(
        &self,
        mix: &Mix,
        known: &Residuals,
        left: usize,
        most: usize,
    ) -> (usize, u32, f64) {
        let mut best = (f64::INFINITY, (1, 100, 1.0));
        for number in 1..=most.min(left.max(1)) {
            for cap in CAPS.into_iter().filter(|cap| *cap >= least_cap(number)) {
                let (turn, busy) = self.turn(mix, known, number, cap);
                let turns = left as f64 / number as f64 + TAIL;
                if turns * turn * GAIN < best.0 {
                    best = (turns * turn, (number, cap, busy));
                }
            }
        }
        best.1
    }

    /// Seconds from the start of a job to its end per second of its work alone, if `number` are kept running, and how
    /// many of these use the device: a job that starts up does not, but takes a place.
    fn turn(&self, mix: &Mix, known: &Residuals, number: usize, cap: u32) -> (f64, f64) {
        let works = |busy: f64| (-self.log_rate(mix, busy, cap) - known.at(busy)).exp();
        let mut busy = number as f64;
        // Each step halves the distance from the solution.
        for _ in 0..if mix.startup > 0.0 { 5 } else { 0 } {
            let part = (works(busy) / (mix.startup + works(busy))).max(LEAST_WORK);
            busy = (0.5 * (busy + number as f64 * part)).max(1.0);
        }
        (mix.startup + works(busy), busy)
    }

    /// Logarithm of the mean rate of `number` jobs of a mix under a cap.
    pub(crate) fn log_rate(&self, mix: &Mix, number: f64, cap: u32) -> f64 {
        let of = |(template, part): &(usize, f64)| (*template, cap, part * number);
        let crowd: Vec<Part> = mix.parts.iter().map(of).collect();
        (self.total(&crowd) / number).ln()
    }

    /// Takes the parameters of a template from an earlier sweep. `number` gives each template its number.
    pub(crate) fn recall(
        &mut self,
        template: usize,
        known: &Sharing,
        mut number: impl FnMut(&str) -> usize,
    ) {
        let losses = known
            .losses
            .iter()
            .map(|(other, loss)| (Parameter::Loss(template, number(other)), *loss));
        self.earlier.extend(losses);
        self.earlier.insert(Parameter::Knee(template), known.knee);
        self.earlier.insert(Parameter::Contention, known.contention);
        self.values.clone_from(&self.earlier);
    }

    /// The parameters of a template, for a later sweep. `names`: the names of the templates.
    pub(crate) fn sharing(&self, template: usize, names: &[String]) -> Sharing {
        let losses = self.values.iter().filter_map(|(parameter, loss)| {
            let Parameter::Loss(_, other) = parameter else {
                return None;
            };
            let own = *parameter == Parameter::Loss(template, *other);
            own.then(|| (names[*other].clone(), *loss))
        });
        Sharing {
            knee: self.knee(template),
            losses: losses.collect(),
            contention: self.contention(),
            startup: None,
            copies: 0,
            work: None,
        }
    }

    /// Fits the parameters that these measurements depend on.
    pub(crate) fn fit(&mut self, rates: &[Rate], crowds: &BTreeMap<usize, Vec<Part>>) {
        let data = Data::new(rates, crowds);
        let (mut best, mut spread) = data.cost(self);
        for _ in 0..PASSES {
            for &parameter in &data.parameters {
                let now = self.value(parameter);
                let mut kept = now;
                for step in STEPS {
                    let next = (now * step).clamp(BOUNDS.0, BOUNDS.1);
                    self.values.insert(parameter, next);
                    let (cost, seen) = data.cost(self);
                    if cost < best {
                        (best, spread, kept) = (cost, seen, next);
                    }
                }
                self.values.insert(parameter, kept);
            }
        }
        self.spread = spread;
    }

    fn value(&self, parameter: Parameter) -> f64 {
        match parameter {
            Parameter::Knee(template) => self.knee(template),
            Parameter::Loss(template, other) => self.loss(template, other),
            Parameter::Contention => self.contention(),
        }
    }

    /// Sum of squared deviations from usual values, or from earlier ones.
    fn unusual(&self) -> f64 {
        let usual = |parameter: &Parameter| match *parameter {
            Parameter::Knee(_) => KNEE,
            Parameter::Contention => CONTENTION,
            Parameter::Loss(one, other) if one == other => LOSS,
            Parameter::Loss(one, other) => (self.usual_loss(one, other), PAIR),
        };
        let all = self.values.iter().map(|(parameter, value)| {
            let earlier = self.earlier.get(parameter).map(|value| (*value, AGAIN));
            let (usual, deviation) = earlier.unwrap_or_else(|| usual(parameter));
            square((value / usual).ln() / deviation)
        });
        all.sum()
    }
}

/// A client in a crowd.
struct Cell {
    client: usize,
    /// All clients of the crowd with their numbers.
    parts: Vec<(usize, f64)>,
    /// Sum of caps.
    caps: f64,
}

/// Measurements, arranged so that what many of them share is computed once.
struct Data {
    parameters: Vec<Parameter>,
    /// Pairs of template and cap.
    clients: Vec<(usize, u32)>,
    cells: Vec<Cell>,
    /// Template of each job.
    jobs: Vec<usize>,
    /// Job, cell, logarithm of the rate, and weight.
    rates: Vec<(usize, usize, f64, f64)>,
}

fn position<T: PartialEq>(all: &mut Vec<T>, of: T) -> usize {
    all.iter().position(|one| *one == of).unwrap_or_else(|| {
        all.push(of);
        all.len() - 1
    })
}

impl Data {
    fn new(rates: &[Rate], crowds: &BTreeMap<usize, Vec<Part>>) -> Self {
        let mut data = Self {
            parameters: vec![Parameter::Contention],
            clients: Vec::new(),
            cells: Vec::new(),
            jobs: vec![0; rates.iter().map(|r| r.job + 1).max().unwrap_or(0)],
            rates: Vec::new(),
        };
        let mut known: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for rate in rates {
            let client = position(&mut data.clients, (rate.template, rate.cap));
            let crowd = &crowds[&rate.crowd];
            let cell = *known.entry((client, rate.crowd)).or_insert_with(|| {
                let caps = crowd
                    .iter()
                    .map(|(_, cap, count)| count * f64::from(*cap))
                    .sum::<f64>()
                    / 100.0;
                let parts = crowd.iter().map(|&(other, cap, count)| {
                    data.parameters.push(Parameter::Loss(rate.template, other));
                    (position(&mut data.clients, (other, cap)), count)
                });
                let parts = parts.collect();
                data.cells.push(Cell {
                    client,
                    parts,
                    caps,
                });
                data.cells.len() - 1
            });
            data.parameters.push(Parameter::Knee(rate.template));
            data.jobs[rate.job] = rate.template;
            let weight = rate.seconds.min(FULL) / FULL / square(NOISE);
            data.rates.push((rate.job, cell, rate.log, weight));
        }
        data.parameters.sort_unstable();
        data.parameters.dedup();
        data
    }

    /// Sum of squared residuals and of deviations from usual values, and the standard deviation of jobs from the mean
    /// of their template.
    fn cost(&self, model: &Model) -> (f64, f64) {
        let templates = self.clients.iter().map(|c| c.0 + 1).max().unwrap_or(0);
        let losses: Vec<f64> = (0..templates * templates)
            .map(|at| model.loss(at / templates, at % templates))
            .collect();
        let capped: Vec<f64> = (self.clients.iter())
            .map(|&(template, cap)| model.capped(template, cap))
            .collect();
        let contention = model.contention();
        let cells = self.cells.iter().map(|cell| {
            let row = self.clients[cell.client].0 * templates;
            let own = capped[cell.client];
            let loss = |other: usize| losses[row + self.clients[other].0] * capped[other];
            let lost: f64 = cell
                .parts
                .iter()
                .map(|&(other, count)| count * loss(other))
                .sum();
            beside(own, lost - loss(cell.client), contention, cell.caps)
        });
        let cells: Vec<f64> = cells.map(f64::ln).collect();
        // Of each job: weights, weighted sum of residuals, and of their squares.
        let mut sums = vec![(0.0, 0.0, 0.0); self.jobs.len()];
        for &(job, cell, log, weight) in &self.rates {
            let residual = log - cells[cell];
            let of = &mut sums[job];
            of.0 += weight;
            of.1 += weight * residual;
            of.2 += weight * square(residual);
        }
        let all = || self.jobs.iter().zip(&sums).filter(|(_, of)| of.0 > 0.0);
        let spread = square(model.spread.clamp(SPREAD.0, SPREAD.1));
        let weight = |weights: f64| 1.0 / (spread + 1.0 / weights);
        let mut means = vec![(0.0, 0.0); templates];
        for (template, (weights, sum, _)) in all() {
            let weight = weight(*weights);
            means[*template].0 += weight * sum / weights;
            means[*template].1 += weight;
        }
        let mut cost = model.unusual();
        let mut between = 0.02;
        let mut count = 2.0;
        for (template, (weights, sum, squares)) in all() {
            let mean = sum / weights;
            let away = square(mean - means[*template].0 / means[*template].1);
            cost += squares - sum * mean + weight(*weights) * away;
            between += away - 1.0 / weights;
            count += 1.0;
        }
        count -= means.iter().filter(|(_, weight)| *weight > 0.0).count() as f64;
        (cost, (between / count.max(1.0)).max(0.0).sqrt())
    }
}

fn least_cap(number: usize) -> u32 {
    (f64::from(Aim::of(number).cap) * LEAST) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rates of jobs with unlike caps, in crowds of 1 to 4, that follow this model.
    fn measured(truth: &Model) -> (Vec<Rate>, BTreeMap<usize, Vec<Part>>) {
        let caps = [62, 40, 100, 62];
        let crowd = |count: usize| caps[..count].iter().map(|cap| (0, *cap, 1.0)).collect();
        let crowds: BTreeMap<usize, Vec<Part>> = (0..4).map(|at| (at, crowd(at + 1))).collect();
        let of = |(crowd, job): (usize, usize)| Rate {
            template: 0,
            job,
            cap: caps[job],
            crowd,
            log: truth.rate(0, caps[job], &crowds[&crowd]).ln(),
            seconds: 20.0,
        };
        let all = (0..4).flat_map(|crowd| (0..=crowd).map(move |job| (crowd, job)));
        (all.map(of).collect(), crowds)
    }

    fn fitted(knee: f64, loss: f64) -> Model {
        let mut truth = Model::default();
        truth.values.insert(Parameter::Knee(0), knee);
        truth.values.insert(Parameter::Loss(0, 0), loss);
        let (rates, crowds) = measured(&truth);
        let mut model = Model::default();
        for _ in 0..10 {
            model.fit(&rates, &crowds);
        }
        model
    }

    fn mix(startup: f64) -> Mix {
        Mix {
            parts: vec![(0, 1.0)],
            startup,
        }
    }

    #[test]
    fn jobs_that_wait_for_their_host_share_with_many_and_jobs_that_fill_the_device_with_few() {
        let (waits, fills) = (fitted(0.1, 0.03), fitted(1.5, 0.9));
        let (many, low, _) = waits.best(&mix(0.0), &Residuals::default(), 200, 48);
        let (few, _, _) = fills.best(&mix(0.0), &Residuals::default(), 200, 48);
        assert!(many >= 8 && low < 50, "{many} under {low} %");
        assert!(few <= 3, "{few}");
    }

    #[test]
    fn the_last_jobs_run_with_fewer_at_once() {
        let model = fitted(0.1, 0.1);
        let number = |left| model.best(&mix(0.0), &Residuals::default(), left, 48).0;
        assert!(number(6) < number(200), "{} {}", number(6), number(200));
        assert_eq!(number(1), 1);
    }

    #[test]
    fn start_ups_hide_behind_work() {
        let model = fitted(2.0, 2.0);
        let (number, _, busy) = model.best(&mix(1.0), &Residuals::default(), 200, 48);
        assert!(
            number > model.best(&mix(0.0), &Residuals::default(), 200, 48).0,
            "{number}"
        );
        assert!(busy < number as f64, "{busy} of {number}");
    }

    #[test]
    fn a_later_sweep_begins_with_what_was_learnt() {
        let model = fitted(1.5, 0.9);
        let mut later = Model::default();
        later.recall(0, &model.sharing(0, &["a".to_owned()]), |_| 0);
        assert_eq!(
            later.best(&mix(0.0), &Residuals::default(), 200, 48),
            model.best(&mix(0.0), &Residuals::default(), 200, 48)
        );
        assert!(later.rate(0, 30, &[(0, 30, 1.0)]) < Model::default().rate(0, 30, &[(0, 30, 1.0)]));
    }
}
