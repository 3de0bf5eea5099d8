//! Command line, standard streams, exit codes, progress and completions of every tool.
