use units::Share;

/// Divides the shares of a plan among the tasks that compute now, for a device that can change the share of a running
/// job: in proportion to their planned shares, up to the whole device each. The sum stays that of the plan as far as
/// possible.
///
/// `planned[i]` is task i's share in the plan, and `computes[i]` whether it computes now. The other tasks keep their
/// planned shares.
#[must_use]
pub fn divided(planned: &[Share], computes: &[bool]) -> Vec<Share> {
    let full = u64::from(Share::FULL.hundredths());
    let hundredths = |i: usize| u64::from(planned[i].hundredths());
    let mut shares = planned.to_vec();
    let mut open: Vec<usize> = (0..planned.len()).filter(|&i| computes[i]).collect();
    let mut left: u64 = (0..planned.len()).map(hundredths).sum();
    // Tasks that reach the whole device are settled; the others divide the rest.
    loop {
        let sum: u64 = open.iter().map(|&i| hundredths(i)).sum();
        if sum == 0 {
            return shares;
        }
        let part = |i: usize| hundredths(i) * left / sum;
        let (capped, rest): (Vec<usize>, Vec<usize>) = open.iter().partition(|&&i| part(i) >= full);
        if capped.is_empty() {
            for &i in &rest {
                shares[i] = Share::from_hundredths(part(i) as u32);
            }
            return shares;
        }
        for &i in &capped {
            shares[i] = Share::FULL;
        }
        left -= full * capped.len() as u64;
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
