//! Least-cost matching of rows to columns.

/// The column of every row in a matching of least total cost; `rows <= columns`.
///
/// Successive shortest paths with potentials (Jonker and Volgenant 1987), `O(rows^2 columns)`.
/// Forbidden pairs cost infinity; a row that has only forbidden columns left gets `None`.
pub fn assign(
    rows: usize,
    columns: usize,
    cost: impl Fn(usize, usize) -> f64,
) -> Vec<Option<usize>> {
    // Infinite costs would make differences of potentials NaN; this value exceeds any sum of real
    // costs here.
    const FORBIDDEN: f64 = 1e30;
    let cost = |r: usize, c: usize| cost(r, c).min(FORBIDDEN);
    let mut row_potential = vec![0.0; rows + 1];
    let mut column_potential = vec![0.0; columns + 1];
    // Index 0 is a column that stands for "the row to be placed".
    let mut row_of = vec![0; columns + 1];
    let mut way = vec![0; columns + 1];
    for row in 1..=rows {
        row_of[0] = row;
        let mut at = 0;
        let mut least = vec![f64::INFINITY; columns + 1];
        let mut used = vec![false; columns + 1];
        while row_of[at] != 0 {
            used[at] = true;
            let r = row_of[at];
            let mut step = f64::INFINITY;
            let mut to = 0;
            for c in 1..=columns {
                if used[c] {
                    continue;
                }
                let reduced = cost(r - 1, c - 1) - row_potential[r] - column_potential[c];
                if reduced < least[c] {
                    least[c] = reduced;
                    way[c] = at;
                }
                if least[c] < step {
                    step = least[c];
                    to = c;
                }
            }
            for c in 0..=columns {
                if used[c] {
                    row_potential[row_of[c]] += step;
                    column_potential[c] -= step;
                } else {
                    least[c] -= step;
                }
            }
            at = to;
        }
        while at != 0 {
            row_of[at] = row_of[way[at]];
            at = way[at];
        }
    }
    let mut out = vec![None; rows];
    for c in 1..=columns {
        if row_of[c] > 0 && cost(row_of[c] - 1, c - 1) < FORBIDDEN {
            out[row_of[c] - 1] = Some(c - 1);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Least cost over all injections of rows into columns.
    fn brute(rows: usize, columns: usize, cost: &[f64], used: u32) -> f64 {
        if rows == 0 {
            return 0.0;
        }
        let row = rows - 1;
        (0..columns)
            .filter(|c| used >> c & 1 == 0)
            .map(|c| cost[row * columns + c] + brute(row, columns, cost, used | 1 << c))
            .fold(f64::INFINITY, f64::min)
    }

    proptest! {
        #[test]
        fn least_cost(rows in 1..5_usize, extra in 0..3_usize, cost in prop::collection::vec(0.0..10.0_f64, 35)) {
            let columns = rows + extra;
            let found = assign(rows, columns, |r, c| cost[r * columns + c]);
            let total: f64 = found.iter().enumerate().map(|(r, c)| cost[r * columns + c.unwrap()]).sum();
            prop_assert!((total - brute(rows, columns, &cost, 0)).abs() < 1e-9);
        }
    }
}
