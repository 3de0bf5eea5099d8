use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;

use doc::Document;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tempfile::TempPath;

use crate::Failure;

/// Where documents go: standard output or a file.
pub struct Output {
    sink: Sink,
    pretty: bool,
}

enum Sink {
    Stdout(BufWriter<io::Stdout>),
    Progressive {
        writer: BufWriter<File>,
        /// Temporary file that is written, and the file that it is to replace.
        replaces: Option<(TempPath, PathBuf)>,
    },
    Atomic {
        writer: BufWriter<File>,
        temporary: TempPath,
        target: PathBuf,
    },
}

impl Output {
    /// Standard output, or a file that appears whole when [`Output::finish`] is called and not at
    /// all if it is not, not even after a signal.
    ///
    /// # Errors
    /// [`Failure::Input`] if the file's folder cannot be written.
    pub fn open(path: Option<&Path>, pretty: bool) -> Result<Self, Failure> {
        let Some(path) = path.filter(|p| p.as_os_str() != "-") else {
            let stdout = io::stdout();
            let pretty = pretty || stdout.is_terminal();
            let sink = Sink::Stdout(BufWriter::with_capacity(1 << 16, stdout));
            return Ok(Self { sink, pretty });
        };
        let sink = if must_not_be_replaced(path) {
            progressive(create(path)?)
        } else {
            atomic(path)?
        };
        Ok(Self { sink, pretty })
    }

    /// A file that grows as records are written, so that a prefix survives whatever happens; an
    /// existing file is replaced. `None` or `-` is standard output.
    ///
    /// # Errors
    /// [`Failure::Input`] if the file cannot be created.
    pub fn progressive(path: Option<&Path>) -> Result<Self, Failure> {
        match path.filter(|p| p.as_os_str() != "-") {
            None => Self::open(None, false),
            Some(path) => Ok(Self {
                sink: progressive(create(path)?),
                pretty: false,
            }),
        }
    }

    /// As [`Output::progressive`], but an existing file keeps its content until
    /// [`Output::settle`], so that what continues a file may begin by writing what it has.
    ///
    /// # Errors
    /// [`Failure::Input`] if the file's folder cannot be written.
    pub fn replacing(path: &Path) -> Result<Self, Failure> {
        if must_not_be_replaced(path) {
            return Self::progressive(Some(path));
        }
        let (file, temporary) = temporary_beside(path)?;
        Ok(Self {
            sink: Sink::Progressive {
                writer: BufWriter::new(file),
                replaces: Some((temporary, path.to_owned())),
            },
            pretty: false,
        })
    }

    /// Puts the new content of [`Output::replacing`] in place of the old; what is written from now
    /// on is appended. Does nothing to other outputs.
    ///
    /// # Errors
    /// [`Failure::Environment`] if the file cannot be written or replaced.
    pub fn settle(&mut self) -> Result<(), Failure> {
        let Sink::Progressive { writer, replaces } = &mut self.sink else {
            return Ok(());
        };
        let Some((temporary, target)) = replaces.take() else {
            return Ok(());
        };
        let failed = |error: io::Error| Failure::write(&error);
        writer.flush().map_err(failed)?;
        temporary.persist(&target).map_err(|e| failed(e.error))
    }

    /// Whether documents are spread over lines.
    #[must_use]
    pub const fn is_pretty(&self) -> bool {
        self.pretty
    }

    /// Writes one document, whole, and passes it on.
    ///
    /// # Errors
    /// [`Failure::ClosedPipe`] if the reader has gone, else [`Failure::Environment`].
    pub fn document<D: Document>(&mut self, document: &D) -> Result<(), Failure> {
        let pretty = self.pretty;
        let writer = self.writer();
        let written = if pretty {
            doc::write_pretty(writer, document)
        } else {
            doc::write_line(writer, document)
        };
        written
            .and_then(|()| writer.flush())
            .map_err(|error| Failure::write(&error))
    }

    /// Writes one record of a profile or a run on a line of its own, and passes it on.
    ///
    /// # Errors
    /// As [`Output::document`].
    pub fn record<D: Document>(&mut self, record: &D) -> Result<(), Failure> {
        let writer = self.writer();
        doc::write_line(writer, record)
            .and_then(|()| writer.flush())
            .map_err(|error| Failure::write(&error))
    }

    /// Writes text that is the tool's product: a table, a picture, a schema.
    ///
    /// # Errors
    /// As [`Output::document`].
    pub fn text(&mut self, text: &str) -> Result<(), Failure> {
        let writer = self.writer();
        writer
            .write_all(text.as_bytes())
            .and_then(|()| writer.flush())
            .map_err(|error| Failure::write(&error))
    }

    /// Makes a file appear under its name.
    ///
    /// # Errors
    /// [`Failure::Environment`] if the last bytes cannot be written.
    pub fn finish(mut self) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::write(&error);
        self.settle()?;
        match self.sink {
            Sink::Stdout(mut writer) => writer.flush().map_err(failed),
            Sink::Progressive { mut writer, .. } => writer.flush().map_err(failed),
            Sink::Atomic {
                writer,
                temporary,
                target,
            } => {
                let file = writer.into_inner().map_err(|e| failed(e.into_error()))?;
                file.sync_all().map_err(failed)?;
                temporary.persist(&target).map_err(|e| failed(e.error))
            }
        }
    }

    fn writer(&mut self) -> &mut dyn Write {
        match &mut self.sink {
            Sink::Stdout(writer) => writer,
            Sink::Progressive { writer, .. } | Sink::Atomic { writer, .. } => writer,
        }
    }
}

fn progressive(file: File) -> Sink {
    Sink::Progressive {
        writer: BufWriter::new(file),
        replaces: None,
    }
}

/// A device, a pipe or a link (/dev/null, /dev/fd/3, /dev/stdout) is written to: a rename would
/// put a file in its place.
fn must_not_be_replaced(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|m| !m.is_file())
}

fn create(path: &Path) -> Result<File, Failure> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)
        .map_err(|error| Failure::file(path, &error))
}

fn atomic(path: &Path) -> Result<Sink, Failure> {
    let (file, temporary) = temporary_beside(path)?;
    remove_on_signal(temporary.to_path_buf()).map_err(|error| Failure::file(path, &error))?;
    Ok(Sink::Atomic {
        writer: BufWriter::new(file),
        temporary,
        target: path.to_owned(),
    })
}

/// A new file in the folder of `path` with the permissions that `path` has or would get.
fn temporary_beside(path: &Path) -> Result<(File, TempPath), Failure> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let permissions = fs::metadata(path).map_or_else(
        |_| Permissions::from_mode(0o666 & !current_umask()),
        |metadata| metadata.permissions(),
    );
    let failed = |error: io::Error| Failure::file(path, &error);
    let (file, temporary) = tempfile::Builder::new()
        .prefix(".mt-")
        .tempfile_in(folder)
        .map_err(failed)?
        .into_parts();
    file.set_permissions(permissions).map_err(failed)?;
    Ok((file, temporary))
}

fn current_umask() -> u32 {
    use nix::sys::stat::{Mode, umask};
    // The mask can only be read by setting it.
    let mask = umask(Mode::empty());
    umask(mask);
    mask.bits()
}

/// Leaves no temporary file behind when a signal ends the tool.
fn remove_on_signal(temporary: PathBuf) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    thread::spawn(move || {
        for signal in signals.forever() {
            // The file may have been renamed already; then there is nothing to remove.
            fs::remove_file(&temporary).ok();
            signal_hook::low_level::emulate_default_handler(signal).ok();
        }
    });
    Ok(())
}
