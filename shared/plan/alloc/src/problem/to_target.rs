//! The time to target of a choice ([`crate::problem::progress`]).

use doc::ObjectiveKind;
use units::Samples;
use units::corun::{Setting, Throughput};

use crate::problem::Problem;
use crate::problem::compute::finish;
use crate::problem::progress::{Phase, active, phases, times};

impl Problem {
    /// The phases of a choice.
    pub(crate) fn phases(&self, settings: &[Setting]) -> Vec<Phase> {
        let rounds = settings
            .iter()
            .zip(&self.tasks)
            .map(|(s, t)| t.progress.rounds_at(s.batch));
        phases(&rounds.collect::<Vec<_>>())
    }

    /// Objective from the times to target: the weighted mean, or the last.
    pub(crate) fn joined_times(&self, times: &[f64]) -> f64 {
        match self.objective {
            ObjectiveKind::ProgressLast => times.iter().copied().fold(0.0, f64::max),
            _ => {
                let parts = self.tasks.iter().zip(times);
                parts.map(|(t, time)| t.progress.part * time).sum()
            }
        }
    }

    /// Seconds of the objective at a choice, given a function for the length of a round of some of its settings;
    /// `None` if that returns none.
    pub(crate) fn seconds_to_target(
        &self,
        settings: &[Setting],
        mut length: impl FnMut(&[usize], &[Setting]) -> Option<f64>,
    ) -> Option<f64> {
        Some(self.joined_times(&self.times_to_target(settings, &mut length)?))
    }

    /// Seconds until each task reaches its target; otherwise like [`Problem::seconds_to_target`].
    pub(crate) fn times_to_target(
        &self,
        settings: &[Setting],
        length: &mut impl FnMut(&[usize], &[Setting]) -> Option<f64>,
    ) -> Option<Vec<f64>> {
        let phases = self.phases(settings);
        let lengths: Option<Vec<f64>> = phases
            .iter()
            .map(|phase| length(&phase.active, &active(settings, phase)))
            .collect();
        Some(times(&phases, &lengths?, settings.len()))
    }

    /// Length of a round of the tasks at these positions in the best order that is found; `None` if one makes no
    /// progress. Rates are `deviations` standard deviations above their means; the order is the best for the means.
    pub(crate) fn round_of<C: Throughput + ?Sized>(
        &self,
        rates: &C,
        places: &[usize],
        settings: &[Setting],
        deviations: f64,
    ) -> Option<f64> {
        let Some(round) = &self.round else {
            return finish(rates, settings, &self.work(places), deviations);
        };
        let part = round.restricted(places)?;
        let played = part.played(rates, settings).ok()?;
        if deviations == 0.0 {
            return Some(played.schedule.makespan_s);
        }
        part.shifted(rates, settings, &played, deviations).ok()
    }

    /// Like [`Problem::round_of`] at the mean rates, in the order by which choices are ranked. With up to 3 tasks
    /// this is the best order; with more, it takes a hundredth of the time.
    pub(crate) fn ranked_round_of<C: Throughput + ?Sized>(
        &self,
        rates: &C,
        places: &[usize],
        settings: &[Setting],
    ) -> Option<f64> {
        let Some(round) = &self.round else {
            return finish(rates, settings, &self.work(places), 0.0);
        };
        let seconds = round.restricted(places)?.rank_alone(rates, settings);
        Some(seconds).filter(|s| s.is_finite())
    }

    /// Length of a round of the tasks at these positions if they use the device one after another, each at its batch
    /// size.
    pub(crate) fn serial_round_of<C: Throughput + ?Sized>(
        &self,
        rates: &C,
        places: &[usize],
        settings: &[Setting],
    ) -> Option<f64> {
        let solo: Vec<f64> = settings
            .iter()
            .map(|s| rates.solo(s.task, s.batch))
            .collect();
        if !solo.iter().all(|s| s.is_finite() && *s > 0.0) {
            return None;
        }
        match &self.round {
            Some(round) => Some(round.restricted(places)?.one_after_another(&solo)),
            None => {
                let work = self.work(places);
                Some(work.iter().zip(&solo).map(|(work, s)| work / s).sum())
            }
        }
    }

    /// Samples per round of the tasks at these positions.
    pub(crate) fn work(&self, places: &[usize]) -> Vec<f64> {
        let samples = |&i: &usize| self.tasks[i].samples.map_or(1.0, Samples::as_f64);
        places.iter().map(samples).collect()
    }
}
