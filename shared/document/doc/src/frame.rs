use std::fmt;
use std::io::BufRead;

use crate::{Code, Fault, Faults, ReadError};

/// Maximum size of one document in bytes: 64 MiB.
pub const MAX_DOCUMENT_BYTES: usize = 64 << 20;
/// Maximum nesting depth of brackets in one document.
pub const MAX_DEPTH: usize = 64;

/// The bytes of one top-level JSON value, and where it began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The bytes of the value, exactly as in the input.
    pub bytes: Vec<u8>,
    /// The file, or `<stdin>`.
    pub source_name: String,
    /// Line on which the value begins, from 1.
    pub line: u64,
}

/// First bytes of the documents that grow record by record, one per line.
const GROWING: [&[u8]; 2] = [b"{\"schema\":\"mt.profile/", b"{\"schema\":\"mt.run/"];

/// Shows a warning to the user.
type Warn = Box<dyn Fn(&str)>;

/// What to do about a truncated record.
struct OnCut(Option<Warn>);

impl fmt::Debug for OnCut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnCut").field(&self.0.is_some()).finish()
    }
}

/// Splits a stream into top-level JSON objects without holding more than one in memory.
///
/// Only brackets and strings are examined; parsing decides later whether the object is JSON.
/// Objects may span lines (as people write them) or be one per line.
#[derive(Debug)]
pub struct Frames<R> {
    input: R,
    source_name: String,
    line: u64,
    done: bool,
    /// Whether the previous document was a record of a profile or run.
    grows: bool,
    on_cut: OnCut,
}

#[derive(Default)]
struct Scan {
    bytes: Vec<u8>,
    depth: usize,
    in_string: bool,
    escaped: bool,
}

enum Step {
    More,
    Complete,
    TooDeep,
    Stray(u8),
}

impl Scan {
    fn step(&mut self, byte: u8) -> Step {
        if self.depth == 0 {
            return match byte {
                b' ' | b'\t' | b'\r' | b'\n' => Step::More,
                // A byte order mark, which Windows editors put at the start of a text file.
                0xef | 0xbb | 0xbf => Step::More,
                b'{' => {
                    self.depth = 1;
                    self.bytes.push(byte);
                    Step::More
                }
                other => Step::Stray(other),
            };
        }
        self.bytes.push(byte);
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return Step::More;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => {
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return Step::TooDeep;
                }
            }
            b'}' | b']' => {
                self.depth -= 1;
                if self.depth == 0 {
                    return Step::Complete;
                }
            }
            _ => {}
        }
        Step::More
    }
}

impl<R: BufRead> Frames<R> {
    /// Reads from `input`; messages refer to it as `source_name`.
    pub fn new(input: R, source_name: impl Into<String>) -> Self {
        Self {
            input,
            source_name: source_name.into(),
            line: 1,
            done: false,
            grows: false,
            on_cut: OnCut(None),
        }
    }

    /// Drops the last record of a profile or run if the input ends inside it, and calls `warn`. A
    /// killed tool leaves such output, and any prefix of these documents is valid. Only a record on
    /// one line is dropped: in a document that spans lines, or after a missing bracket further up,
    /// everything that follows would be lost.
    #[must_use]
    pub fn without_cut_record(mut self, warn: impl Fn(&str) + 'static) -> Self {
        self.on_cut = OnCut(Some(Box::new(warn)));
        self
    }

    /// The name by which messages refer to the input.
    #[must_use]
    pub fn source_name(&self) -> &str {
        &self.source_name
    }

    fn fail(
        &mut self,
        code: Code,
        line: u64,
        problem: String,
        advice: &str,
    ) -> Option<Result<Frame, ReadError>> {
        self.done = true;
        Some(Err(ReadError::Faults(Faults {
            source_name: self.source_name.clone(),
            line,
            lines: Vec::new(),
            faults: vec![Fault {
                code,
                path: String::new(),
                problem,
                advice: advice.to_owned(),
            }],
        })))
    }

    fn end_of_input(&mut self, scan: &Scan, start: u64) -> Option<Result<Frame, ReadError>> {
        if scan.depth == 0 {
            self.done = true;
            return None;
        }
        if let Some(warn) = self
            .on_cut
            .0
            .as_ref()
            .filter(|_| self.grows && start == self.line)
        {
            warn(&format!(
                "{}:{start}: the input ends inside this record; it is left out",
                self.source_name
            ));
            self.done = true;
            return None;
        }
        let problem = format!("the input ends inside the document that begins on line {start}");
        self.fail(
            Code::Truncated,
            self.line,
            problem,
            "write the complete document again",
        )
    }

