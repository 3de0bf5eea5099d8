use crate::features::{Layout, MAX_FEATURES, Scene};
use crate::structured::Meeting;
use crate::{Active, Anchor, Dataset};

/// The measurements of one task, row by row.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rows {
    /// Position in [`Dataset::samples`] of each row.
    pub sample: Vec<usize>,
    /// What the law sees.
    pub meetings: Vec<Meeting>,
    /// What the regressions see.
    pub features: Vec<Vec<f64>>,
    /// `ln(step seconds)`.
    pub ln_step: Vec<f64>,
    /// `ln(solo step seconds)` by the anchor.
    pub ln_solo: Vec<f64>,
    /// Relative standard error of the measurement, where known.
    pub error: Vec<Option<f64>>,
}

impl Rows {
    /// Rows of every task; throughputs of zero are left out.
    pub fn of_all(data: &Dataset, anchors: &[Anchor], layout: Layout) -> Vec<Rows> {
        let mut rows = vec![Rows::default(); data.tasks.len()];
        for (k, s) in data.samples.iter().enumerate() {
            let scene = Scene::new(anchors, &s.active);
            for (at, (a, &p)) in s.active.iter().zip(&s.throughput).enumerate() {
                if p > 0.0 {
                    let error = s.stderr.as_ref().map(|e| e[at] / p);
                    rows[a.task].push(k, a, &scene, at, p, error, layout);
                }
            }
        }
        rows
    }

    #[expect(clippy::too_many_arguments, reason = "one row has these parts")]
    fn push(
        &mut self,
        sample: usize,
        a: &Active,
        scene: &Scene,
        at: usize,
        rate: f64,
        error: Option<f64>,
        layout: Layout,
    ) {
        let mut x = [0.0; MAX_FEATURES];
        layout.fill(scene, at, &mut x);
        let step = a.batch.as_f64() / rate;
        self.sample.push(sample);
        self.features.push(x[..layout.len()].to_vec());
        self.ln_step.push(step.ln());
        self.ln_solo.push(scene.step(at).ln());
        self.error.push(error);
        self.meetings.push(Meeting {
            batch: a.batch.as_f64(),
            share: a.share.fraction(),
            others: scene.others(at).collect(),
            step,
        });
    }

    pub fn len(&self) -> usize {
        self.sample.len()
    }

    /// The rows at the given places.
    pub fn subset(&self, at: &[usize]) -> Rows {
        fn pick<T: Clone>(v: &[T], at: &[usize]) -> Vec<T> {
            at.iter().map(|&i| v[i].clone()).collect()
        }
        Rows {
            sample: pick(&self.sample, at),
            meetings: pick(&self.meetings, at),
            features: pick(&self.features, at),
            ln_step: pick(&self.ln_step, at),
            ln_solo: pick(&self.ln_solo, at),
            error: pick(&self.error, at),
        }
    }
}
