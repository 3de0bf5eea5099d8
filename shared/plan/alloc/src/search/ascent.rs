use std::collections::HashMap;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use units::corun::{Setting, Throughput, shrink_to_fit};

use super::additive::Additive;
use super::point::Point;
use super::shortlist::Shortlist;
use crate::instance::Instance;
use crate::round::Guide;

/// Rounds whose transfers are ordered again: within this part of the best known, and where that gains more than
/// another, so that a climb ends.
const NEAR: f64 = 0.005;
const WORTH: f64 = 1e-6;
/// Perturbations of rounds of many tasks for each of other objectives: neighbours of a choice are ranked in a
/// tenth of the time of one that nothing is near to. With 3 two of 12 mixes of 6 and 8 tasks had rounds longer by
/// 0.1 % than with all neighbours ranked by all heuristic orders.
const ORDERED_TIMES: u32 = 6;
/// Pairs of tasks that change shares at most between two climbs of such rounds.
const DISTURBED: usize = 4;

/// Constraints first, then the objective.
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

/// Local search from many starts: shares move between two tasks or (where the sum is free) of one
/// task, batch sizes of one task or two; a step that improves is taken at once. Constraints that
/// do not hold yet are approached first. A quarter of the starts is anywhere, the others are near
/// the best point so far. Where the rates are additive the batch sizes of every
/// visited share are chosen exactly.
pub(crate) struct Ascent<'s, 'a, 'b, C: Throughput + ?Sized> {
    inst: &'a Instance<'b, C>,
    law: Option<&'s mut Additive<'a, 'b, C>>,
    list: &'s mut Shortlist,
    /// Scores, each with the value from which on it is exact.
    memo: HashMap<Point, (Score, f64)>,
    /// Room for the point of an attempt.
    next: Point,
    guide: Guide,
    /// Tasks by when they last showed that a point is no better ([`Instance::one_falls_short`]).
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
        law: Option<&'s mut Additive<'a, 'b, C>>,
        list: &'s mut Shortlist,
    ) -> Self {
        Self {
            x: vec![0.0; inst.n],
            demand: vec![0.0; inst.n],
            memo: HashMap::new(),
            next: Point::empty(),
            guide: Guide::default(),
            worst: (0..inst.n).collect(),
            points: 0,
            most_points: 0,
            inst,
            law,
            list,
        }
    }

    /// Runs all starts; returns the points looked at.
    pub fn run(mut self, tries: Tries) -> u64 {
        let sums = self.inst.sums();
        if sums.is_empty() || self.inst.batches.iter().any(Vec::is_empty) {
            return 0;
        }
        let mut rng = SmallRng::seed_from_u64(tries.seed);
        // Starts anywhere are for the region of the optimum, perturbations of the best point for what a climb
        // cannot do: its moves change two tasks at most, and an end of it may need three changed at once. A
        // quarter: of 36 searches on blends of 4 and 5 tasks with constraints that bind one ended below the best
        // known; with half anywhere it was one as well, with an eighth three, by 0.35 % at most. Where a law is
        // known none of 72 searches of 4 to 8 tasks did, with any of these.
        let anywhere = tries.starts.div_ceil(4);
        for start in 0..anywhere {
            // An equal part for every start, so that none starves the later ones; where a start of many
            // tasks is worth nothing unless it comes to an end, half of what is left.
            let left = tries.points.saturating_sub(self.points);
            let parts = match self.inst.orders_roughly() {
                true => 2,
                false => tries.starts - start,
            };
            self.most_points = self.points + left / u64::from(parts);
            // Two starts do not depend on the seed: equal shares, as a person would try them first, at a middling
            // and at the largest sum, with the largest batch sizes (see `start_batches`).
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
            // More tasks have more pairs to get stuck in, and a law answers fast. As many as asked for where
            // there are 5 tasks, then with the square of the others. Half as many and twice as many changed none
            // of those searches; twice as many that changed half the tasks at most missed the better region of a
            // constrained mix of 8 tasks.
            let others = self.inst.n as u32 - 1;
            perturbations = perturbations.saturating_mul(others * others) / 16;
        }
        if self.inst.orders_roughly() {
            perturbations = perturbations.saturating_mul(ORDERED_TIMES);
        }
        self.perturb(perturbations, &mut rng, sums.len() > 1);
        self.points
    }

    /// Climbs again from near the best point.
    fn perturb(&mut self, times: u32, rng: &mut SmallRng, sum_is_free: bool) {
        let Some((mut best, mut here)) = self.list.best().map(|(v, p)| (*v, p.clone())) else {
            return;
        };
        if self.inst.n < 2 {
            return;
        }
        let n = self.inst.n;
        for k in 0..times {
            let mut point = here.clone();
            // Every second climb of a round of many tasks begins near enough to come to an end.
            let near = self.inst.orders_roughly() && k % 2 == 0;
            let most = if near { n.min(DISTURBED) } else { n };
            for _ in 0..rng.random_range(1..=most) {
                self.disturb(&mut point, rng);
            }
            let score = self.climb(&mut point, sum_is_free);
            // Equal ones, too: more share than a task can use changes nothing, and only who walks on over such
            // a plateau comes to its other side.
            if score.violation == 0.0 && score.value >= best {
                (best, here) = (score.value, point);
            }
        }
    }

    /// Moves some share from one task to another, and changes a batch size. The sum of the shares stays as it
    /// is, since it may be prescribed; where it is free the climb that follows moves it.
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

    /// Whether the best batch sizes of any shares are worked out rather than searched for.
    fn batches_follow(&self) -> bool {
        self.law.as_ref().is_some_and(|law| law.table.batch_free)
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

    /// Takes the batch sizes of a start down until it fits into memory. A climb from above would
    /// first try all moves of shares, which free none: of 64 tasks more than a start may look at.
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
            // From large steps to single levels. Shares are rounded to whole processors, so that a small step
            // from a start often changes nothing and a climb would end there; once one level does not help
            // either, the shares are a local optimum. On the searches of [`Ascent::run`] a first step of half the
            // levels missed two of 36, an eighth three, by up to 0.67 %.
            let mut delta = (self.inst.levels / 4).max(1);
            loop {
                self.share_moves(point, &mut score, delta, sum_is_free);
                if delta == 1 {
                    break;
                }
                delta /= 2;
            }
            // Neighbourhoods by cost, the dearer ones only where the cheaper have nothing left: `n` sizes at a
            // time, then pairs of sizes, then each size with each exchange of shares.
            if !self.batches_follow() {
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

    /// Orders the transfers of a point that no change improves anew; whether that helps.
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

    /// Batch sizes of two tasks or of all at once, where constraints tie them together.
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

    /// A batch size together with the share that it needs or leaves, where a floor ties them.
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

    /// All batch sizes one up or one down: keeps their proportions where they are powers of two.
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

    /// Makes a change if it improves the score.
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
        let got = self.score(next, *score);
        if got.beats(*score) {
            *score = got;
            self.guide.follow();
            std::mem::swap(point, next);
        }
    }

    /// Score of a point, in the additive case with the best batch sizes at its levels; one that
    /// does not beat `current` may be reported as worst.
    fn score(&mut self, point: &mut Point, current: Score) -> Score {
        match self.law.as_deref_mut() {
            None => self.score_any(point, current),
            Some(law) if !law.table.batch_free => {
                self.points += 1;
                // Constraints take longer to judge, and most points are no better. From a feasible point nothing
                // is lost so: a point that is worth less is refused whether it keeps them or not.
                if current.violation == 0.0 {
                    let value = law.table.value_at(point, &mut self.demand, &mut self.x);
                    if value <= current.value {
                        return Score::WORST;
                    }
                } else {
                    law.table.rates(&point.batch, &point.level, &mut self.x);
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
            Some(law) => {
                self.points += 1;
                law.table.interference(&point.level, &mut self.x);
                let met = current.violation == 0.0;
                let cutoff = if met {
                    current.value
                } else {
                    f64::NEG_INFINITY
                };
                if let Some(value) = law.best_at(&point.level, &self.x, cutoff) {
                    point.batch.copy_from_slice(law.picks());
                    self.list.offer(value, point);
                    return Score {
                        violation: 0.0,
                        value,
                    };
                }
                if met {
                    return Score::WORST;
                }
                Score {
                    violation: law.violation(&point.level, &self.x),
                    value: f64::NEG_INFINITY,
                }
            }
        }
    }

    fn score_any(&mut self, point: &Point, current: Score) -> Score {
        // From a feasible point only better ones are of interest, and to the list, those that it lacks.
        let cutoff = if current.violation == 0.0 {
            current.value.min(self.list.cutoff())
        } else {
            f64::NEG_INFINITY
        };
        // What was cut off says no more than "not above the cutoff that it was judged by". That answers every
        // question with this cutoff or a higher one; for a lower one the point is judged again.
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

/// Zero is no level and makes the change invalid.
fn lower(p: &mut Point, i: usize, by: u16) {
    p.level[i] = p.level[i].saturating_sub(by);
}
