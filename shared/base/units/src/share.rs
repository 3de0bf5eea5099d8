use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Sub};

use crate::{UnitError, shown};

/// A part of a device, as fixed point in hundredths of a percent.
///
/// The `Share` of one task is at most [`Share::FULL`] (100 %), like `CUDA_MPS_ACTIVE_THREAD_PERCENTAGE`; the sum over
/// tasks is a [`TotalShare`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Share(u32);

impl Share {
    /// The whole device: 100 %.
    pub const FULL: Share = Share(10_000);
    /// No share; the task does not run.
    pub const ZERO: Share = Share(0);

    /// Builds the share of one task from percent: above 0, at most 100, in steps of 0.01.
    pub fn from_percent(percent: f64) -> Result<Self, UnitError> {
        let bad = || {
            UnitError::new(
                "share",
                shown(percent),
                "a percentage from 0.01 to 100 in steps of 0.01",
            )
        };
        if !(percent.is_finite() && percent > 0.0 && percent <= 100.0) {
            return Err(bad());
        }
        let hundredths = percent * 100.0;
        if (hundredths - hundredths.round()).abs() > 1e-6 || hundredths.round() < 1.0 {
            return Err(bad());
        }
        Ok(Self(hundredths.round() as u32))
    }

    /// Builds a share from hundredths of a percent; the caller must ensure that it is at most 100 %.
    #[must_use]
    pub const fn from_hundredths(hundredths: u32) -> Self {
        Self(hundredths)
    }

    /// Hundredths of a percent.
    #[must_use]
    pub const fn hundredths(self) -> u32 {
        self.0
    }

    /// The share in percent.
    #[must_use]
    pub fn percent(self) -> f64 {
        f64::from(self.0) / 100.0
    }

    /// The share as a fraction of the device: 100 % is 1.
    #[must_use]
    pub fn fraction(self) -> f64 {
        f64::from(self.0) / 10_000.0
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", self.percent())
    }
}

impl Add for Share {
    type Output = Share;
    fn add(self, other: Share) -> Share {
        Share(self.0.saturating_add(other.0))
    }
}

impl Sub for Share {
    type Output = Share;
    fn sub(self, other: Share) -> Share {
        Share(self.0.saturating_sub(other.0))
    }
}

/// Sum of the shares of the tasks of one device, the total virtual resource `R_v`, in hundredths of a percent. With
/// competitive sharing it exceeds 100 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TotalShare(u32);

impl TotalShare {
    /// The total of no tasks.
    pub const ZERO: TotalShare = TotalShare(0);

    /// Builds a total from percent: above 0, rounded to steps of 0.01.
    ///
    /// # Errors
    /// [`UnitError`] for a number that is not a finite percentage above 0, or exceeds the range of the type.
    pub fn from_percent(percent: f64) -> Result<Self, UnitError> {
        let hundredths = (percent * 100.0).round();
        if percent.is_finite() && (1.0..=f64::from(u32::MAX)).contains(&hundredths) {
            Ok(Self(hundredths as u32))
        } else {
            Err(UnitError::new(
                "total share",
                shown(percent),
                "a percentage of 0.01 or more",
            ))
        }
    }

    /// Builds a total from hundredths of a percent.
    #[must_use]
    pub const fn from_hundredths(hundredths: u32) -> Self {
        Self(hundredths)
    }

    /// Hundredths of a percent.
    #[must_use]
    pub const fn hundredths(self) -> u32 {
        self.0
    }

    /// The total in percent.
    #[must_use]
    pub fn percent(self) -> f64 {
        f64::from(self.0) / 100.0
    }
}

impl fmt::Display for TotalShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", self.percent())
    }
}

impl Add for TotalShare {
    type Output = TotalShare;
    fn add(self, other: TotalShare) -> TotalShare {
        TotalShare(self.0.saturating_add(other.0))
    }
}

impl Sum<Share> for TotalShare {
    fn sum<I: Iterator<Item = Share>>(iter: I) -> TotalShare {
        iter.fold(TotalShare::ZERO, |sum, s| sum + TotalShare(s.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn percent_round_trips(h in 1u32..=10_000) {
            let share = Share::from_hundredths(h);
            prop_assert_eq!(Share::from_percent(share.percent()).unwrap(), share);
        }
    }

    #[test]
    fn refuses_what_is_no_share_of_one_task() {
        for v in [0.0, -5.0, 100.01, 0.001, 33.333, f64::NAN] {
            assert!(Share::from_percent(v).is_err(), "{v}");
        }
    }

    #[test]
    fn sums_may_exceed_the_device() {
        let total: TotalShare = [Share::FULL, Share::FULL].into_iter().sum();
        assert!((total.percent() - 200.0).abs() < 1e-12);
    }
}
