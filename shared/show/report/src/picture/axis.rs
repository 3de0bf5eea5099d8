//! A linear axis with round ticks.

use super::palette::{GRID, INK};
use super::svg::{Anchor, Canvas};
use crate::number::fixed;

/// Maps values to pixels.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    /// Values of the ticks.
    pub ticks: Vec<f64>,
    decimals: usize,
}

impl Axis {
    /// An axis that covers `low` to `high`, drawn from pixel `from` to pixel `to`, with about `count` ticks at 1, 2
    /// or 5 times a power of ten. The ends are ticks.
    pub fn new(low: f64, high: f64, from: f64, to: f64, count: f64) -> Self {
        let high = if high > low {
            high
        } else {
            low + low.abs().max(1.0)
        };
        let raw = (high - low) / count;
        let power = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|m| m * power)
            // Accept a step that is a round number up to floating-point error, instead of the next larger step.
            .find(|s| *s >= raw * 0.999)
            .unwrap_or(10.0 * power);
        let first = (low / step).floor();
        let last = (high / step - 1e-9).ceil();
        // If the range is tiny compared with its values, floating-point error makes the number of ticks useless:
        // keep it between 1 and 1,000, although the ticks are not exact.
        let count = (last - first).clamp(1.0, 1000.0) as usize;
        let ticks: Vec<f64> = (0..=count).map(|i| (first + i as f64) * step).collect();
        Self {
            low: first * step,
            high: (first + count as f64) * step,
            from,
            to,
            ticks,
            decimals: (-step.log10().floor()).clamp(0.0, 9.0) as usize,
        }
    }

    /// An axis that ends exactly at `high`, for time.
    pub fn exact(low: f64, high: f64, from: f64, to: f64, count: f64) -> Self {
        let mut axis = Self::new(low, high, from, to, count);
        axis.high = if high > low { high } else { axis.high };
        axis.low = low;
        let room = 1e-9 * (axis.high - low);
        axis.ticks
            .retain(|t| *t >= low - room && *t <= axis.high + room);
        axis
    }

    /// Converts a value to its pixel.
    pub fn at(&self, value: f64) -> f64 {
        let part = (value - self.low) / (self.high - self.low);
        self.from + part * (self.to - self.from)
    }

    /// The text of a tick.
    pub fn tick(&self, value: f64) -> String {
        fixed(value, self.decimals)
    }

    /// Draws grid lines up from `bottom` to `top`, tick labels and the title below.
    pub fn horizontal(&self, canvas: &mut Canvas, top: f64, bottom: f64, title: &str) {
        for &t in &self.ticks {
            let x = self.at(t);
            canvas.line((x, top), (x, bottom), &format!("stroke=\"{GRID}\""));
            canvas.label(x, bottom + 16.0, 11.0, Anchor::Middle, &self.tick(t));
        }
        let style = format!("stroke=\"{INK}\"");
        canvas.line((self.from, bottom), (self.to, bottom), &style);
        let middle = f64::midpoint(self.from, self.to);
        canvas.label(middle, bottom + 34.0, 12.0, Anchor::Middle, title);
    }

    /// Draws grid lines from `left` to `right`, tick labels, and the title at their left.
    pub fn vertical(&self, canvas: &mut Canvas, left: f64, right: f64, title: &str) {
        for &t in &self.ticks {
            let y = self.at(t);
            canvas.line((left, y), (right, y), &format!("stroke=\"{GRID}\""));
            canvas.label(left - 6.0, y + 4.0, 11.0, Anchor::End, &self.tick(t));
        }
        let style = format!("stroke=\"{INK}\"");
        canvas.line((left, self.from), (left, self.to), &style);
        canvas.upwards(18.0, f64::midpoint(self.from, self.to), 12.0, title);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_hold_the_range() {
        for (low, high) in [
            (0.0, 2345.0),
            (0.0, 1.37),
            (120.0, 300.0),
            (-3.0, 8.0),
            (5.0, 5.0),
        ] {
            let axis = Axis::new(low, high, 0.0, 100.0, 6.0);
            assert!(axis.ticks[0] <= low && *axis.ticks.last().unwrap() >= high);
            assert!((2..=12).contains(&axis.ticks.len()), "{:?}", axis.ticks);
        }
        assert_eq!(Axis::new(0.0, 1.0, 0.0, 1.0, 5.0).tick(0.2), "0.2");
    }
}
