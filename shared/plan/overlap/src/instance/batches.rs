use units::Batch;

/// A batch size and those `percent` below and above it, rounded to whole samples; the size itself comes first,
/// without duplicates.
#[must_use]
pub fn vary(batch: Batch, percent: f64) -> Vec<Batch> {
    let mut sizes = vec![batch];
    for factor in [1.0 - percent / 100.0, 1.0 + percent / 100.0] {
        let size = (batch.as_f64() * factor).round().max(1.0) as u64;
        if let Ok(size) = Batch::new(size)
            && !sizes.contains(&size)
        {
            sizes.push(size);
        }
    }
    sizes
}

/// All combinations of `counts[i]` levels, the first being all zero.
pub(crate) fn combinations(counts: &[usize]) -> impl Iterator<Item = Vec<u8>> {
    let mut next = Some(vec![0u8; counts.len()]);
    let counts = counts.to_vec();
    std::iter::from_fn(move || {
        let now = next.take()?;
        let mut after = now.clone();
        for (level, &count) in after.iter_mut().zip(&counts) {
            if usize::from(*level) + 1 < count {
                *level += 1;
                next = Some(after);
                break;
            }
            *level = 0;
        }
        Some(now)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_percent_either_way() {
        let sizes = |b| -> Vec<u32> {
            let all = vary(Batch::new(b).unwrap(), 20.0);
            all.into_iter().map(Batch::get).collect()
        };
        assert_eq!(sizes(128), [128, 102, 154]);
        assert_eq!(sizes(1), [1]);
        assert_eq!(vary(Batch::new(64).unwrap(), 0.0).len(), 1);
    }

    #[test]
    fn combinations_are_all_and_start_with_the_plan() {
        let all: Vec<Vec<u8>> = combinations(&[3, 1, 2]).collect();
        assert_eq!(all.len(), 6);
        assert_eq!(all[0], [0, 0, 0]);
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), 6);
    }
}
