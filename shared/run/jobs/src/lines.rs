/// Splits a stream of bytes into lines, which end in a line feed or, if they are overwritten (a progress bar), in a
/// carriage return. Keeps at most [`LineCutter::LONGEST`] of one line.
#[derive(Debug, Default)]
pub struct LineCutter {
    partial: Vec<u8>,
    /// The current line is too long and will be skipped.
    overlong: bool,
}

impl LineCutter {
    /// A longer line is skipped: no message is that long.
    pub const LONGEST: usize = 64 * 1024;

    /// Takes the next bytes and calls `line` for every line that they complete; the flag says whether the line ended in
    /// a carriage return. (A line that ends in both counts as one, and the empty line after it as another.) Returns the
    /// number of skipped lines.
    pub fn push(&mut self, mut bytes: &[u8], mut line: impl FnMut(&[u8], bool)) -> u64 {
        let mut passed_over = 0;
        while let Some(end) = bytes.iter().position(|b| matches!(b, b'\n' | b'\r')) {
            let (head, rest) = bytes.split_at(end);
            let over = rest[0] == b'\r';
            bytes = &rest[1..];
            if self.overlong || self.partial.len() + head.len() > Self::LONGEST {
                passed_over += 1;
            } else if self.partial.is_empty() {
                line(head, over);
            } else {
                self.partial.extend_from_slice(head);
                line(&self.partial, over);
            }
            self.partial.clear();
            self.overlong = false;
        }
        if self.overlong || self.partial.len() + bytes.len() > Self::LONGEST {
            self.overlong = true;
            self.partial = Vec::new();
        } else {
            self.partial.extend_from_slice(bytes);
        }
        passed_over
    }

    /// The last line, if the stream ends without a line end.
    pub fn finish(&mut self, line: impl FnOnce(&[u8], bool)) {
        if !self.partial.is_empty() {
            line(&self.partial, false);
            self.partial.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cut(chunks: &[&[u8]]) -> (Vec<Vec<u8>>, u64) {
        let mut cutter = LineCutter::default();
        let mut lines = Vec::new();
        let passed_over = chunks
            .iter()
            .map(|chunk| cutter.push(chunk, |l, _| lines.push(l.to_vec())))
            .sum();
        cutter.finish(|l, _| lines.push(l.to_vec()));
        (lines, passed_over)
    }

    proptest! {
        #[test]
        fn where_the_stream_is_cut_does_not_matter(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), any::<u8>()], 0..200),
            size in 1usize..20,
        ) {
            let chunks: Vec<&[u8]> = bytes.chunks(size).collect();
            prop_assert_eq!(cut(&chunks), cut(&[&bytes]));
        }
    }

    #[test]
    fn an_overlong_line_is_passed_over_and_the_next_is_read() {
        let long = vec![b'x'; 10 << 20];
        let chunks: Vec<&[u8]> = long.chunks(4096).chain([&b"\nnext\n"[..]]).collect();
        assert_eq!(cut(&chunks), (vec![b"next".to_vec()], 1));
    }
}
