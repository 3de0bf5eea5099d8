/// The best answer so far of a search for the least value.
#[derive(Debug, Clone, PartialEq)]
pub struct Incumbent<T> {
    value: f64,
    answer: Option<T>,
}

impl<T> Default for Incumbent<T> {
    fn default() -> Self {
        Self {
            value: f64::INFINITY,
            answer: None,
        }
    }
}

impl<T> Incumbent<T> {
    /// No answer yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Its value; infinite while there is none.
    #[must_use]
    pub fn value(&self) -> f64 {
        self.value
    }

    /// The answer, if there is one.
    #[must_use]
    pub fn answer(&self) -> Option<&T> {
        self.answer.as_ref()
    }

    /// Takes a better answer; one of the same value, or of one that is not a number, is not
    /// better. Returns whether it was.
    pub fn offer(&mut self, value: f64, answer: impl FnOnce() -> T) -> bool {
        let better = value < self.value;
        if better {
            self.value = value;
            self.answer = Some(answer());
        }
        better
    }

    /// The value and the answer, if there is one.
    #[must_use]
    pub fn into_answer(self) -> Option<(f64, T)> {
        let value = self.value;
        self.answer.map(|answer| (value, answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_equals_stays() {
        let mut best = Incumbent::new();
        assert!(!best.offer(f64::NAN, || "none"));
        assert!(best.offer(2.0, || "two"));
        assert!(!best.offer(2.0, || "other"));
        assert!(best.offer(1.0, || "one"));
        assert_eq!(best.value(), 1.0);
        assert_eq!(best.into_answer(), Some((1.0, "one")));
    }
}
