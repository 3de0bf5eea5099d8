//! When the jobs that are left would end, by the model of jobs that share a GPU.

use crate::model::{Pairs, beside};

/// Weight of the mean end of all jobs beside the end of the last one: often the last one is settled, as it runs on a slow
/// device already.
const MEAN: f64 = 0.5;
/// Seconds that do not count.
const LEAST: f64 = 1e-9;

/// A job that runs or starts on a card.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    /// Number of its template, the same for all cards.
    pub(crate) template: usize,
    /// Cap in percent.
    pub(crate) cap: u32,
    /// Seconds until it uses the card.
    pub(crate) startup: f64,
    /// Seconds of work alone that remain.
    pub(crate) alone: f64,
}

#[derive(Debug, Clone, Copy)]
struct Client {
    work: Work,
    /// Rate under its cap without neighbours, and with them, relative to alone.
    own: f64,
    rate: f64,
}

/// A card with its jobs.
#[derive(Debug, Clone)]
pub(crate) struct Card<'a> {
    /// A new job of each template.
    pub(crate) new: Vec<Work>,
    /// Largest number of jobs at once.
    pub(crate) most: usize,
    pairs: Pairs<'a>,
    jobs: Vec<Client>,
}

impl<'a> Card<'a> {
    /// A card without jobs.
    pub(crate) const fn new(new: Vec<Work>, most: usize, pairs: Pairs<'a>) -> Self {
        Self {
            new,
            most,
            pairs,
            jobs: Vec::new(),
        }
    }

    /// Adds a job.
    pub(crate) fn add(&mut self, work: Work) {
        let own = self.pairs.capped(work.template, work.cap);
        let rate = 0.0;
        self.jobs.push(Client { work, own, rate });
        self.share();
    }

    /// Number of jobs.
    pub(crate) const fn running(&self) -> usize {
        self.jobs.len()
    }

    /// Sets the rates of its jobs.
    fn share(&mut self) {
        let mut loads = vec![0.0; self.new.len()];
        let mut caps = 0.0;
        for job in self.jobs.iter().filter(|job| job.work.startup <= LEAST) {
            loads[job.work.template] += job.own;
            caps += f64::from(job.work.cap) / 100.0;
        }
        for job in &mut self.jobs {
            let losses = &self.pairs.losses[job.work.template];
            let all: f64 = losses.iter().zip(&loads).map(|(l, load)| l * load).sum();
            let lost = all - losses[job.work.template] * job.own;
            job.rate = beside(job.own, lost, self.pairs.contention, caps);
        }
    }

    /// Seconds to the next end of a job or of a start-up.
    fn next(&self) -> f64 {
        let of = |job: &Client| match job.work.startup > LEAST {
            true => job.work.startup,
            false => job.work.alone / job.rate,
        };
        self.jobs.iter().map(of).fold(f64::INFINITY, f64::min)
    }

    /// Goes on for so many seconds; returns how many jobs end.
    fn go_on(&mut self, seconds: f64) -> usize {
        for job in &mut self.jobs {
            match job.work.startup > LEAST {
                true => job.work.startup -= seconds,
                false => job.work.alone -= seconds * job.rate,
            }
        }
        let before = self.jobs.len();
        self.jobs
            .retain(|job| job.work.startup > LEAST || job.work.alone > LEAST);
        self.share();
        before - self.jobs.len()
    }

    /// Seconds that a new job of a template would take here if all others ran on.
    fn takes(&self, template: usize) -> f64 {
        let mut with = self.clone();
        let new = self.new[template];
        with.add(Work {
            startup: 0.0,
            ..new
        });
        let rate = with.jobs.last().map_or(1.0, |job| job.rate);
        new.startup + new.alone / rate
    }
}

/// The end of the last job plus [`MEAN`] of the mean end, in seconds from now, if those that wait, given by their
/// templates, start in this order as soon as a card has a place, where they end soonest.
pub(crate) fn ends(mut cards: Vec<Card<'_>>, waiting: &[usize]) -> f64 {
    let mut waiting = waiting.iter().copied().peekable();
    let (mut now, mut sum, mut count) = (0.0, 0.0, 0_usize);
    loop {
        while let Some(&template) = waiting.peek() {
            let free = cards.iter_mut().filter(|card| card.running() < card.most);
            let times = free.map(|card| (card.takes(template), card));
            let Some((_, card)) = times.min_by(|a, b| a.0.total_cmp(&b.0)) else {
                break;
            };
            card.add(card.new[template]);
            waiting.next();
        }
        let step = cards.iter().map(Card::next).fold(f64::INFINITY, f64::min);
        if step.is_infinite() {
            return match waiting.peek() {
                Some(_) => f64::INFINITY,
                None => now + MEAN * sum / count.max(1) as f64,
            };
        }
        now += step;
        let ended: usize = cards.iter_mut().map(|card| card.go_on(step)).sum();
        (sum, count) = (sum + ended as f64 * now, count + ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;

    fn card(model: &Model, alone: f64, most: usize) -> Card<'_> {
        let new = Work {
            template: 0,
            cap: 100,
            startup: 0.0,
            alone,
        };
        Card::new(vec![new], most, model.pairs(vec![0]))
    }

    #[test]
    fn one_job_after_another() {
        let model = Model::default();
        // Ends at 10, 20 and 30 s.
        let seconds = ends(vec![card(&model, 10.0, 1)], &[0, 0, 0]);
        assert!((seconds - (30.0 + MEAN * 20.0)).abs() < 1e-6, "{seconds}");
        assert!(ends(vec![card(&model, 10.0, 0)], &[0]).is_infinite());
    }

    #[test]
    fn jobs_start_up_while_others_work_and_slow_each_other_down() {
        let model = Model::default();
        let mut two = card(&model, 10.0, 2);
        two.new[0].startup = 3.0;
        let together = ends(vec![two], &[0, 0]);
        let rate = model.rate(0, 100, &[(0, 100, 2.0)]);
        let end = 3.0 + 10.0 / rate;
        assert!((together - (1.0 + MEAN) * end).abs() < 1e-6, "{together}");
    }

    #[test]
    fn the_last_job_ends_sooner_if_it_waits_for_a_fast_card() {
        let model = Model::default();
        let mut fast = card(&model, 10.0, 1);
        fast.add(fast.new[0]);
        let slow = |most| card(&model, 100.0, most);
        let wait = ends(vec![fast.clone(), slow(0)], &[0]);
        let start = ends(vec![fast, slow(1)], &[0]);
        assert!(wait < start, "{wait} {start}");
    }
}
