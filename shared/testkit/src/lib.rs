//! Golden command-line tests and fake programs.
