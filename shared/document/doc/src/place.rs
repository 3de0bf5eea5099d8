//! Locates a JSON path in the text of a document.

use std::collections::BTreeMap;

/// For each path (`$.tasks[1].weight`), the number of lines from the start of `text` (a parsed JSON value) to the
/// place of the path. If a field is missing, the place is the last existing value on the way.
pub(crate) fn lines_to<'p>(text: &[u8], paths: impl Iterator<Item = &'p str>) -> Vec<u64> {
    let mut reader = Reader {
        text,
        at: 0,
        passed: BTreeMap::new(),
    };
    let mut lines = |path: &str| {
        reader.at = 0;
        let place = reader.follow(path.strip_prefix('$').unwrap_or_default());
        let before = &text[..place.min(text.len())];
        before.iter().filter(|&&b| b == b'\n').count() as u64
    };
    paths.map(&mut lines).collect()
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    /// For each list, keyed by its start: how many elements were skipped, and the position after them. Faults come in
    /// the order of the elements. Finding a hundred of them at the end of 4 MB took a second when each search started
    /// from the beginning.
    passed: BTreeMap<usize, (usize, usize)>,
}

impl Reader<'_> {
    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    fn blanks(&mut self) {
        while self.peek().is_ascii_whitespace() {
            self.at += 1;
        }
    }

    /// Follows the rest of a path from the value that begins here, and returns the position of its end. The recursion
    /// is bounded, because [`Frames`](crate::Frames) refuses documents that nest too deeply.
    fn follow(&mut self, path: &str) -> usize {
        self.blanks();
        let here = self.at;
        match self.peek() {
            _ if path.is_empty() => here,
            b'{' => self.field(path).unwrap_or(here),
            b'[' => self.element(path).unwrap_or(here),
            _ => here,
        }
    }

    fn field(&mut self, path: &str) -> Option<usize> {
        let path = path.strip_prefix('.')?;
        loop {
            self.at += 1;
            self.blanks();
            let begin = self.at;
            if self.peek() != b'"' {
                return None;
            }
            self.skip();
            let name: String = serde_json::from_slice(self.text.get(begin..self.at)?).ok()?;
            self.blanks();
            self.at += 1;
            let rest = path.strip_prefix(name.as_str());
            if let Some(rest) = rest.filter(|r| r.is_empty() || r.starts_with(['.', '['])) {
                // The path ends at this field: return the position of its name.
                return Some(if rest.is_empty() {
                    begin
                } else {
                    self.follow(rest)
                });
            }
            self.skip();
            self.blanks();
            if self.peek() != b',' {
                return None;
            }
        }
    }

    fn element(&mut self, path: &str) -> Option<usize> {
        let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
        let index: usize = index.parse().ok()?;
        let begin = self.at;
        let passed = self.passed.get(&begin).copied();
        let (first, at) = passed.filter(|p| p.0 <= index).unwrap_or((0, begin));
        self.at = at;
        for _ in first..index {
            self.at += 1;
            self.skip();
            self.blanks();
            if self.peek() != b',' {
                return None;
            }
        }
        self.passed.insert(begin, (index, self.at));
        self.at += 1;
        Some(self.follow(rest))
    }

    /// Skips the value that begins here.
    fn skip(&mut self) {
        self.blanks();
        let mut depth = 0usize;
        loop {
            match self.peek() {
                b'"' => {
                    self.at += 1;
                    while !matches!(self.peek(), b'"' | 0) {
                        self.at += if self.peek() == b'\\' { 2 } else { 1 };
                    }
                    self.at += 1;
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' if depth > 0 => {
                    depth -= 1;
                    self.at += 1;
                }
                // The end of the enclosing value, or of the text.
                0 | b'}' | b']' => return,
                b',' if depth == 0 => return,
                _ => {
                    self.at += 1;
                    continue;
                }
            }
            if depth == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"{\"a\": [1,\n {\"x.y\": 2,\n  \"b\": {\"c\":\n \"}\\\"\",\n \"d\": 1}}],\n\"e\": -1.5e3 ,\n \"f\":[]}";

    #[test]
    fn leads_to_the_line() {
        for (path, line) in [
            ("$", 0),
            ("$.a", 0),
            ("$.a[0]", 0),
            ("$.a[1]", 1),
            ("$.a[1].x.y", 1),
            ("$.a[1].b", 2),
            ("$.a[1].b.c", 2),
            ("$.a[1].b.d", 4),
            ("$.a[1].b.none", 2),
            ("$.e", 5),
            ("$.f", 6),
            ("$.f[3]", 6),
            ("$.none", 0),
            ("nonsense", 0),
            ("", 0),
        ] {
            assert_eq!(lines_to(TEXT, [path].into_iter()), [line], "{path}");
        }
    }

    #[test]
    fn a_text_that_is_cut_ends_the_way() {
        for end in 0..TEXT.len() {
            lines_to(&TEXT[..end], ["$.a[1].b.d"].into_iter());
        }
    }

    /// Elements that an earlier search skipped are not scanned again, whatever the order of the paths.
    #[test]
    fn places_of_one_list_are_found_in_any_order() {
        let items: Vec<String> = (0..50).map(|i| format!("{{\"x\":[{i},\n7]}}")).collect();
        let text = format!("[{}]", items.join(",\n"));
        let order = [3, 9, 9, 4, 40, 2, 49, 0, 60];
        let paths: Vec<String> = order.iter().map(|i| format!("$[{i}].x[1]")).collect();
        let together = lines_to(text.as_bytes(), paths.iter().map(String::as_str));
        let alone = |path: &String| lines_to(text.as_bytes(), [path.as_str()].into_iter())[0];
        assert_eq!(together, paths.iter().map(alone).collect::<Vec<_>>());
        assert_eq!(together[..3], [7, 19, 19]);
    }
}
