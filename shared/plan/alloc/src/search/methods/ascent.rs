use std::collections::HashMap;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use units::corun::{Setting, Throughput, shrink_to_fit};

use super::additive::Additive;
use super::effects::Effects;
use super::shortlist::Shortlist;
use crate::problem::round::Guide;
use crate::search::instance::Instance;
use crate::search::point::Point;

/// When a climb ends on a round within `NEAR` of the best known, its transfers are ordered again; the climb
/// continues only if that gains more than `WORTH`, so it terminates.
const NEAR: f64 = 0.005;
const WORTH: f64 = 1e-6;
/// For rounds of many tasks, perturb this many times as often as for other objectives: there a neighbour takes a
/// tenth of the time, because its transfers start from the order of the current point. With 3, two of 12 mixes of
/// 6 and 8 tasks had rounds longer by 0.1 % than when all heuristic orders were tried for every neighbour.
const ORDERED_TIMES: u32 = 6;
/// Before every second climb of such rounds, at most this many pairs of tasks change shares.
const DISTURBED: usize = 4;
/// Maximum number of perturbations that are still evaluated when a search for such a round has used all its points. No
/// climb follows, but each evaluation tries all heuristic orders, which takes as long as many neighbours. 16 starts
/// have only 72 perturbations. The 1,152 of 256 starts took as long as the whole search before them: a round of 16
/// tasks took 3.2 CPU seconds. With this limit it took 2.3 for the same round, and with a limit of 300 it took 1.9 for
/// a round that is 0.18 % longer.
const LAST_LOOKS: u64 = 600;
/// From this number of tasks on, a change of two tasks is first judged by [`Effects`]. For 8 models of 12 and 16 tasks,
/// the best max-min value stayed exactly the same in six tenths of the time, and for 3 of them the best fairness in a
/// quarter of the time. Of 8 rounds, 3 were the same, and the others 0.006 % shorter to 0.17 % longer (0.02 % on
/// average).
const SCREENED_TASKS: usize = 9;
/// This number of rejected changes counts as one point of a search for a round. With each counted as a whole point, the
/// rounds of the same models were 0.14 % longer on average.
const SCREENED: u64 = 3;

/// Compared by violation first, then by the objective.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Score {
    violation: f64,
    value: f64,
}

impl Score {
    const WORST: Score = Score {
        violation: f64::INFINITY,
        value: f64::NEG_INFINITY,
    };

    fn beats(self, other: Score) -> bool {
        if self.violation == other.violation {
            self.value > other.value + 1e-12 * other.value.abs()
        } else {
            self.violation < other.violation
        }
    }
}

/// Local search from many starts. A move shifts share between two tasks, changes the share of one task if the sum is
/// free, or changes the batch size of one or two tasks; the first improvement is taken. While constraints are violated,
/// less violation is better. A quarter of the starts are random, the others perturb the best point so far.
pub(crate) struct Ascent<'s, 'a, 'b, C: Throughput + ?Sized> {
    inst: &'a Instance<'b, C>,
    law: Option<&'s Additive<'a, 'b, C>>,
    list: &'s mut Shortlist,
    /// Scores of visited points, each with the lowest cutoff for which it is valid.
    memo: HashMap<Point, (Score, f64)>,
    /// Buffer for the point under trial, to avoid an allocation for each.
    next: Point,
    guide: Guide,
    effects: Effects,
    /// Number of changes that were rejected without predicting them.
    screened: u64,
    /// Tasks, most recent first, that showed that a point is no better ([`Instance::one_falls_short`]).
    worst: Vec<usize>,
    x: Vec<f64>,
    demand: Vec<f64>,
    points: u64,
    most_points: u64,
}

/// How much to try.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tries {
    pub starts: u32,
    pub points: u64,
    pub seed: u64,
}

impl<'s, 'a, 'b, C: Throughput + ?Sized> Ascent<'s, 'a, 'b, C> {
    pub fn new(
        inst: &'a Instance<'b, C>,
        law: Option<&'s Additive<'a, 'b, C>>,
        list: &'s mut Shortlist,
    ) -> Self {
        Self {
            x: vec![0.0; inst.n],
            demand: vec![0.0; inst.n],
            memo: HashMap::new(),
            next: Point::empty(),
            guide: Guide::default(),
            effects: Effects::default(),
            screened: 0,
            worst: (0..inst.n).collect(),
            points: 0,
            most_points: 0,
            inst,
            law,
            list,
        }
    }

