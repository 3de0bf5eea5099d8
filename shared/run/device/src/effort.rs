//! Load on the device due to the measurement itself.

use std::time::Instant;

use jobs::process;

/// Fraction of a processor above which the measurement itself disturbs the result: twice the default standard error
/// that ends a window.
const MUCH: f64 = 0.02;

/// Processor time of this program while it counted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Effort {
    used_s: f64,
    counted_s: f64,
}

/// A count in progress.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun {
    at: Instant,
    used_s: Option<f64>,
}

/// Seconds of processor time of this process; `None` if `/proc` does not report it.
fn used() -> Option<f64> {
    process::cpu_seconds(std::process::id().cast_signed())
}

impl Effort {
    pub(crate) fn begin(&self) -> Begun {
        Begun {
            at: Instant::now(),
            used_s: used(),
        }
    }

    pub(crate) fn end(&mut self, begun: Begun) {
        if let (Some(before), Some(after)) = (begun.used_s, used()) {
            self.used_s += (after - before).max(0.0);
            self.counted_s += begun.at.elapsed().as_secs_f64();
        }
    }

    /// Part of a message about the processor time, if it is large enough to disturb the measurement; otherwise empty.
    pub(crate) fn told(&self) -> String {
        let part = self.used_s / self.counted_s;
        if part > MUCH {
            return format!(
                "; mt-profile itself used {:.1} % of a processor meanwhile: let the jobs report progress less often",
                100.0 * part
            );
        }
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_much_is_told() {
        let effort = |used_s| Effort {
            used_s,
            counted_s: 10.0,
        };
        assert_eq!(Effort::default().told(), "");
        assert_eq!(effort(0.1).told(), "");
        assert!(effort(0.5).told().contains("5.0 % of a processor"));
    }
}
