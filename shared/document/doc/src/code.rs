use std::fmt;

macro_rules! codes {
    ($($variant:ident = $number:literal, $title:literal, $cause:literal, $action:literal;)*) => {
        /// Kind of fault in a document, with a stable number.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $title] $variant,)*
        }

        impl Code {
            /// Every code, in order of number.
            pub const ALL: &[Code] = &[$(Code::$variant,)*];

            /// The number after the `E`.
            #[must_use]
            pub const fn number(self) -> u16 {
                match self { $(Code::$variant => $number,)* }
            }

            /// One line that names the problem.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Code::$variant => $title,)* }
            }

            /// What causes the fault.
            #[must_use]
            pub const fn cause(self) -> &'static str {
                match self { $(Code::$variant => $cause,)* }
            }

            /// How to fix it.
            #[must_use]
            pub const fn action(self) -> &'static str {
                match self { $(Code::$variant => $action,)* }
            }
        }
    };
}

codes! {
    Empty = 101, "The input contains no document.",
        "Standard input or the file was empty, often because the tool before it in the pipe failed.",
        "give a document; in a pipe, see the message of the tool before.";
    Syntax = 102, "The input is not JSON.",
        "A quote, comma or bracket is missing, or a value such as NaN is not part of JSON.",
        "correct the place named; `python3 -m json.tool FILE` or `jq . FILE` shows it too.";
    Truncated = 103, "The input ends inside a document.",
        "The tool that wrote it was stopped half-way, or the file was cut.",
        "write the document again; a profile can be continued with `mt-profile --resume`.";
    TooLarge = 104, "A document is larger than the limit.",
        "A document may have at most 64 MiB, so that a tool's memory stays bounded.",
        "split the input into several documents; a profile is one record a line.";
    TooDeep = 105, "A document is nested too deeply.",
        "A document may have at most 64 levels of brackets; no document of ours needs more than a dozen.",
        "check that the file is what you meant to give.";
    WrongSchema = 106, "The document is of another kind.",
        "The field `schema` is missing, or names a kind or version that this tool does not read.",
        "give the document that the tool asks for; `--help` names it.";
    UnknownField = 107, "A field is not known.",
        "A name is misspelt or belongs elsewhere; unknown fields are refused so that a typing error is never silently ignored.",
        "remove the field or correct its name; the JSON Schema in `schemas/` lists the names.";
    MissingField = 108, "A required field is missing.",
        "The document does not have a field that the schema requires.",
        "add the field.";
    WrongType = 109, "A value has the wrong type.",
        "For example, there is a string instead of a number, or a fraction instead of a whole number.",
        "give a value of the type that is named.";
    OutOfOrder = 110, "A record is in the wrong place.",
        "A profile begins with its header; a run begins with its launch event.",
        "give the whole file, from its first line.";
    OutOfRange = 201, "A quantity is out of range.",
        "A number is negative, zero, too large, or not on the grid where it must be.",
        "give a value in the range that is named.";
    Duplicate = 202, "A name is used twice.",
        "Two tasks (or batch sizes, or configurations) have the same name.",
        "make the names differ.";
    UnknownName = 203, "A name refers to nothing.",
        "It names a task, model or GPU that does not exist.",
        "correct the name; the message lists what exists.";
    NothingToDo = 204, "A list that must not be empty is empty.",
        "For example, a workload without tasks, or a task without batch sizes.",
        "add at least one entry.";
    TooMany = 205, "A list is longer than the limit.",
        "Limits keep memory and time bounded: 64 tasks a workload, 64 batch sizes a task.",
        "split the workload.";
    Conflict = 206, "Two fields contradict each other.",
        "Both of two alternatives are given, or neither is, or their values do not agree.",
        "follow the message: keep one of them, or make them agree.";
    BadPattern = 207, "A progress pattern cannot be used.",
        "The regular expression does not compile, or has no group named `samples`.",
        "write a pattern such as `step \\d+ samples (?P<samples>\\d+)`.";
    NotMonotone = 208, "Progress per sample rises with the batch size.",
        "In a table of efficiency a larger batch size has more progress per sample (or needs fewer rounds) than a smaller one, by more than noise explains: a figure is mistyped, or a learning rate was not tuned for its batch size.",
        "correct the row that is named, or remove it.";
    TooFew = 209, "A list is shorter than it must be.",
        "For example, a table of efficiency with one batch size: it takes two to show the effect of size.",
        "add entries, or leave the list out.";
    NeedsMore = 301, "The document lacks something that this tool needs.",
        "A field is optional in the format, but this tool or option cannot work without it.",
        "add the field that is named.";
    BadCsv = 302, "A CSV file cannot be imported.",
        "A column is missing, or a cell does not parse.",
        "give the columns config, task, batch, share_percent, throughput and optionally stderr.";
}

impl Code {
    /// The code with the given number, if there is one.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.iter().copied().find(|c| c.number() == number)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "E{}", self.number())
    }
}
