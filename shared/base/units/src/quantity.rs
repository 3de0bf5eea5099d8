use std::fmt;

use crate::value::document_value;

/// A number that is not a valid value of the intended quantity.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{value} is not a {quantity}: {expected}")]
pub struct UnitError {
    /// The quantity under construction, for example `share`.
    pub quantity: &'static str,
    /// The offending value as text.
    pub value: String,
    /// The valid range.
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

/// A number in short form: `1e307` instead of three hundred digits.
#[must_use]
pub fn shown(value: f64) -> String {
    match value.abs() {
        0.0 | 1e-5..1e16 => value.to_string(),
        _ => format!("{value:e}"),
    }
}

/// Largest value of a quantity that is not an integer. A fit squares rates, an objective multiplies them with weights
/// and times, and a variance sums squares of such products: `10^30` to the eighth power is still finite. Real times
/// and speeds are far below: 10^30 s are 10^12 times the age of the universe.
pub const MOST: f64 = 1e30;

macro_rules! float_quantity {
    ($(#[$doc:meta])* $name:ident, $label:literal, $unit:literal, $ok:expr, $expected:literal, $schema:tt) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
        pub struct $name(f64);

        impl $name {
            #[doc = concat!("Builds a ", $label, "; the error says: ", $expected, ".")]
            pub fn new(value: f64) -> Result<Self, UnitError> {
                let ok: fn(f64) -> bool = $ok;
                if value <= MOST && ok(value) {
                    // Negative zero would print as "-0.0" and break byte-for-byte comparison.
                    Ok(Self(value + 0.0))
                } else {
                    Err(UnitError::new($label, shown(value), $expected))
                }
            }

            #[doc = concat!("The value in ", $unit, ".")]
            #[must_use]
            pub const fn get(self) -> f64 {
                self.0
            }
        }

        document_value!($name, f64, $name::new, get, $label, $expected, $schema);

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
    "a number of seconds from 0 to 1e30",
    {"type": "number", "minimum": 0, "maximum": MOST}
);
float_quantity!(
    /// Training throughput in samples per second.
    SamplesPerSec,
    "throughput",
    "samples/s",
    |v| v >= 0.0,
    "a number of samples per second from 0 to 1e30",
    {"type": "number", "minimum": 0, "maximum": MOST}
);
float_quantity!(
    /// Link speed in bits per second.
    Bandwidth,
    "bandwidth",
    "bit/s",
    |v| v > 0.0,
    "a number of bits per second above 0, at most 1e30",
    {"type": "number", "exclusiveMinimum": 0, "maximum": MOST}
);
float_quantity!(
    /// Floating-point operations (one multiply-add is two).
    Flops,
    "operation count",
    "FLOP",
    |v| v > 0.0,
    "a number of operations above 0, at most 1e30",
    {"type": "number", "exclusiveMinimum": 0, "maximum": MOST}
);
float_quantity!(
    /// Weight of a task in a weighted objective.
    Weight,
    "weight",
    "(weight)",
    |v| v > 0.0,
    "a number above 0, at most 1e30",
    {"type": "number", "exclusiveMinimum": 0, "maximum": MOST}
);

impl Seconds {
    /// No time.
    pub const ZERO: Seconds = Seconds(0.0);
}

/// A number of bytes, at most 2^53, so that a JSON number represents it exactly.
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

    /// Reads a size: a number with `B`, `kB`, `MB`, `GB`, `TB` (powers of 1000), `KiB`, `MiB`, `GiB`, `TiB`, or `K`,
    /// `M`, `G`, `T` (powers of 1024, as for MPS, docker and `ulimit`); in upper or lower case, with an optional
    /// blank between number and unit. A fraction of a byte is dropped.
    ///
    /// # Errors
    /// [`UnitError`] if it is not a valid size or above [`Bytes::MAX`].
    pub fn parse(text: &str) -> Result<Self, UnitError> {
        let wanted = "a size such as 24GB, 512MiB, 8G or a number of bytes, at most 2^53";
        let refused = || UnitError::new("size", text, wanted);
        let text = text.trim();
        let end = text.find(|c: char| c.is_ascii_alphabetic() && !matches!(c, 'e' | 'E'));
        let (number, unit) = text.split_at(end.unwrap_or(text.len()));
        let (power, base) = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => (0, 1.0),
            "kb" => (1, 1000.0),
            "mb" => (2, 1000.0),
            "gb" => (3, 1000.0),
            "tb" => (4, 1000.0),
            "k" | "kib" => (1, 1024.0),
            "m" | "mib" => (2, 1024.0),
            "g" | "gib" => (3, 1024.0),
            "t" | "tib" => (4, 1024.0),
            _ => return Err(refused()),
        };
        let number: f64 = number.trim().parse().map_err(|_| refused())?;
        let bytes = number * f64::powi(base, power);
        // The range check also rejects NaN.
        if !(0.0..=Self::MAX as f64).contains(&bytes) {
            return Err(refused());
        }
        Ok(Self(bytes as u64))
    }

    /// Time to send this many bytes over a link of `bandwidth`: `8 bytes / bandwidth`.
    #[must_use]
    pub fn transfer_seconds(self, bandwidth: Bandwidth) -> f64 {
        self.0 as f64 * 8.0 / bandwidth.get()
    }
}

impl fmt::Display for Bytes {
    /// With a decimal prefix and one decimal: `57.6 GB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
        match steps.iter().find(|(size, _)| self.0 as f64 >= *size) {
            Some((size, unit)) => write!(f, "{:.1} {unit}", self.0 as f64 / size),
            None => write!(f, "{} B", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_is_not_finite() {
        for v in [
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            -1.0,
            1.1 * MOST,
            f64::MAX,
        ] {
            assert!(Seconds::new(v).is_err());
            assert!(SamplesPerSec::new(v).is_err());
            assert!(Bandwidth::new(v).is_err());
        }
        assert!(Bandwidth::new(0.0).is_err());
        assert!(Seconds::new(MOST).is_ok());
        assert_eq!(Seconds::new(-0.0).unwrap().get().to_bits(), 0);
    }

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("0", 0),
            ("24GB", 24_000_000_000),
            ("24 gb", 24_000_000_000),
            ("1.5GiB", 3 << 29),
            ("8G", 8 << 30),
            ("512m", 512 << 20),
            ("1e6", 1_000_000),
            ("1e3kB", 1_000_000),
            ("7b", 7),
        ] {
            assert_eq!(Bytes::parse(text).unwrap().get(), bytes, "{text}");
        }
        for bad in [
            "", "GB", "-1", "1 apple", "nan", "inf", "1e30", "24 G B", "1e", "0x10",
        ] {
            assert!(Bytes::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn bytes_are_shown_with_a_decimal_prefix() {
        let shown = |bytes: u64| Bytes::new(bytes).unwrap().to_string();
        assert_eq!(shown(57_563_682_176), "57.6 GB");
        assert_eq!(shown(1_000_000), "1.0 MB");
        assert_eq!(shown(999), "999 B");
    }

    #[test]
    fn transfer_time_is_bits_over_bandwidth() {
        let link = Bandwidth::new(400e6).unwrap();
        let t = Bytes::new(30_000_000).unwrap().transfer_seconds(link);
        assert!((t - 0.6).abs() < 1e-12);
    }
}
