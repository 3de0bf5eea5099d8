use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, ErrorKind, IsTerminal, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use doc::{
    Any, AnyDocuments, Document, Documents, Form, Frames, Measurement, Measurements, Profile,
    Profiles,
};

use crate::{Console, Failure, files};

/// One input: a file or standard input.
pub type Source = Frames<Box<dyn BufRead>>;

/// The inputs of a tool, opened in the given order.
pub struct Input {
    sources: Vec<Source>,
}

impl Input {
    /// Opens every file; `-` or no file means standard input. `expected` names the input in the note to a user who
    /// starts the tool on a terminal without input.
    ///
    /// # Errors
    /// [`Failure::Input`] names the first file that cannot be opened; [`Failure::Usage`] if
    /// standard input is named twice.
    pub fn open(files: &[PathBuf], expected: &str, console: &Console) -> Result<Self, Failure> {
        let stdin = [PathBuf::from("-")];
        let files = if files.is_empty() { &stdin[..] } else { files };
        if files.iter().filter(|f| is_stdin(f)).count() > 1 {
            return Err(Failure::Usage(
                "standard input (-) is named twice; name it once".to_owned(),
            ));
        }
        let sources: Result<Vec<Source>, Failure> = files
            .iter()
            .map(|file| open_source(file, expected, console))
            .collect();
        Ok(Self { sources: sources? })
    }

    /// The inputs themselves.
    #[must_use]
    pub fn into_sources(self) -> Vec<Source> {
        self.sources
    }

    /// The documents of one kind.
    pub fn documents<D: Document>(self) -> impl Iterator<Item = Result<D, Failure>> {
        until_failure(self.sources.into_iter().flat_map(Documents::<_, D>::new))
    }

    /// The documents of one kind, each with its source and line for messages.
    pub fn placed<D: Document>(self) -> impl Iterator<Item = Result<(String, D), Failure>> {
        until_failure(self.sources.into_iter().flat_map(|frames| {
            let mut documents = Documents::<_, D>::new(frames);
            std::iter::from_fn(move || {
                let document = documents.next()?;
                Some(document.map(|document| (documents.place(), document)))
            })
        }))
    }

    /// The profiles.
    pub fn profiles(self) -> impl Iterator<Item = Result<Profile, Failure>> {
        until_failure(self.sources.into_iter().flat_map(Profiles::new))
    }

    /// The profiles and runs.
    pub fn measurements(self) -> impl Iterator<Item = Result<Measurement, Failure>> {
        until_failure(self.sources.into_iter().flat_map(Measurements::new))
    }

    /// The documents of any kind.
    pub fn any(self) -> impl Iterator<Item = Result<Any, Failure>> {
        until_failure(self.sources.into_iter().flat_map(AnyDocuments::new))
    }

    /// The documents of any kind, each with the name of its source for messages.
    pub fn named(self) -> impl Iterator<Item = Result<(String, Any), Failure>> {
        until_failure(self.sources.into_iter().flat_map(|frames| {
            let name = frames.source_name().to_owned();
            AnyDocuments::new(frames).map(move |item| item.map(|any| (name.clone(), any)))
        }))
    }
}

fn until_failure<T>(
    items: impl Iterator<Item = Result<T, doc::ReadError>>,
) -> impl Iterator<Item = Result<T, Failure>> {
    let mut failed = false;
    items.map_while(move |item| {
        if failed {
            return None;
        }
        failed = item.is_err();
        Some(item.map_err(Failure::from))
    })
}

/// Whether standard input has unread data: it is a file, or a pipe on which data arrive within `millis`
/// milliseconds.
#[must_use]
pub fn stdin_has_data(millis: u16) -> bool {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::os::unix::fs::FileTypeExt;
    let stdin = std::io::stdin();
    let found = stdin.as_fd().try_clone_to_owned().map(File::from);
    let Ok(found) = found.and_then(|file| file.metadata()) else {
        return false;
    };
    if found.is_file() {
        return found.len() > 0;
    }
    let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    // A closed pipe without data does not report POLLIN.
    found.file_type().is_fifo()
        && poll(&mut fds, PollTimeout::from(millis)).is_ok()
        && fds[0]
            .revents()
            .is_some_and(|events| events.contains(PollFlags::POLLIN))
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn open_source(path: &Path, expected: &str, console: &Console) -> Result<Source, Failure> {
    let (mut reader, name) = open_reader(path, expected, console)?;
    let Some(form) = Form::of_name(path) else {
        let console = console.clone();
        return Ok(Frames::new(reader, name).without_cut_record(move |cut| console.warn(cut)));
    };
    // Read one byte more than a document may have, so that a longer one is rejected with the right message.
    let mut text = Vec::new();
    let most = doc::MAX_DOCUMENT_BYTES as u64 + 1;
    let read = reader.by_ref().take(most).read_to_end(&mut text);
    read.map_err(|error| Failure::file(path, &error))?;
    let json = form.to_json(&text, &name)?;
    Ok(Frames::new(Box::new(Cursor::new(json)), name))
}

/// Opens one file, or standard input for `-`, and returns its name for messages; `expected` as for [`Input::open`].
///
/// # Errors
/// [`Failure::Input`] if the file cannot be opened; [`Failure::Usage`] if it is an output of this process.
pub fn open_reader(
    path: &Path,
    expected: &str,
    console: &Console,
) -> Result<(Box<dyn BufRead>, String), Failure> {
    if is_stdin(path) {
        let stdin = std::io::stdin();
        if stdin.is_terminal() {
            console.note(&format!(
                "reading {expected} from the terminal; give a FILE, or pipe it in (Ctrl-D ends)"
            ));
        }
        // The same file may be the output: `tool < plan.json -o plan.json`.
        let found = stdin.as_fd().try_clone_to_owned().map(File::from);
        files::reads(found.and_then(|f| f.metadata()), "<stdin>")?;
        return Ok((Box::new(stdin.lock()), "<stdin>".to_owned()));
    }
    let file = File::open(path).map_err(|error| Failure::file(path, &error))?;
    let found = file.metadata();
    if found.as_ref().is_ok_and(std::fs::Metadata::is_dir) {
        return Err(Failure::file(path, &ErrorKind::IsADirectory.into()));
    }
    files::reads(found, &path.display().to_string())?;
    let reader = BufReader::with_capacity(1 << 16, file);
    Ok((Box::new(reader), path.display().to_string()))
}
