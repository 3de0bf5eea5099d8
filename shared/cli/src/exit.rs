use std::process::ExitCode;

/// How a tool ended, with its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Exit {
    /// 0: done.
    Done,
    /// 1: no plan is feasible, a check failed, or a launched task did not finish.
    Negative,
    /// 2: bad input or usage.
    BadInput,
    /// 3: the environment lacks something: no device, no MPS, no permission.
    Environment,
    /// The exit status of a program that was run instead of the tool; 126 or 127 if it could not be started, as for
    /// env(1) and nice(1).
    Program(u8),
    /// 128 + the number of the signal that ended the tool: 130 for Ctrl-C, 143 for SIGTERM.
    Signal(u8),
}

impl Exit {
    /// The exit code.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Negative => 1,
            Exit::BadInput => 2,
            Exit::Environment => 3,
            Exit::Program(code) => code,
            Exit::Signal(number) => 128u8.saturating_add(number),
        }
    }

    /// The worse of two results: the larger code.
    pub const fn worst(self, other: Exit) -> Exit {
        if other.code() > self.code() {
            other
        } else {
            self
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}