    /// Runs all starts; returns the number of points evaluated.
    pub fn run(mut self, tries: Tries) -> u64 {
        let sums = self.inst.sums();
        if sums.is_empty() || self.inst.batches.iter().any(Vec::is_empty) {
            return 0;
        }
        let mut rng = SmallRng::seed_from_u64(tries.seed);
        // Random starts find the region of the optimum. Perturbing the best point escapes local optima: a move changes
        // at most two tasks, and an improvement may need three changed at once. The quarter was chosen on 36 searches
        // on blends of 4 and 5 tasks with binding constraints: one ended below the best known; with half of the starts
        // random, also one; with an eighth, three, by 0.35 % at most. With a law (additive rates), none of 72 searches
        // of 4 to 8 tasks did, at any of these fractions.
        let anywhere = tries.starts.div_ceil(4);
        for start in 0..anywhere {
            // Divide the remaining points equally among the remaining starts, so that no start starves the later ones.
            // For rounds of many tasks a climb that is cut short is worthless, so each start may use half of the
            // remaining points.
            let left = tries.points.saturating_sub(self.points);
            // A climb without points only evaluates its start; perturbations of the best point are worth more.
            if start > 0 && left == 0 && self.inst.orders_roughly() {
                break;
            }
            let parts = match self.inst.orders_roughly() {
                true => 2,
                false => tries.starts - start,
            };
            self.most_points = self.points + left / u64::from(parts);
            // Two starts do not depend on the seed: equal shares, which a person would try first, at the median and at
            // the largest sum, with the largest batch sizes (see `start_batches`).
            let sum = match start {
                0 => sums[sums.len() / 2],
                1 => sums[sums.len() - 1],
                _ => sums[rng.random_range(0..sums.len())],
            };
            let mut point = Point {
                batch: self.start_batches(start, &mut rng),
                level: if start < 2 {
                    self.equal_levels(sum)
                } else {
                    self.random_levels(sum, &mut rng)
                },
            };
            self.shrink(&mut point);
            self.climb(&mut point, sums.len() > 1);
        }
        self.most_points = tries.points;
        let mut perturbations = tries.starts - anywhere;
        if self.law.is_some() {
            // With more tasks, more pairs of them can get stuck, and a law is cheap to evaluate, so perturb more often:
            // in proportion to the square of the number of other tasks, scaled to the requested number for 5 tasks (4
            // others, hence 16). Half or twice as many perturbations changed none of these searches; twice as many,
            // each changing at most half of the tasks, missed the better region of a constrained mix of 8 tasks.
            let others = self.inst.n as u32 - 1;
            perturbations = perturbations.saturating_mul(others * others) / 16;
        }
        if self.inst.orders_roughly() {
            perturbations = perturbations.saturating_mul(ORDERED_TIMES);
        }
        self.perturb(perturbations, &mut rng, sums.len() > 1);
        self.points
    }

    /// Climbs again from perturbations of the best point.
    fn perturb(&mut self, times: u32, rng: &mut SmallRng, sum_is_free: bool) {
        let Some((mut best, mut here)) = self.list.best().map(|(v, p)| (*v, p.clone())) else {
            return;
        };
        if self.inst.n < 2 {
            return;
        }
        let n = self.inst.n;
        for k in 0..times {
            if self.inst.orders_roughly() && self.points >= self.most_points + LAST_LOOKS {
                return;
            }
            let mut point = here.clone();
            // For rounds of many tasks, start every second climb so close to the best point that it can finish within
            // its points.
            let near = self.inst.orders_roughly() && k % 2 == 0;
            let most = if near { n.min(DISTURBED) } else { n };
            for _ in 0..rng.random_range(1..=most) {
                self.disturb(&mut point, rng);
            }
            let score = self.climb(&mut point, sum_is_free);
            // Accept ties: more share than a task can use changes nothing, and only a walk across such a
            // plateau reaches its other side.
            if score.violation == 0.0 && score.value >= best {
                (best, here) = (score.value, point);
            }
        }
    }

