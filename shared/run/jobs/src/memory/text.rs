//! Finds out whether the end of a log reports a lack of memory.
//!
//! The last exception decides. A job may have recovered from an earlier one with a smaller batch size; then its last
//! exception is another one, or it continued to work. The exact rules, over the lines from first to last:
//!
//! 1. A line that reports a lack of memory, as an exception or another error, is remembered.
//! 2. A different exception clears it. An exception is the line after a traceback, or a line that begins with the name
//!    of an exception or with C++'s `terminate called`. Three kinds do not clear it: exceptions that only report the
//!    end of another process, that the previous exception directly caused, or that Python ignores while it exits.
//! 3. Continued work clears it: a step of the worker protocol, or three lines that differ only in their numbers. Two
//!    such lines may be the reports of two ranks.
//! 4. A line that is still remembered at the end counts. The last line also counts if it reports a lack of memory
//!    without the word error.
//!
//! All other lines, such as those of frameworks, launchers and exit handlers, change nothing.

use std::collections::BTreeMap;

use crate::protocol::without_colours;

/// Phrases for a lack of memory in lower case, in the order: PyTorch, CUDA, JAX and Java; TensorFlow; C++; cuDNN and
/// cuBLAS; the C library; PyTorch's allocator for processors; CUDA's runtime; Rust.
const WORDS: [&str; 9] = [
    "out of memory",
    "out_of_memory",
    "outofmemory",
    "oom when allocating",
    "std::bad_alloc",
    "status_alloc_failed",
    "cannot allocate memory",
    "can't allocate memory",
    "cudaerrormemoryallocation",
];

/// gRPC and cloud services use this code for quotas as well, so the line must also contain one of [`SCARCE`].
const EXHAUSTED: [&str; 2] = ["resource_exhausted", "resourceexhausted"];
const SCARCE: [&str; 3] = ["alloc", "memory", "oom"];

/// Words that mark a line as an error.
const ERRORS: [&str; 6] = ["error", "fatal", "fail", "abort", "terminate", "bad_alloc"];
/// Words that mark a line as no error: reports of attempts, and of TensorFlow's allocator when it tries another way.
const ATTEMPTS: [&str; 5] = ["warn", "retry", "trying again", "not a failure", "smaller"];

/// Last parts of the names of exceptions that only report how another process ended: torchrun, accelerate and
/// subprocess, multiprocessing, and NCCL of another rank.
const REPORTS: [&str; 8] = [
    "ChildFailedError",
    "CalledProcessError",
    "ProcessExitedException",
    "BrokenProcessPool",
    "DistBackendError",
    "BrokenPipeError",
    "ConnectionResetError",
    "EOFError",
];

/// Lines that Python prints before an exception that was caused by the previous one, or that does not end the program.
const HARMLESS: [&str; 4] = [
    "The above exception was the direct cause",
    "Exception ignored in",
    "Exception in thread",
    "Error in atexit",
];

const TRACEBACK: &str = "Traceback (most recent call last):";
/// Prefix of the lines of wandb, which prints upload progress after the end of the training.
const UPLOADS: &str = "wandb:";
/// Number of lines that differ only in their numbers and so show that work continued.
const GOES_ON: usize = 3;

/// The line at the end of a log that reports a lack of memory; see the module documentation.
pub(super) fn said(text: &str) -> Option<String> {
    let mut reader = Reader::default();
    // A progress bar overwrites its line with carriage returns.
    for line in text.split(['\n', '\r']) {
        let bytes = without_colours(line.as_bytes());
        let plain = String::from_utf8_lossy(&bytes);
        let printed = without_rank(&plain).trim_end();
        if !printed.is_empty() {
            reader.read(printed);
        }
    }
    reader.said.or(reader.last)
}

#[derive(Default)]
struct Reader {
    said: Option<String>,
    /// The last line, if it reports a lack of memory.
    last: Option<String>,
    /// Whether the next line without indentation is an exception.
    in_traceback: bool,
    /// Whether the next exception must be ignored.
    harmless: bool,
    /// Lines since the remembered one, grouped by their letters without numbers.
    work: BTreeMap<String, Vec<String>>,
}

