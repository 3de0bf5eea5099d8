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

impl Explorer {
    /// All measurements, in situations that `rates` tells apart; of jobs that print no progress, their whole runs.
    pub(super) fn measured(
        &self,
        rates: impl Fn(&Meter) -> Vec<(At, f64, f64)>,
    ) -> Vec<Measured<'_>> {
        let running = self.runners.values();
        let running = running.map(|r| (&*r.template, r.cap, &r.meter, None));
        let ended = self.ended.iter();
        let ended = ended.map(|p| (&*p.template, p.cap, &p.meter, p.run));
        let mut all = Vec::new();
        for (job, (template, cap, meter, run)) in running.chain(ended).enumerate() {
            let measured = |at, log, seconds| Measured {
                template,
                job,
                cap,
                at,
                log,
                seconds,
            };
            let rates = rates(meter);
            if let (true, Some((at, seconds))) = (rates.is_empty(), run) {
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
        let running = self.runners.values().map(|r| &r.template);
        for name in running.chain(self.ended.iter().map(|p| &p.template)) {
            if !templates.contains(name) {
                templates.push(name.clone());
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
        let all = self.measured(Meter::rates).into_iter().filter_map(seen);
        let all = all.collect();
        (all, templates)
    }
}
