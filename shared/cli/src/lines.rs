use std::io::{self, BufRead};

/// Maximum length of a line. Most events have some hundred bytes, but the launch event of a run contains a whole
/// plan with its model.
pub const LONGEST: usize = 1 << 20;

/// The lines of an endless stream, in bounded memory.
#[derive(Debug)]
pub struct Lines<R> {
    input: R,
    number: u64,
}

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// The bytes of the line without the line feed, and its number, from 1.
    Text(Vec<u8>, u64),
    /// It was longer than [`LONGEST`] and was skipped.
    TooLong(u64),
}

impl<R: BufRead> Lines<R> {
    /// Reads from `input`.
    #[must_use]
    pub fn new(input: R) -> Self {
        Self { input, number: 0 }
    }

    fn read(&mut self) -> io::Result<Option<Line>> {
        let mut text = Vec::new();
        let mut too_long = false;
        let mut begun = false;
        loop {
            let chunk = match self.input.fill_buf() {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                chunk => chunk?,
            };
            let end = chunk.iter().position(|b| *b == b'\n');
            let part = &chunk[..end.unwrap_or(chunk.len())];
            begun |= !chunk.is_empty();
            too_long |= text.len() + part.len() > LONGEST;
            if !too_long {
                text.extend_from_slice(part);
            }
            let done = end.is_some() || chunk.is_empty();
            let used = end.map_or(chunk.len(), |at| at + 1);
            self.input.consume(used);
            if done {
                break;
            }
        }
        self.number += 1;
        Ok(match (begun, too_long) {
            (false, _) => None,
            (true, true) => Some(Line::TooLong(self.number)),
            (true, false) => Some(Line::Text(text, self.number)),
        })
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = io::Result<Line>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, Read};

    fn lines(input: impl Read) -> Vec<Line> {
        let read = Lines::new(BufReader::with_capacity(7, input));
        read.map(Result::unwrap).collect()
    }

    #[test]
    fn lines_are_numbered_and_the_last_needs_no_line_feed() {
        let text = |t: &str, n| Line::Text(t.as_bytes().to_vec(), n);
        assert_eq!(
            lines(&b"one\n\nthree is longer\nfour"[..]),
            [
                text("one", 1),
                text("", 2),
                text("three is longer", 3),
                text("four", 4)
            ]
        );
        assert_eq!(lines(&b""[..]), []);
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over() {
        let long = io::repeat(b'x').take(LONGEST as u64 + 1);
        let found = lines(long.chain(&b"\nnext\n"[..]));
        assert_eq!(found, [Line::TooLong(1), Line::Text(b"next".to_vec(), 2)]);
    }
}