    /// Moves a random part of one task's share to another task, and changes one batch size. The sum of the shares
    /// stays, because it may be prescribed; if it is free, the following climb can change it.
    fn disturb(&self, point: &mut Point, rng: &mut SmallRng) {
        let n = self.inst.n;
        let from = rng.random_range(0..n);
        let to = (from + rng.random_range(1..n)) % n;
        let most = (point.level[from] - 1).min(self.inst.levels - point.level[to]);
        let by = rng.random_range(0..=most);
        lower(point, from, by);
        raise(point, to, by);
        let i = rng.random_range(0..n);
        let b = rng.random_range(0..self.inst.batches[i].len()) as u8;
        if self.inst.same {
            point.batch.fill(b);
        } else {
            point.batch[i] = b;
        }
    }

    /// Whether to try moves of batch sizes. If no task has a choice, they only repeat moves of shares; with a law, that
    /// changes no result and takes a quarter longer.
    fn moves_batches(&self) -> bool {
        self.law.is_none() || self.inst.batches.iter().any(|list| list.len() > 1)
    }

    fn start_batches(&self, start: u32, rng: &mut SmallRng) -> Vec<u8> {
        let lists = &self.inst.batches;
        if start < 2 {
            return lists.iter().map(|l| (l.len() - 1) as u8).collect();
        }
        if self.inst.same {
            return vec![rng.random_range(0..lists[0].len()) as u8; lists.len()];
        }
        lists
            .iter()
            .map(|l| rng.random_range(0..l.len()) as u8)
            .collect()
    }

    /// Reduces the batch sizes of a start until they fit into memory. A climb from an infeasible
    /// start would first try all moves of shares, which free no memory: with 64 tasks these alone
    /// exceed the points of a start.
    fn shrink(&self, point: &mut Point) {
        if self.inst.same || self.inst.capacity.is_infinite() {
            return;
        }
        let tasks = &self.inst.problem.tasks;
        let need = |s: &Setting| tasks[s.task].memory.map_or(0.0, |m| m.at(s.batch));
        let mut settings = self.inst.settings(point);
        shrink_to_fit(&mut settings, &self.inst.batches, need, self.inst.capacity);
        if let Some(smaller) = self.inst.point_of(&settings) {
            *point = smaller;
        }
    }

    fn equal_levels(&self, sum: u32) -> Vec<u16> {
        let n = self.inst.n as u32;
        (0..n)
            .map(|i| (sum / n + u32::from(i < sum % n)) as u16)
            .collect()
    }

