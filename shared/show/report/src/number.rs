//! Formats numbers for people.

/// Significant digits in a report.
const SIGNIFICANT: i32 = 4;

/// Number of decimals that shows the largest of some numbers with four significant digits, but not more decimals than
/// the numbers have.
pub fn decimals(values: impl Iterator<Item = f64>) -> usize {
    let finite: Vec<f64> = values.filter(|v| v.is_finite()).collect();
    let most = finite.iter().copied().map(f64::abs).fold(0.0, f64::max);
    if most == 0.0 {
        return 0;
    }
    let magnitude = most.log10().floor() as i32;
    let wanted = (SIGNIFICANT - 1 - magnitude).clamp(0, 9) as usize;
    let needed = finite.iter().map(|&value| {
        let text = fixed(value, wanted);
        let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
        fraction.trim_end_matches('0').len()
    });
    needed.max().unwrap_or(0)
}

/// A number with four significant digits.
pub fn plain(value: f64) -> String {
    fixed(value, decimals([value].into_iter()))
}

/// A number with the given decimals; never a negative zero.
pub fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let zero = text.starts_with('-') && !text.contains(|c: char| ('1'..='9').contains(&c));
    if zero { text[1..].to_owned() } else { text }
}

/// A number of bytes with a decimal prefix.
pub fn bytes(count: u64) -> String {
    let steps = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let value = count as f64;
    steps.iter().find(|(size, _)| value >= *size).map_or_else(
        || format!("{count} B"),
        |(size, unit)| format!("{} {unit}", plain(value / size)),
    )
}

/// Bits per second with a decimal prefix.
pub fn bandwidth(bits: f64) -> String {
    let steps = [
        (1e9, "Gbit/s"),
        (1e6, "Mbit/s"),
        (1e3, "kbit/s"),
        (0.0, "bit/s"),
    ];
    let found = steps.iter().find(|(size, _)| bits >= *size);
    found.map_or_else(String::new, |(size, unit)| {
        let value = if *size > 0.0 { bits / size } else { bits };
        format!("{} {unit}", plain(value))
    })
}

/// A ratio as a change in percent with its sign: 1.132 is `+13.2 %`.
pub fn change(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits() {
        assert_eq!(plain(1886.54), "1887");
        assert_eq!(plain(0.012_341), "0.01234");
        assert_eq!(plain(0.0), "0");
        assert_eq!(fixed(-0.0001, 2), "0.00");
        assert_eq!(fixed(-1.5, 1), "-1.5");
    }

    #[test]
    fn prefixes() {
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(30_000_000), "30 MB");
        assert_eq!(bandwidth(4e8), "400 Mbit/s");
        assert_eq!(bandwidth(1.5e9), "1.5 Gbit/s");
        assert_eq!(bandwidth(10.0), "10 bit/s");
        assert_eq!(change(0.9), "-10.0 %");
    }
}
