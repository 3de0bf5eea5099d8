/// The matrix has no Cholesky factor: it is not positive definite, or not finite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the matrix is not positive definite (pivot {pivot})")]
pub struct NotPositiveDefinite {
    /// Row at which the factorisation stopped.
    pub pivot: usize,
}

/// Lower-triangular factor `L` of a symmetric positive definite matrix `A = L L^T`.
///
/// Matrices are square, row-major, in one slice; only the lower triangle is read.
#[derive(Debug, Clone)]
pub struct Cholesky {
    n: usize,
    /// Row-major `n x n`; the strict upper triangle is zero.
    l: Vec<f64>,
}

/// Dot product of two slices of equal length, in four independent sums, so that the compiler may use vector registers.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut acc = [0.0_f64; 4];
    let (ca, cb) = (a.chunks_exact(4), b.chunks_exact(4));
    let tail: f64 = ca
        .remainder()
        .iter()
        .zip(cb.remainder())
        .map(|(x, y)| x * y)
        .sum();
    for (x, y) in ca.zip(cb) {
        for k in 0..4 {
            acc[k] += x[k] * y[k];
        }
    }
    (acc[0] + acc[2]) + (acc[1] + acc[3]) + tail
}

impl Cholesky {
    /// Factorises `a` (row-major `n x n`, lower triangle).
    pub fn new(mut a: Vec<f64>, n: usize) -> Result<Self, NotPositiveDefinite> {
        assert_eq!(a.len(), n * n, "a square matrix has n*n entries");
        for i in 0..n {
            let (above, row) = a.split_at_mut(i * n);
            for j in 0..i {
                let lj = &above[j * n..j * n + j + 1];
                row[j] = (row[j] - dot(&row[..j], &lj[..j])) / lj[j];
            }
            let d = row[i] - dot(&row[..i], &row[..i]);
            // A NaN fails this comparison too.
            if !(d > 0.0 && d.is_finite()) {
                return Err(NotPositiveDefinite { pivot: i });
            }
            row[i] = d.sqrt();
            row[i + 1..n].fill(0.0);
        }
        Ok(Self { n, l: a })
    }

    /// Order of the matrix.
    #[must_use]
    pub fn order(&self) -> usize {
        self.n
    }

    /// `ln det A`.
    #[must_use]
    pub fn log_det(&self) -> f64 {
        (0..self.n)
            .map(|i| self.l[i * self.n + i].ln())
            .sum::<f64>()
            * 2.0
    }

    /// Solves `L x = b` in place.
    pub fn solve_lower(&self, b: &mut [f64]) {
        for i in 0..self.n {
            let row = &self.l[i * self.n..i * self.n + i + 1];
            b[i] = (b[i] - dot(&row[..i], &b[..i])) / row[i];
        }
    }

    /// Solves `L^T x = b` in place.
    pub fn solve_upper(&self, b: &mut [f64]) {
        for i in (0..self.n).rev() {
            let row = &self.l[i * self.n..i * self.n + i + 1];
            let x = b[i] / row[i];
            b[i] = x;
            for (bj, l) in b[..i].iter_mut().zip(row) {
                *bj -= l * x;
            }
        }
    }

    /// Solves `A x = b` in place.
    pub fn solve(&self, b: &mut [f64]) {
        self.solve_lower(b);
        self.solve_upper(b);
    }

    /// `A^-1`, row-major, both triangles.
    #[must_use]
    pub fn inverse(&self) -> Vec<f64> {
        let n = self.n;
        // Row r of `m` is column r of L^-1, so that A^-1[i][j] is a dot product of two rows.
        let mut m = vec![0.0; n * n];
        for r in 0..n {
            let row = &mut m[r * n..(r + 1) * n];
            row[r] = 1.0 / self.l[r * n + r];
            for i in r + 1..n {
                let li = &self.l[i * n..i * n + i + 1];
                row[i] = -dot(&li[r..i], &row[r..i]) / li[i];
            }
        }
        let mut inv = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..=i {
                let v = dot(&m[i * n + i..(i + 1) * n], &m[j * n + i..(j + 1) * n]);
                inv[i * n + j] = v;
                inv[j * n + i] = v;
            }
        }
        inv
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spd(n: usize, v: &[f64]) -> Vec<f64> {
        let mut a = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..n {
                a[i * n + j] = (0..n).map(|k| v[i * n + k] * v[j * n + k]).sum::<f64>();
            }
            a[i * n + i] += 1.0;
        }
        a
    }

    proptest! {
        #[test]
        fn solves_and_inverts(v in prop::collection::vec(-2.0..2.0_f64, 49), b in prop::collection::vec(-3.0..3.0_f64, 7)) {
            let n = 7;
            let a = spd(n, &v);
            let c = Cholesky::new(a.clone(), n).unwrap();
            let mut x = b.clone();
            c.solve(&mut x);
            let inv = c.inverse();
            for i in 0..n {
                let back = dot(&a[i * n..(i + 1) * n], &x);
                prop_assert!((back - b[i]).abs() < 1e-8);
                let by_inverse = dot(&inv[i * n..(i + 1) * n], &b);
                prop_assert!((by_inverse - x[i]).abs() < 1e-8);
            }
        }
    }

    #[test]
    fn refuses_what_has_no_factor() {
        assert!(Cholesky::new(vec![1.0, 2.0, 2.0, 1.0], 2).is_err());
        assert!(Cholesky::new(vec![f64::NAN], 1).is_err());
    }

    #[test]
    fn log_det_of_a_diagonal() {
        let c = Cholesky::new(vec![4.0, 0.0, 0.0, 9.0], 2).unwrap();
        assert!((c.log_det() - 36.0_f64.ln()).abs() < 1e-12);
    }
}