    fn next_frame(&mut self) -> Option<Result<Frame, ReadError>> {
        let mut scan = Scan::default();
        let mut start = self.line;
        loop {
            let chunk = match self.input.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.done = true;
                    return Some(Err(ReadError::Io {
                        source_name: self.source_name.clone(),
                        error,
                    }));
                }
            };
            if chunk.is_empty() {
                return self.end_of_input(&scan, start);
            }
            let mut outcome = Step::More;
            let mut used = 0;
            for &byte in chunk {
                used += 1;
                if scan.depth == 0 {
                    start = self.line;
                }
                if byte == b'\n' {
                    self.line += 1;
                }
                outcome = scan.step(byte);
                if !matches!(outcome, Step::More) {
                    break;
                }
            }
            self.input.consume(used);
            match outcome {
                Step::More if scan.bytes.len() > MAX_DOCUMENT_BYTES => {
                    let problem = format!("a document has more than {MAX_DOCUMENT_BYTES} bytes");
                    return self.fail(Code::TooLarge, start, problem, "split it into several");
                }
                Step::More => {}
                Step::Complete => {
                    self.grows = GROWING.iter().any(|begin| scan.bytes.starts_with(begin));
                    return Some(Ok(Frame {
                        bytes: scan.bytes,
                        source_name: self.source_name.clone(),
                        line: start,
                    }));
                }
                Step::TooDeep => {
                    let problem = format!("more than {MAX_DEPTH} levels of brackets");
                    let line = self.line;
                    return self.fail(Code::TooDeep, line, problem, "is this the right file?");
                }
                Step::Stray(byte) => {
                    let problem = format!(
                        "expected a document, which begins with '{{', and found '{}'",
                        byte.escape_ascii()
                    );
                    return self.fail(Code::Syntax, start, problem, "give JSON objects");
                }
            }
        }
    }
}

impl<R: BufRead> Iterator for Frames<R> {
    type Item = Result<Frame, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done { None } else { self.next_frame() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(text: &str) -> Vec<Result<(String, u64), Code>> {
        Frames::new(text.as_bytes(), "t")
            .map(|frame| match frame {
                Ok(frame) => Ok((String::from_utf8(frame.bytes).unwrap(), frame.line)),
                Err(ReadError::Faults(faults)) => Err(faults.faults[0].code),
                Err(error) => panic!("{error}"),
            })
            .collect()
    }

    #[test]
    fn splits_objects_over_and_within_lines() {
        let got = frames("{\"a\":\"}{\\\"\"} {}\n\n{\n\"b\":[1]}\n");
        let want = [("{\"a\":\"}{\\\"\"}", 1), ("{}", 1), ("{\n\"b\":[1]}", 3)];
        assert_eq!(got.len(), 3);
        for (got, (text, line)) in got.iter().zip(want) {
            assert_eq!(got, &Ok((text.to_owned(), line)));
        }
    }

    /// Interrupts every other read, and returns one byte at a time.
    struct Interrupted<'a>(&'a [u8], bool);

    impl std::io::Read for Interrupted<'_> {
        fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(std::io::ErrorKind::Interrupted.into());
            }
            let n = self.0.len().min(to.len()).min(1);
            to[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    #[test]
    fn a_signal_while_reading_ends_nothing() {
        let input = std::io::BufReader::new(Interrupted(b"{\"a\":1} {}", false));
        let got: Vec<_> = Frames::new(input, "t").map(|f| f.unwrap().bytes).collect();
        assert_eq!(got, [b"{\"a\":1}".to_vec(), b"{}".to_vec()]);
    }

    #[test]
    fn says_what_ends_a_stream() {
        assert_eq!(frames(""), []);
        assert_eq!(frames("{\"a\":1"), [Err(Code::Truncated)]);
        assert_eq!(frames("NaN"), [Err(Code::Syntax)]);
        assert_eq!(
            frames(&format!("{{\"a\":{}", "[".repeat(10_000))),
            [Err(Code::TooDeep)]
        );
    }

    #[test]
    fn a_cut_record_is_left_out_where_that_is_asked_for() {
        let record = r#"{"schema":"mt.run/1","event":"stop"}"#;
        let told = std::rc::Rc::new(std::cell::RefCell::new(String::new()));
        let count = |text: &str| -> (usize, bool, String) {
            let into = std::rc::Rc::clone(&told);
            into.borrow_mut().clear();
            let frames = Frames::new(text.as_bytes(), "t")
                .without_cut_record(move |warning| into.borrow_mut().push_str(warning));
            let all: Vec<_> = frames.collect();
            (all.len(), all.iter().all(Result::is_ok), told.take())
        };
        for at in 1..record.len() {
            let (frames, ok, told) = count(&format!("{record}\n{}", &record[..at]));
            assert!(frames == 1 && ok && told.starts_with("t:2: "), "{told}");
        }
        // Not dropped: a first record, another kind of document, and a record after a missing
        // bracket.
        for refused in [
            record[..9].to_owned(),
            "{\"schema\":\"mt.plan/1\"}\n{\"schema\"".to_owned(),
            format!("{record}\n{}\n{record}\n", &record[..record.len() - 1]),
        ] {
            let (_, ok, told) = count(&refused);
            assert!(!ok && told.is_empty(), "{refused}");
        }
        assert_eq!(count(&format!("{record}\n")), (1, true, String::new()));
    }

    #[test]
    fn refuses_a_document_without_end() {
        let endless = std::io::Read::chain(&b"{\"a\":\""[..], std::io::repeat(b'x'));
        let mut frames = Frames::new(std::io::BufReader::new(endless), "t");
        let Some(Err(ReadError::Faults(faults))) = frames.next() else {
            panic!("must be refused");
        };
        assert_eq!(faults.faults[0].code, Code::TooLarge);
        assert!(frames.next().is_none());
    }
}