    fn random_levels(&self, sum: u32, rng: &mut SmallRng) -> Vec<u16> {
        let n = self.inst.n;
        let most = u32::from(self.inst.levels);
        let mut left = sum;
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, rng.random_range(0..=i));
        }
        let mut levels = vec![1; n];
        for (at, &i) in order.iter().enumerate() {
            let rest = (n - 1 - at) as u32;
            let from = left.saturating_sub(rest * most).max(1);
            let to = most.min(left - rest);
            let level = rng.random_range(from..=to);
            levels[i] = level as u16;
            left -= level;
        }
        levels
    }

    fn climb(&mut self, point: &mut Point, sum_is_free: bool) -> Score {
        let mut score = self.score(point, Score::WORST);
        self.guide.follow();
        loop {
            let before = score;
            self.effects.forget();
            // Halve the step from a quarter of the levels down to one level. Shares are rounded to whole
            // processors, so a small step at the start often changes nothing and the climb would stop; once a
            // single level does not help either, the shares are a local optimum. In the searches of
            // [`Ascent::run`], starting at half of the levels missed the best known in two of 36, at an eighth in
            // three, by up to 0.67 %.
            let mut delta = (self.inst.levels / 4).max(1);
            loop {
                self.share_moves(point, &mut score, delta, sum_is_free);
                if delta == 1 {
                    break;
                }
                delta /= 2;
            }
            // Try neighbourhoods in order of cost, each only after the cheaper ones are exhausted: single batch sizes,
            // then pairs, then a batch size combined with an exchange of shares.
            if self.moves_batches() {
                self.batch_moves(point, &mut score);
                if !score.beats(before) {
                    self.joint_batch_moves(point, &mut score);
                }
                if !score.beats(before) {
                    self.moves_of_both(point, &mut score, sum_is_free);
                }
            }
            if self.points >= self.most_points {
                return score;
            }
            if !score.beats(before) && !self.reorder(point, &mut score) {
                return score;
            }
        }
    }

    /// At a local optimum, improves the order of the transfers; returns whether the round became shorter by more than
    /// [`WORTH`].
    fn reorder(&mut self, point: &Point, score: &mut Score) -> bool {
        let best = self.list.best().map_or(f64::NEG_INFINITY, |b| b.0);
        if score.violation > 0.0 || score.value < best - NEAR * best.abs() {
            return false;
        }
        self.guide.forget();
        let value = self.inst.reordered_value(point, &mut self.guide);
        let Some(value) = value.filter(|v| *v > score.value + WORTH * score.value.abs()) else {
            return false;
        };
        score.value = value;
        self.guide.follow();
        self.list.offer(value, point);
        self.memo.insert(point.clone(), (*score, f64::NEG_INFINITY));
        true
    }

    fn share_moves(&mut self, point: &mut Point, score: &mut Score, delta: u16, free: bool) {
        let n = self.inst.n;
        for i in 0..n {
            if free {
                self.attempt(point, score, |p| raise(p, i, delta));
                self.attempt(point, score, |p| lower(p, i, delta));
            }
            for j in 0..n {
                if i != j {
                    self.attempt(point, score, |p| {
                        lower(p, i, delta);
                        raise(p, j, delta);
                    });
                }
            }
        }
    }

    fn batch_moves(&mut self, point: &mut Point, score: &mut Score) {
        let n = self.inst.n;
        let count = |i: usize| self.inst.batches[i].len() as u8;
        let counts: Vec<u8> = (0..n).map(count).collect();
        if self.inst.same {
            for b in 0..counts[0] {
                self.attempt(point, score, |p| p.batch.fill(b));
            }
            return;
        }
        for (i, &count) in counts.iter().enumerate() {
            for b in 0..count {
                self.attempt(point, score, |p| p.batch[i] = b);
            }
        }
    }

    /// Changes the batch sizes of two tasks or of all at once, if a constraint (mismatch or memory) couples them.
    fn joint_batch_moves(&mut self, point: &mut Point, score: &mut Score) {
        if self.inst.same || (self.inst.epsilon.is_infinite() && self.inst.capacity.is_infinite()) {
            return;
        }
        let count = |i: usize| self.inst.batches[i].len() as u8;
        let counts: Vec<u8> = (0..self.inst.n).map(count).collect();
        for i in 0..counts.len() {
            for j in 0..i {
                for b in 0..counts[i] {
                    for c in 0..counts[j] {
                        self.attempt(point, score, |p| {
                            p.batch[i] = b;
                            p.batch[j] = c;
                        });
                    }
                }
            }
        }
        self.scale_batches(point, score);
    }

    /// Changes a batch size together with the share that it needs or frees, for example if a floor couples them.
    fn moves_of_both(&mut self, point: &mut Point, score: &mut Score, free: bool) {
        if self.inst.same {
            return;
        }
        let n = self.inst.n;
        for i in 0..n {
            for b in 0..self.inst.batches[i].len() as u8 {
                let mut delta = 1;
                while delta <= self.inst.levels / 2 {
                    if free {
                        self.attempt(point, score, |p| {
                            p.batch[i] = b;
                            raise(p, i, delta);
                        });
                    }
                    for j in (0..n).filter(|&j| j != i) {
                        self.attempt(point, score, |p| {
                            p.batch[i] = b;
                            raise(p, i, delta);
                            lower(p, j, delta);
                        });
                        self.attempt(point, score, |p| {
                            p.batch[i] = b;
                            lower(p, i, delta);
                            raise(p, j, delta);
                        });
                    }
                    delta *= 2;
                }
            }
        }
    }

    /// Increases or decreases all batch sizes by one step, which keeps their proportions if they are powers of two.
    fn scale_batches(&mut self, point: &mut Point, score: &mut Score) {
        for up in [true, false] {
            self.attempt(point, score, |p| {
                for b in &mut p.batch {
                    *b = if up {
                        b.wrapping_add(1)
                    } else {
                        b.wrapping_sub(1)
                    };
                }
            });
        }
    }

    /// Applies a change if it improves the score.
    fn attempt(&mut self, point: &mut Point, score: &mut Score, change: impl Fn(&mut Point)) {
        if self.points >= self.most_points {
            return;
        }
        let mut next = std::mem::replace(&mut self.next, Point::empty());
        next.clone_from(point);
        change(&mut next);
        self.judge_change(point, score, &mut next);
        self.next = next;
    }

    fn judge_change(&mut self, point: &mut Point, score: &mut Score, next: &mut Point) {
        let levels_fit = next
            .level
            .iter()
            .all(|&l| (1..=self.inst.levels).contains(&l));
        let batches_fit = next
            .batch
            .iter()
            .zip(&self.inst.batches)
            .all(|(&b, list)| usize::from(b) < list.len());
        if !levels_fit || !batches_fit || next == point {
            return;
        }
        if self.seems_worse(point, *score, next) {
            return;
        }
        let got = self.score(next, *score);
        if got.beats(*score) {
            *score = got;
            self.guide.follow();
            std::mem::swap(point, next);
        }
    }

    /// Whether a change of two tasks seems to be no improvement, judged by the effect of each change alone
    /// ([`Effects`]). Only with many tasks.
    fn seems_worse(&mut self, point: &Point, score: Score, next: &Point) -> bool {
        if self.law.is_some() || self.inst.n < SCREENED_TASKS || score.violation > 0.0 {
            return false;
        }
        let cutoff = score.value.min(self.list.cutoff());
        let (guide, worst) = (&self.guide, self.worst.as_slice());
        let short = self
            .effects
            .fall_short(self.inst, point, next, cutoff, guide, worst);
        // Simulating a round at extrapolated rates takes about a third of the time of one with predicted rates.
        self.screened += u64::from(short);
        self.points +=
            u64::from(short && (!self.inst.is_round() || self.screened.is_multiple_of(SCREENED)));
        short
    }

    /// Score of a point; may be the worst score if the point does not beat `current`.
    fn score(&mut self, point: &Point, current: Score) -> Score {
        let Some(law) = self.law else {
            return self.score_any(point, current);
        };
        self.points += 1;
        // Constraints are more expensive than the value, and most points are no better, so compare the
        // value first. This is safe from a feasible point: a point of lower value is rejected whether or
        // not it is feasible.
        if current.violation == 0.0 {
            let value = law.value_at(point, &mut self.demand, &mut self.x);
            if value <= current.value {
                return Score::WORST;
            }
        } else {
            law.rates(&point.batch, &point.level, &mut self.x);
        }
        let judged = self.inst.judge(point, &self.x);
        let score = Score {
            violation: judged.violation,
            value: judged.value,
        };
        if score.violation == 0.0 {
            self.list.offer(score.value, point);
        }
        score
    }

    fn score_any(&mut self, point: &Point, current: Score) -> Score {
        // From a feasible point only better points matter, or points that the shortlist still lacks.
        let cutoff = if current.violation == 0.0 {
            current.value.min(self.list.cutoff())
        } else {
            f64::NEG_INFINITY
        };
        // A score cut off at some cutoff only says "not above this cutoff". It answers queries with the same
        // or a higher cutoff; for a lower one the point is evaluated again.
        match self.memo.get(point) {
            Some(&(known, exact_from)) if known.value.is_finite() || exact_from <= cutoff => {
                return known;
            }
            Some(_) => {}
            None => self.points += 1,
        }
        self.guide.forget();
        let score = match self.inst.one_falls_short(point, cutoff, &mut self.worst) {
            true => Score {
                violation: 0.0,
                value: f64::NEG_INFINITY,
            },
            false => {
                let (_, judged) = self.inst.look_above(point, cutoff, Some(&mut self.guide));
                Score {
                    violation: judged.violation,
                    value: judged.value,
                }
            }
        };
        if score.violation == 0.0 {
            self.list.offer(score.value, point);
        }
        let exact_from = if score.violation == 0.0 {
            cutoff
        } else {
            f64::NEG_INFINITY
        };
        self.memo.insert(point.clone(), (score, exact_from));
        score
    }
}

fn raise(p: &mut Point, i: usize, by: u16) {
    p.level[i] = p.level[i].saturating_add(by);
}

/// Level 0 is invalid, so `attempt` rejects the change.
fn lower(p: &mut Point, i: usize, by: u16) {
    p.level[i] = p.level[i].saturating_sub(by);
}