impl Reader {
    fn read(&mut self, line: &str) {
        self.last = None;
        if line.ends_with(TRACEBACK) {
            self.in_traceback = true;
            return;
        }
        if HARMLESS.iter().any(|start| line.starts_with(start)) {
            self.harmless = true;
            return;
        }
        let margin = line.starts_with(char::is_whitespace);
        let named = !margin && is_exception(line);
        let exception = named || !margin && self.in_traceback;
        self.in_traceback &= margin;
        if let Some(line) = states(line, exception) {
            self.work.clear();
            match exception || is_error(&line) {
                true => self.said = Some(line),
                false => self.last = Some(line),
            }
        } else if exception {
            if !self.harmless && !is_report(line) {
                self.said = None;
            }
        } else if self.said.is_some() && self.goes_on(line, margin) {
            self.said = None;
        }
        self.harmless &= !exception;
    }

    /// Whether a line shows that the job continued to work after the remembered line.
    fn goes_on(&mut self, line: &str, margin: bool) -> bool {
        if line.starts_with(r#"{"mt":"step""#) {
            return true;
        }
        // Indented lines belong to tracebacks and reports, except those with `|`, which are progress bars. Lines with
        // addresses belong to the stack of a crashed program.
        let counts = line.contains(|c: char| c.is_ascii_digit());
        let is_part = margin && !line.contains('|') || line.contains("0x");
        if !counts || is_part || line.starts_with(UPLOADS) {
            return false;
        }
        let shape: String = line.chars().filter(|c| c.is_alphabetic()).collect();
        let alike = self.work.entry(shape).or_default();
        if !alike.iter().any(|seen| seen == line) {
            alike.push(line.to_owned());
        }
        alike.len() >= GOES_ON
    }
}

/// Removes the prefix that launchers add to the lines of a rank: `[rank0]: `, `[1,0]<stderr>:`.
fn without_rank(line: &str) -> &str {
    let Some((_, rest)) = line.strip_prefix('[').and_then(|l| l.split_once(']')) else {
        return line;
    };
    ["<stderr>", ":", " "]
        .iter()
        .fold(rest, |rest, part| rest.strip_prefix(part).unwrap_or(rest))
}

/// The trimmed line, if it reports a lack of memory.
fn states(line: &str, exception: bool) -> Option<String> {
    let small = line.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| small.contains(word));
    let rust = small.contains("memory allocation of ") && small.ends_with(" bytes failed");
    // Python's own exception, and numpy's.
    let python = exception && name_of(line).ends_with("MemoryError");
    // TensorFlow names the resource only on a later line.
    let tensorflow = exception && name_of(line).ends_with("ResourceExhaustedError");
    let states = has(&WORDS) || rust || python || tensorflow || has(&EXHAUSTED) && has(&SCARCE);
    states.then(|| line.trim().to_owned())
}

fn is_error(line: &str) -> bool {
    let small = line.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| small.contains(word));
    has(&ERRORS) && !has(&ATTEMPTS)
}

/// The text before the colon: the name of an exception with its module, if the line is an exception.
fn name_of(line: &str) -> &str {
    line.split_once(':').map_or(line, |(name, _)| name)
}

fn is_exception(line: &str) -> bool {
    let name = name_of(line);
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_');
    let ends = ["Error", "Exception", "Interrupt", "Exit"];
    let python = name.chars().all(is_name) && ends.iter().any(|end| name.ends_with(end));
    python || line.starts_with("terminate called")
}

