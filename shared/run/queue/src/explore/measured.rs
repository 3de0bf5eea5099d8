//! What was measured of jobs that run and of those that have ended.

use crate::fit::Seen;
use crate::meter::{At, Meter};

use super::Explorer;

/// Weight of a whole run in a fit, as seconds of measurement, where runs are compared because there are no rates.
const RUN: f64 = 20.0;

/// A measured rate of a job.
pub(super) struct Measured<'a> {
    pub(super) template: &'a str,
    pub(super) job: usize,
    pub(super) cap: u32,
    pub(super) at: At,
    /// Logarithm of the rate.
    pub(super) log: f64,
    pub(super) seconds: f64,
}

/// A job that runs or has ended lately.
pub(super) struct Job<'a> {
    pub(super) template: &'a str,
    pub(super) cap: u32,
    pub(super) meter: &'a Meter,
    /// Its work in total, if that is known.
    pub(super) of: Option<f64>,
    /// As in [`super::Past::run`].
    run: Option<(At, f64)>,
}

impl Explorer {
    /// The jobs that run, then those that have ended lately.
    pub(super) fn jobs(&self) -> impl Iterator<Item = Job<'_>> {
        let running = self.runners.values().map(|r| Job {
            template: &r.template,
            cap: r.cap,
            meter: &r.meter,
            of: r.of,
            run: None,
        });
        let ended = self.ended.iter().map(|p| Job {
            template: &p.template,
            cap: p.cap,
            meter: &p.meter,
            of: p.of,
            run: p.run,
        });
        running.chain(ended)
    }

    /// All measurements, in situations that `rates` tells apart; of jobs that print no progress, their whole runs.
    pub(super) fn measured(
        &self,
        rates: impl Fn(&Meter) -> Vec<(At, f64, f64)>,
    ) -> Vec<Measured<'_>> {
        let mut all = Vec::new();
        for (number, job) in self.jobs().enumerate() {
            let measured = |at, log, seconds| Measured {
                template: job.template,
                job: number,
                cap: job.cap,
                at,
                log,
                seconds,
            };
            let rates = rates(job.meter);
            if let (true, Some((at, seconds))) = (rates.is_empty(), job.run) {
                all.push(measured(at, -seconds.max(1e-3).ln(), RUN));
            }
            let rates = rates.into_iter();
            all.extend(rates.map(|(at, rate, seconds)| measured(at, rate.ln(), seconds)));
        }
        all
    }

    /// The measurements in each situation, whatever the crowd, and the templates that their numbers refer to.
    pub(super) fn seen(&self) -> (Vec<Seen>, Vec<String>) {
        let mut templates = Vec::<String>::new();
        for job in self.jobs() {
            if !templates.iter().any(|name| name == job.template) {
                templates.push(job.template.to_owned());
            }
        }
        let seen = |of: Measured<'_>| {
            Some(Seen {
                template: templates.iter().position(|name| name == of.template)?,
                job: of.job,
                at: At { crowd: 0, ..of.at },
                log: of.log,
                seconds: of.seconds,
            })
        };
        let all = self
            .measured(Meter::rates)
            .into_iter()
            .filter_map(seen)
            .collect();
        (all, templates)
    }
}
