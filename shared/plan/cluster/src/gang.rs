//! GPUs for tasks that run at the same time.

/// Requirements of a gang.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wants<'a> {
    /// Tasks, each on a GPU of its own.
    pub tasks: usize,
    /// Whether the GPUs have to be on one node.
    pub same_node: bool,
    /// Seconds of training and of synchronisation on each class; infinite where the class cannot
    /// run it.
    pub train: &'a [f64],
    pub sync: &'a [f64],
    /// Classes that it may use, as bits.
    pub allowed: u64,
}

/// The GPUs of a gang, and when it runs on them.
#[derive(Debug, Clone, PartialEq)]
pub struct Together {
    /// The GPUs, in rising order.
    pub gpus: Vec<usize>,
    /// When the last of them is free.
    pub start: f64,
    /// When the slowest has trained.
    pub trained: f64,
    /// When the slowest has synchronised.
    pub synced: f64,
}

impl Wants<'_> {
    /// Training and synchronisation time of a round on these GPUs, in seconds; the slowest GPU
    /// decides each. `classes` gives the class of every GPU.
    pub fn pace(&self, classes: &[usize], gpus: &[usize]) -> (f64, f64) {
        let most = |times: &[f64]| {
            let all = gpus.iter().map(|&m| times[classes[m]]);
            all.fold(0.0, f64::max)
        };
        (most(self.train), most(self.sync))
    }

    /// The GPUs on which the gang is synchronised first if GPU m is free from `available[m]` on;
    /// ties go to those with less training. `None` if there are too few.
    ///
    /// The best set has a largest training time and a largest synchronisation time. Among all GPUs
    /// within both limits, the ones available first start no later than that set and take no
    /// longer, so it suffices to try every pair of limits.
    pub fn earliest(
        &self,
        classes: &[usize],
        nodes: &[usize],
        available: &[f64],
    ) -> Option<Together> {
        let may = |g: usize| self.allowed >> g & 1 == 1 && self.train[g].is_finite();
        let usable: Vec<usize> = (0..classes.len())
            .filter(|&m| may(classes[m]) && available[m].is_finite())
            .collect();
        let limits = |times: &[f64]| {
            let mut all: Vec<f64> = usable.iter().map(|&m| times[classes[m]]).collect();
            all.sort_by(f64::total_cmp);
            all.dedup();
            all
        };
        let trains = limits(self.train);
        let syncs = limits(self.sync);
        let mut best: Option<(f64, f64, Together)> = None;
        for &train in &trains {
            for &sync in &syncs {
                let within = usable
                    .iter()
                    .copied()
                    .filter(|&m| self.train[classes[m]] <= train && self.sync[classes[m]] <= sync);
                let Some(gpus) = self.first(within.collect(), nodes, available) else {
                    continue;
                };
                let start = gpus.iter().map(|&m| available[m]).fold(0.0, f64::max);
                let (train, sync) = self.pace(classes, &gpus);
                let trained = start + train;
                let synced = trained + sync;
                let better = |b: &(f64, f64, Together)| (synced, train) < (b.0, b.1);
                if best.as_ref().is_none_or(better) {
                    let found = Together {
                        gpus,
                        start,
                        trained,
                        synced,
                    };
                    best = Some((synced, train, found));
                }
            }
        }
        best.map(|b| b.2)
    }

    /// The `tasks` GPUs that are available first, on one node if `same_node` is set; `None` if
    /// there are too few.
    fn first(
        &self,
        mut gpus: Vec<usize>,
        nodes: &[usize],
        available: &[f64],
    ) -> Option<Vec<usize>> {
        let when = |a: &usize, b: &usize| available[*a].total_cmp(&available[*b]).then(a.cmp(b));
        let whole = |gpus: &mut Vec<usize>| {
            (gpus.len() >= self.tasks).then(|| {
                gpus.sort_by(when);
                let mut chosen = gpus[..self.tasks].to_vec();
                let last = chosen.last().map_or(0.0, |&m| available[m]);
                chosen.sort_unstable();
                (last, chosen)
            })
        };
        if !self.same_node {
            return whole(&mut gpus).map(|w| w.1);
        }
        gpus.sort_by_key(|&m| (nodes[m], m));
        let each = gpus
            .chunk_by(|&a, &b| nodes[a] == nodes[b])
            .filter_map(|own| whole(&mut own.to_vec()));
        each.min_by(|a, b| a.0.total_cmp(&b.0)).map(|w| w.1)
    }
}