fn is_report(line: &str) -> bool {
    REPORTS.iter().any(|name| name_of(line).ends_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TORCH: &str = "Traceback (most recent call last):\n  File \"t.py\", line 3, in <module>\n    x = y.cuda()\n        ^^^^^^^^\n\
                         torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n";
    const OTHER: &str = "Traceback (most recent call last):\n  File \"t.py\", line 9, in <module>\n\
                         shop.ClosedToday\n";

    #[test]
    fn every_framework_is_understood() {
        for text in [
            TORCH,
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB",
            "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7 GiB total)",
            "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
            "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
            "RuntimeError: [enforce fail at alloc_cpu.cpp:83] DefaultCPUAllocator: can't allocate memory: you tried",
            "error: CUDA_ERROR_OUT_OF_MEMORY",
            "CUDA error at main.cu:12: out of memory\nAborted (core dumped)",
            "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 10 bytes.",
            "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate request for 4.00GiB",
            "tensorflow.python.framework.errors_impl.ResourceExhaustedError: Graph execution error:\n\nDetected at node",
            "ResourceExhaustedError:  OOM when allocating tensor with shape[64,512] and type float",
            "MemoryError",
            "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7.45 GiB for an array",
            "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc",
            "terminate called after throwing an instance of 'std::runtime_error'\n  what():  cudaMalloc failed: out of memory",
            "OSError: [Errno 12] Cannot allocate memory",
            "bash: fork: Cannot allocate memory",
            "memory allocation of 8589934592 bytes failed",
            "\x1b[31mtorch.OutOfMemoryError\x1b[0m: CUDA out of memory.",
        ] {
            assert!(said(text).is_some(), "{text}");
        }
        assert!(
            said(TORCH)
                .unwrap()
                .starts_with("torch.OutOfMemoryError: CUDA")
        );
    }

    #[test]
    fn lines_that_follow_do_not_hide_it() {
        for after in [
            "\nSet the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.",
            "--------------------\nFor simplicity, JAX has removed its internal frames from the traceback.",
            "wandb: - 1 MB of 9 MB uploaded\nwandb: - 2 MB of 9 MB uploaded\nwandb: - 9 MB of 9 MB uploaded",
            "Exception ignored in: <function F.__del__ at 0x7f>\nTraceback (most recent call last):\n  File \"a\"\nTypeError: x",
            "Traceback (most recent call last):\n  File \"torchrun\"\n\
             torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n=====\n  rank      : 1\n  rank      : 2\n  rank      : 3",
            "subprocess.CalledProcessError: Command '['python']' returned non-zero exit status 1.",
            "\nThe above exception was the direct cause of the following exception:\n\n\
             Traceback (most recent call last):\n  File \"x\"\nRuntimeError: step failed",
            "frame #1: a() + 0x1 (0x1a)\nframe #2: a() + 0x2 (0x2a)\nframe #3: a() + 0x3 (0x3a)",
            "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"x\", line 1\n\
             [rank1]: torch.distributed.DistBackendError: NCCL error: remote process exited",
            "----\n-----\n======\n=======",
            "saved 3 files\ngoodbye\nmake: *** [train] Error 1",
        ] {
            assert!(said(&format!("{TORCH}{after}\n")).is_some(), "{after}");
        }
        let rank = TORCH.lines().map(|l| format!("[rank0]: {l}\n"));
        assert!(said(&rank.collect::<String>()).is_some());
    }

    #[test]
    fn what_was_survived_does_not_count() {
        for text in [
            String::new(),
            "Killed".to_owned(),
            "CUDA out of memory: a smaller batch\nepoch 1".to_owned(),
            "WARNING: CUDA error: out of memory, trying again with 32\nSegmentation fault".to_owned(),
            format!("{TORCH}{OTHER}"),
            format!("{TORCH}retry\n{OTHER}wandb: synced"),
            format!("{TORCH}\nDuring handling of the above exception, another exception occurred:\n\n{OTHER}"),
            format!("{TORCH}batch 32\nstep 1 loss 0.9\nstep 2 loss 0.8\nstep 3 loss 0.7\nSegmentation fault"),
            format!("{TORCH}  1%|# | 1/99 [1.0it/s]\r  2%|# | 2/99 [1.0it/s]\r  3%|# | 3/99 [1.1it/s]"),
            format!("{TORCH}{{\"mt\":\"step\",\"samples\":3}}\n"),
            "google.api_core.exceptions.ResourceExhausted: 429 RESOURCE_EXHAUSTED: Quota exceeded".to_owned(),
            "OSError: [Errno 28] No space left on device".to_owned(),
            "Allocator (GPU_0_bfc) ran out of memory trying to allocate 2GiB. The caller indicates that this is not a \
             failure\nAborted"
                .to_owned(),
        ] {
            assert_eq!(said(&text), None, "{text}");
        }
    }
}
