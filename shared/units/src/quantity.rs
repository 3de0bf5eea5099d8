use std::fmt;

/// A number that is not a value of the quantity it was meant for.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{value} is not a {quantity}: {expected}")]
pub struct UnitError {
    /// What was being built, for example `share`.
    pub quantity: &'static str,
    /// The offending value as text.
    pub value: String,
    /// What would have been right.
    pub expected: &'static str,
}

impl UnitError {
    pub(crate) fn new(
        quantity: &'static str,
        value: impl fmt::Display,
        expected: &'static str,
    ) -> Self {
        Self {
            quantity,
            value: value.to_string(),
            expected,
        }
    }
}

macro_rules! float_quantity {
    ($(#[$doc:meta])* $name:ident, $label:literal, $unit:literal, $ok:expr, $expected:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
        pub struct $name(f64);

        impl $name {
            #[doc = concat!("Builds a ", $label, "; the error says: ", $expected, ".")]
            pub fn new(value: f64) -> Result<Self, UnitError> {
                let ok: fn(f64) -> bool = $ok;
                if value.is_finite() && ok(value) {
                    // Negative zero would print as "-0.0" and break byte-for-byte comparison.
                    Ok(Self(value + 0.0))
                } else {
                    Err(UnitError::new($label, value, $expected))
                }
            }

            #[doc = concat!("The value in ", $unit, ".")]
            #[must_use]
            pub const fn get(self) -> f64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)?;
                f.write_str(concat!(" ", $unit))
            }
        }
    };
}

float_quantity!(
    /// A duration in seconds.
    Seconds,
    "duration",
    "s",
    |v| v >= 0.0,
    "a finite number of seconds, 0 or more"
);
float_quantity!(
    /// Training throughput in samples per second.
    SamplesPerSec,
    "throughput",
    "samples/s",
    |v| v >= 0.0,
    "a finite number of samples per second, 0 or more"
);
float_quantity!(
    /// Link speed in bits per second.
    Bandwidth,
    "bandwidth",
    "bit/s",
    |v| v > 0.0,
    "a finite number of bits per second above 0"
);
float_quantity!(
    /// Floating-point operations (one multiply-add is two).
    Flops,
    "operation count",
    "FLOP",
    |v| v > 0.0,
    "a finite number of operations above 0"
);
float_quantity!(
    /// Weight of a task in a weighted objective.
    Weight,
    "weight",
    "(weight)",
    |v| v > 0.0,
    "a finite number above 0"
);

impl Seconds {
    /// No time.
    pub const ZERO: Seconds = Seconds(0.0);
}

/// A number of bytes, at most 2^53 so that it survives a trip through JSON numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(u64);

impl Bytes {
    /// Largest representable count: 2^53.
    pub const MAX: u64 = 1 << 53;

    /// Builds a byte count; fails above [`Bytes::MAX`].
    pub fn new(value: u64) -> Result<Self, UnitError> {
        if value <= Self::MAX {
            Ok(Self(value))
        } else {
            Err(UnitError::new(
                "byte count",
                value,
                "an integer from 0 to 2^53",
            ))
        }
    }

    /// The count.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Time to send this many bytes over a link of `bandwidth`: `8 bytes / bandwidth`.
    #[must_use]
    pub fn transfer_seconds(self, bandwidth: Bandwidth) -> f64 {
        self.0 as f64 * 8.0 / bandwidth.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_is_not_finite() {
        for v in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
            assert!(Seconds::new(v).is_err());
            assert!(SamplesPerSec::new(v).is_err());
            assert!(Bandwidth::new(v).is_err());
        }
        assert!(Bandwidth::new(0.0).is_err());
        assert_eq!(Seconds::new(-0.0).unwrap().get().to_bits(), 0);
    }

    #[test]
    fn transfer_time_is_bits_over_bandwidth() {
        let link = Bandwidth::new(400e6).unwrap();
        let t = Bytes::new(30_000_000).unwrap().transfer_seconds(link);
        assert!((t - 0.6).abs() < 1e-12);
    }
}
