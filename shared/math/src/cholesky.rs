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

/// Dot product of two slices of equal length, in four independent sums, so that the compiler may
/// use vector registers.
#[inline(always)]
#[must_use]
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    dots(a, [b])[0]
}

/// [`dot`] of one slice with each of several, to the same bits.
#[inline(always)]
fn dots<const N: usize>(a: &[f64], b: [&[f64]; N]) -> [f64; N] {
    let whole = a.len() / 4 * 4;
    let b = b.map(|b| &b[..a.len()]);
    let mut acc = [[0.0_f64; 4]; N];
    let mut at = 0;
    while at < whole {
        for (acc, b) in acc.iter_mut().zip(b) {
            for k in 0..4 {
                acc[k] += a[at + k] * b[at + k];
            }
        }
        at += 4;
    }
    let mut sums = [0.0; N];
    for ((sum, acc), b) in sums.iter_mut().zip(acc).zip(b) {
        let mut tail = 0.0;
        for k in whole..a.len() {
            tail += a[k] * b[k];
        }
        *sum = (acc[0] + acc[2]) + (acc[1] + acc[3]) + tail;
    }
    sums
}

/// Rows that are worked on together: as many sums are independent of each other.
const TOGETHER: usize = 4;

impl Cholesky {
    /// Factorises `a` (row-major `n x n`, lower triangle).
    pub fn new(mut a: Vec<f64>, n: usize) -> Result<Self, NotPositiveDefinite> {
        assert_eq!(a.len(), n * n, "a square matrix has n*n entries");
        factorise(&mut a, n)?;
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
    #[inline(always)]
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
        invert(&self.l, self.n)
    }
}

/// Row r is column r of `L^-1`, so that `A^-1[i][j]` is a dot product of two rows.
#[inline(always)]
fn inverse_factor(factor: &[f64], n: usize) -> Vec<f64> {
    let mut m = vec![0.0; n * n];
    let mut r = 0;
    while r < n {
        let many = TOGETHER.min(n - r);
        // Columns that begin later are zero above their diagonal, so they may begin here.
        for i in r..n {
            let l = &factor[i * n..i * n + i + 1];
            let sums = if many == TOGETHER {
                let row = |k: usize| &m[(r + k) * n + r..(r + k) * n + i];
                dots(&l[r..i], [row(0), row(1), row(2), row(3)])
            } else {
                let mut sums = [0.0; TOGETHER];
                for (k, s) in sums.iter_mut().enumerate().take(many) {
                    *s = dot(&l[r..i], &m[(r + k) * n + r..(r + k) * n + i]);
                }
                sums
            };
            for (k, sum) in sums.into_iter().enumerate().take(many.min(i - r + 1)) {
                let unit = if r + k == i { 1.0 } else { 0.0 };
                m[(r + k) * n + i] = (unit - sum) / l[i];
            }
        }
        r += many;
    }
    m
}

crate::wide! {
/// Inverse of the matrix with this factor.
    fn invert(factor: &[f64], n: usize) -> Vec<f64> {
        let m = inverse_factor(factor, n);
        let mut inv = vec![0.0; n * n];
        for i in 0..n {
            let a = &m[i * n + i..(i + 1) * n];
            let row = |j: usize| &m[j * n + i..(j + 1) * n];
            let mut j = 0;
            while j + TOGETHER <= i + 1 {
                let v = dots(a, [row(j), row(j + 1), row(j + 2), row(j + 3)]);
                inv[i * n + j..i * n + j + TOGETHER].copy_from_slice(&v);
                j += TOGETHER;
            }
            for j in j..=i {
                inv[i * n + j] = dot(a, row(j));
            }
        }
        for i in 0..n {
            for j in 0..i {
                inv[j * n + i] = inv[i * n + j];
            }
        }
        inv
    }
}

crate::wide! {
/// Replaces the lower triangle by its factor and the upper by zeros.
fn factorise(a: &mut [f64], n: usize) -> Result<(), NotPositiveDefinite> {
    let mut i = 0;
    while i < n {
        let many = TOGETHER.min(n - i);
        let (above, rows) = a.split_at_mut(i * n);
        if many == TOGETHER {
            for j in 0..i {
                let l = &above[j * n..j * n + j + 1];
                let row = |k: usize| &rows[k * n..k * n + j];
                let sums = dots(&l[..j], [row(0), row(1), row(2), row(3)]);
                for (k, sum) in sums.into_iter().enumerate() {
                    rows[k * n + j] = (rows[k * n + j] - sum) / l[j];
                }
            }
        }
        let done = if many == TOGETHER { i } else { 0 };
        for r in i..i + many {
            let (above, row) = a.split_at_mut(r * n);
            let row = &mut row[..n];
            for j in done..r {
                let l = &above[j * n..j * n + j + 1];
                row[j] = (row[j] - dot(&row[..j], &l[..j])) / l[j];
            }
            let d = row[r] - dot(&row[..r], &row[..r]);
            // A NaN fails this comparison too.
            if !(d > 0.0 && d.is_finite()) {
                return Err(NotPositiveDefinite { pivot: r });
            }
            row[r] = d.sqrt();
            row[r + 1..].fill(0.0);
        }
        i += many;
    }
    Ok(())
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
    fn every_size_is_factorised_and_inverted() {
        for n in 1..23 {
            let v: Vec<f64> = (0..n * n).map(|k| (k as f64 * 0.7).sin()).collect();
            let a = spd(n, &v);
            let c = Cholesky::new(a.clone(), n).unwrap();
            let inverse = c.inverse();
            for i in 0..n {
                for j in 0..n {
                    let of = |k: usize| c.l[i * n + k] * c.l[j * n + k];
                    assert!(((0..n).map(of).sum::<f64>() - a[i * n + j]).abs() < 1e-10);
                    let of = |k: usize| a[i * n + k] * inverse[k * n + j];
                    let unit = f64::from(u8::from(i == j));
                    assert!(((0..n).map(of).sum::<f64>() - unit).abs() < 1e-10);
                }
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
