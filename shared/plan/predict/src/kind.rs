//! Kinds of configurations by their distance from the measurements, and the error of each kind.

use doc::PredictionError;
use doc::params::Kind;
use units::corun::Setting;

use crate::predictor::Predictor;

impl Predictor {
    /// The kind of a configuration by its distance from the measurements, and the error of predictions of that kind,
    /// if parts of that kind could be held out. If several kinds apply, the one with the largest error counts,
    /// because a new share of a new task is predicted no better than the task. An unknown error counts as the
    /// largest.
    ///
    /// `None` if no two tasks run together (solo rates come from solo runs), and for models that do not say what they
    /// cover.
    #[must_use]
    pub fn prediction_error<'a>(
        &self,
        co_runs: impl IntoIterator<Item = &'a Vec<Setting>>,
    ) -> Option<PredictionError> {
        let several = co_runs.into_iter().filter(|c| c.len() > 1);
        let all = several
            .flat_map(|c| self.kinds(c))
            .map(|kind| self.error_of(kind));
        let size = |e: &PredictionError| e.error_percent.unwrap_or(f64::INFINITY);
        all.max_by(|a, b| size(a).total_cmp(&size(b)))
    }

    fn error_of(&self, kind: Kind) -> PredictionError {
        let error = self.errors.iter().find(|e| e.kind == kind);
        PredictionError {
            kind,
            error_percent: error.map(|e| e.error_percent),
            cases: error.map_or(0, |e| e.cases),
            parts: error.map_or(0, |e| e.parts),
        }
    }

    /// Every kind that applies to a co-run, the farthest from the measurements last; empty if the model does not say
    /// what it covers.
    fn kinds(&self, active: &[Setting]) -> Vec<Kind> {
        let Some(domain) = &self.base.domain else {
            return Vec::new();
        };
        let seen = self.unseen.as_ref().map(|u| &u.seen);
        let new_batch = |a: &Setting| seen.is_some_and(|s| !s[a.task].contains(&a.batch));
        let known_task = |a: &Setting| self.base.ran_together(a.task);
        let far: Vec<Kind> = [
            (Kind::Share, !domain.has_shares_of(active)),
            (Kind::Batch, active.iter().any(new_batch)),
            (Kind::Task, !active.iter().all(known_task)),
            (Kind::Crowd, !domain.crowds.contains(&active.len())),
        ]
        .into_iter()
        .filter(|(_, is)| *is)
        .map(|(kind, _)| kind)
        .collect();
        if far.is_empty() {
            vec![Kind::Within]
        } else {
            far
        }
    }
}
