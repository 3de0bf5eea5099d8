//! Shares of the rest when a task has ended.

use units::Share;

/// Divides what ended tasks leave among those that go on, in proportion to their planned shares
/// and up to the whole device each; the sum stays that of the plan as far as that allows.
///
/// `planned[i]` is task i's share in the plan, `going[i]` whether it still computes or will.
#[must_use]
pub fn divided(planned: &[Share], going: &[bool]) -> Vec<Share> {
    let full = f64::from(Share::FULL.hundredths());
    let total: f64 = planned.iter().map(|s| f64::from(s.hundredths())).sum();
    let mut shares = planned.to_vec();
    let mut open: Vec<usize> = (0..planned.len()).filter(|&i| going[i]).collect();
    let mut left = total;
    // Tasks that reach the whole device are settled; the rest divide what they leave.
    loop {
        let sum: f64 = open
            .iter()
            .map(|&i| f64::from(planned[i].hundredths()))
            .sum();
        if open.is_empty() || sum <= 0.0 {
            return shares;
        }
        let factor = left / sum;
        let is_full = |&i: &usize| f64::from(planned[i].hundredths()) * factor >= full;
        let (capped, rest): (Vec<usize>, Vec<usize>) = open.iter().partition(|i| is_full(i));
        for &i in &capped {
            shares[i] = Share::FULL;
            left -= full;
        }
        if capped.is_empty() {
            for &i in &rest {
                let share = (f64::from(planned[i].hundredths()) * factor).floor();
                shares[i] = Share::from_hundredths(share as u32);
            }
            return shares;
        }
        open = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shares(percent: &[f64]) -> Vec<Share> {
        percent
            .iter()
            .map(|p| Share::from_percent(*p).unwrap())
            .collect()
    }

    #[test]
    fn what_ends_is_divided() {
        let planned = shares(&[60.0, 20.0, 20.0]);
        assert_eq!(divided(&planned, &[true; 3]), planned);
        let two = divided(&planned, &[false, true, true]);
        assert_eq!(&two[1..], shares(&[50.0, 50.0]));
        assert_eq!(divided(&planned, &[false, false, true])[2], Share::FULL);
        let over = shares(&[90.0, 60.0, 30.0]);
        let rest = divided(&over, &[false, true, true]);
        assert_eq!(&rest[1..], shares(&[100.0, 80.0]));
    }

    proptest! {
        #[test]
        fn nobody_loses_and_nothing_is_made(
            tasks in proptest::collection::vec((1u32..=10_000, any::<bool>()), 1..8),
        ) {
            let planned: Vec<Share> = tasks.iter().map(|t| Share::from_hundredths(t.0)).collect();
            let going: Vec<bool> = tasks.iter().map(|t| t.1).collect();
            let new = divided(&planned, &going);
            let mut sum = 0;
            for i in 0..tasks.len() {
                if going[i] {
                    prop_assert!(new[i] >= planned[i] && new[i] <= Share::FULL);
                    sum += new[i].hundredths();
                }
            }
            prop_assert!(sum <= planned.iter().map(|s| s.hundredths()).sum());
        }
    }
}
