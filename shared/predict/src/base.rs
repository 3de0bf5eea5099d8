use doc::params::{Evidence, WorkloadLaw};

use crate::anchor::{self, Anchor};
use crate::dataset::Dataset;
use crate::domain::Domain;
use crate::error::PredictError;
use crate::features::Layout;
use crate::structured::{self, Law};
use crate::training;
use crate::workload_law;

/// Most samples that the laws are fitted to; they have so few constants that more add nothing.
const MOST_FOR_LAWS: usize = 600;

/// What every family of models rests on: solo rates and laws of all tasks.
#[derive(Debug, Clone)]
pub(crate) struct Base {
    pub layout: Layout,
    pub anchors: Vec<Anchor>,
    pub laws: Vec<Law>,
    pub evidence: Vec<Evidence>,
    pub workload_law: Option<WorkloadLaw>,
    /// Most tasks seen together.
    pub most_together: usize,
    /// What co-runs covered; `None` in a model that does not say.
    pub domain: Option<Domain>,
}

impl Base {
    pub fn learn(data: &Dataset) -> Result<Base, PredictError> {
        let tasks = data.tasks.len();
        let solo = anchor::solo_steps(data);
        let together = ran(data, |others| others > 0);
        let at_all = ran(data, |_| true);
        if !at_all.contains(&true) {
            return Err(PredictError::NoUsableSample);
        }
        let meetings = training::meetings(&data.thinned(MOST_FOR_LAWS));
        let mut laws = structured::fit_all(&meetings);
        let workload_law = workload_law::fit(data, &laws);
        workload_law::complete(
            data,
            &mut laws,
            &together,
            &varied(data),
            workload_law.as_ref(),
        );
        let laws: Vec<Law> = laws
            .into_iter()
            .enumerate()
            .map(|(task, law)| law.ok_or(PredictError::UnknownTask { task }))
            .collect::<Result<_, _>>()?;
        let elsewhere = anchor::elsewhere(&meetings, &laws);
        let anchors = (0..tasks)
            .map(|i| Anchor::new(&solo[i], &elsewhere[i], &laws[i].pace, &data.tasks[i]))
            .collect();
        let evidence = (0..tasks).map(|i| match (together[i], at_all[i]) {
            (true, _) => Evidence::Together,
            (false, true) => Evidence::Alone,
            (false, false) => Evidence::Nothing,
        });
        Ok(Base {
            layout: Layout { tasks },
            anchors,
            laws,
            evidence: evidence.collect(),
            workload_law,
            domain: Some(Domain::of(data)),
            most_together: data
                .samples
                .iter()
                .map(|s| s.active.len())
                .max()
                .unwrap_or(0),
        })
    }
}

/// Which tasks ran, with a number of others that `counts`.
fn ran(data: &Dataset, counts: impl Fn(usize) -> bool) -> Vec<bool> {
    let mut v = vec![false; data.tasks.len()];
    for s in &data.samples {
        for (a, p) in s.active.iter().zip(&s.throughput) {
            v[a.task] |= *p > 0.0 && counts(s.active.len() - 1);
        }
    }
    v
}

/// Which tasks ran at more than one share.
fn varied(data: &Dataset) -> Vec<bool> {
    let mut first = vec![None; data.tasks.len()];
    let mut v = vec![false; data.tasks.len()];
    for a in data.samples.iter().flat_map(|s| &s.active) {
        v[a.task] |= *first[a.task].get_or_insert(a.share) != a.share;
    }
    v
}
