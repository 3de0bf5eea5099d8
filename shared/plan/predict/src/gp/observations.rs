//! Observations that a process is conditioned on.

/// Observations: feature-major inputs, targets, and a factor on the noise variance of each.
#[derive(Debug, Clone)]
pub(crate) struct Observations {
    pub features: usize,
    /// `features` columns of `len` numbers.
    pub columns: Vec<f64>,
    pub y: Vec<f64>,
    pub noise_factor: Vec<f64>,
}

impl Observations {
    /// From rows of equal length.
    pub fn new(rows: &[Vec<f64>], y: Vec<f64>) -> Self {
        let n = rows.len();
        let features = rows.first().map_or(0, Vec::len);
        let mut columns = vec![0.0; n * features];
        for (i, row) in rows.iter().enumerate() {
            for (k, v) in row.iter().enumerate() {
                columns[k * n + i] = *v;
            }
        }
        Self {
            features,
            columns,
            noise_factor: vec![1.0; n],
            y,
        }
    }

    pub fn len(&self) -> usize {
        self.y.len()
    }

    pub fn column(&self, k: usize) -> &[f64] {
        let n = self.len();
        &self.columns[k * n..(k + 1) * n]
    }

    /// The observations at the given places.
    pub fn subset(&self, at: &[usize]) -> Self {
        let pick = |v: &[f64]| at.iter().map(|&i| v[i]).collect::<Vec<f64>>();
        Self {
            features: self.features,
            columns: (0..self.features)
                .flat_map(|k| pick(self.column(k)))
                .collect(),
            y: pick(&self.y),
            noise_factor: pick(&self.noise_factor),
        }
    }

    /// Standard deviation of each feature; 1 where it is constant.
    pub fn spreads(&self) -> Vec<f64> {
        let n = self.len() as f64;
        (0..self.features)
            .map(|k| {
                let x = self.column(k);
                let mean = x.iter().sum::<f64>() / n;
                let sd = (x.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n).sqrt();
                if sd > 1e-9 { sd } else { 1.0 }
            })
            .collect()
    }
}
