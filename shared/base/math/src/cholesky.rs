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
    let whole = a.len() / 4 * 4;
    let b = &b[..a.len()];
    let mut acc = [0.0_f64; 4];
    let mut at = 0;
    while at < whole {
        for k in 0..4 {
            acc[k] += a[at + k] * b[at + k];
        }
        at += 4;
    }
    let mut tail = 0.0;
    for k in whole..a.len() {
        tail += a[k] * b[k];
    }
    (acc[0] + acc[2]) + (acc[1] + acc[3]) + tail
}

/// Number of rows that are added at a time, so that the sum is read and written once for all of them.
const TOGETHER: usize = 4;

/// Number of columns per block. Rows start and end at multiples of a block, because a remainder loop would take as
/// long as the blocks.
const LANES: usize = 8;

/// `sum += rows[k] * by(k)` for all rows `k`. `rows` is row-major with `width` columns, of which only those from
/// `first` on are used. The length of `sum`, `width` and `first` are multiples of [`LANES`]. Nothing is summed along
/// a row, so vector registers are full.
#[inline(always)]
fn add_rows(sum: &mut [f64], rows: &[f64], width: usize, first: usize, by: impl Fn(usize) -> f64) {
    let (len, count) = (sum.len(), rows.len() / width);
    let row = |k: usize| {
        let row = &rows[k * width + first..k * width + first + len];
        row.as_chunks::<LANES>().0
    };
    let sum = sum.as_chunks_mut::<LANES>().0;
    let mut k = 0;
    while k + TOGETHER <= count {
        let (p, q, r, s) = (by(k), by(k + 1), by(k + 2), by(k + 3));
        let pairs = row(k).iter().zip(row(k + 1));
        let more = row(k + 2).iter().zip(row(k + 3));
        for ((sum, (a, b)), (c, d)) in sum.iter_mut().zip(pairs).zip(more) {
            let one = |j: usize| sum[j] + ((p * a[j] + q * b[j]) + (r * c[j] + s * d[j]));
            *sum = std::array::from_fn(one);
        }
        k += TOGETHER;
    }
    for k in k..count {
        let by = by(k);
        for (sum, v) in sum.iter_mut().zip(row(k)) {
            *sum = std::array::from_fn(|j| sum[j] + by * v[j]);
        }
    }
}

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

    /// Lower triangle of `A^-1`, row-major; the upper triangle is zero.
    #[must_use]
    pub fn inverse(&self) -> Vec<f64> {
        invert(&self.l, self.n)
    }

    /// Diagonal of `A^-1`: bit-identical to that of [`Cholesky::inverse`], in half the time.
    #[must_use]
    pub fn inverse_diagonal(&self) -> Vec<f64> {
        let n = self.n;
        let width = n.next_multiple_of(LANES);
        let m = invert_factor(&self.l, n);
        let squares = |i: usize| {
            let at = |k: usize| m[k * width + i] * m[k * width + i];
            let mut sum = 0.0;
            let mut k = i;
            // Add in the same order as `add_rows`, for bit-identical results.
            while k + TOGETHER <= n {
                sum += (at(k) + at(k + 1)) + (at(k + 2) + at(k + 3));
                k += TOGETHER;
            }
            (k..n).fold(sum, |sum, k| sum + at(k))
        };
        (0..n).map(squares).collect()
    }
}

crate::wide! {
/// The inverse `M = L^-1` of a factor; rows are padded to a multiple of [`LANES`].
fn invert_factor(factor: &[f64], n: usize) -> Vec<f64> {
    let width = n.next_multiple_of(LANES);
    let mut m = vec![0.0; n * width];
    for (i, l) in factor.chunks_exact(n).enumerate() {
        let (above, row) = m.split_at_mut(i * width);
        let mut first = 0;
        for some in above.chunks(TOGETHER * width) {
            // The rows are zero beyond their diagonal, so stop there.
            let end = (first + some.len() / width).next_multiple_of(LANES);
            add_rows(&mut row[..end], some, width, 0, |k| -l[first + k]);
            first += TOGETHER;
        }
        row[i] = 1.0;
        for v in &mut row[..i + 1] {
            *v /= l[i];
        }
    }
    m
}
}

crate::wide! {
/// Lower triangle of the inverse `M^T M` of the matrix with this factor, `M = L^-1`.
fn invert(factor: &[f64], n: usize) -> Vec<f64> {
    let width = n.next_multiple_of(LANES);
    let m = invert_factor(factor, n);
    let mut inverse = vec![0.0; n * n];
    let mut sum = vec![0.0; width];
    for (i, row) in inverse.chunks_exact_mut(n).enumerate() {
        let below = &m[i * width..];
        let sum = &mut sum[..(i + 1).next_multiple_of(LANES)];
        sum.fill(0.0);
        add_rows(sum, below, width, 0, |k| below[k * width + i]);
        row[..i + 1].copy_from_slice(&sum[..i + 1]);
    }
    inverse
}
}

crate::wide! {
/// Replaces the lower triangle by its factor and the upper by zeros.
fn factorise(a: &mut [f64], n: usize) -> Result<(), NotPositiveDefinite> {
    let width = n.next_multiple_of(LANES);
    // Row i of `u` is column i of L, so the entries that a row needs are contiguous. Up to one block before the
    // diagonal, `u` has values that are never read.
    let mut u = vec![0.0; n * width];
    for (i, row) in a.chunks_exact(n).enumerate() {
        for (j, v) in row[..i + 1].iter().enumerate() {
            u[j * width + i] = *v;
        }
    }
    for i in 0..n {
        let first = i / LANES * LANES;
        let (above, row) = u.split_at_mut(i * width);
        let row = &mut row[first..width];
        add_rows(row, above, width, first, |k| -above[k * width + i]);
        let d = row[i - first];
        // A NaN fails this comparison too.
        if !(d > 0.0 && d.is_finite()) {
            return Err(NotPositiveDefinite { pivot: i });
        }
        let root = d.sqrt();
        for v in row {
            *v /= root;
        }
    }
    for (i, row) in a.chunks_exact_mut(n).enumerate() {
        for (j, v) in row[..i + 1].iter_mut().enumerate() {
            *v = u[j * width + i];
        }
        row[i + 1..].fill(0.0);
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
                let of = |j: usize| inv[i.max(j) * n + i.min(j)] * b[j];
                let by_inverse: f64 = (0..n).map(of).sum();
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
            let diagonal = c.inverse_diagonal();
            for i in 0..n {
                assert_eq!(diagonal[i].to_bits(), inverse[i * n + i].to_bits());
                for j in 0..n {
                    let of = |k: usize| c.l[i * n + k] * c.l[j * n + k];
                    assert!(((0..n).map(of).sum::<f64>() - a[i * n + j]).abs() < 1e-10);
                    let of = |k: usize| a[i * n + k] * inverse[k.max(j) * n + k.min(j)];
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
