//! The sources of a profile: workloads one after another, with explicit configurations if there are
//! any.

use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

use cli::{Console, Failure, Input, Source};
use design::configs::Given;
use design::import;
use design::sequence::Configuration;
use design::table::{self, Throughput};
use doc::{Any, AnyDocuments, Fault, Frame, Frames, RunEvent, Workload};

use crate::ProfileSettings;
use crate::console::failure;

/// One profile to make.
pub struct ProfileRequest {
    /// Tasks and device.
    pub workload: Workload,
    /// The configurations to measure; `None`: according to the design.
    pub configurations: Option<Vec<Configuration>>,
    /// Origin of the workload, for messages about faults that only a device detects.
    pub place: SourcePlace,
}

/// Position of a document in the input, with its text if known.
#[derive(Debug, Clone)]
pub struct SourcePlace(Frame);

impl SourcePlace {
    /// The failure for a fault of the document.
    pub fn fault(&self, fault: Fault) -> Failure {
        Failure::from(self.0.faults(vec![fault]))
    }
}

/// The workloads of the input, which is opened when the first one is needed.
struct Workloads<'a> {
    settings: &'a ProfileSettings,
    console: &'a Console,
    sources: Option<std::vec::IntoIter<Source>>,
    open: Option<Source>,
    seen: bool,
}

impl Workloads<'_> {
    fn next(&mut self) -> Result<Option<(Workload, SourcePlace)>, Failure> {
        let sources = match &mut self.sources {
            Some(sources) => sources,
            absent => {
                let input = Input::open(&self.settings.files, "a workload", self.console)?;
                absent.insert(input.into_sources().into_iter())
            }
        };
        loop {
            let Some(source) = &mut self.open else {
                self.open = sources.next();
                self.seen = false;
                if self.open.is_none() {
                    return Ok(None);
                }
                continue;
            };
            match source.next() {
                Some(frame) => {
                    let frame = frame?;
                    let workload = frame.parse::<Workload>()?;
                    self.seen = true;
                    return Ok(Some((workload, SourcePlace(frame))));
                }
                None if self.seen => self.open = None,
                None => return Err(empty(source.source_name())),
            }
        }
    }
}

fn empty(source: &str) -> Failure {
    // Parses an empty stream of documents, because its error already contains the position and
    // advice.
    let frames = Frames::new(&b""[..], source);
    match doc::Documents::<_, Workload>::new(frames).next() {
        Some(Err(error)) => Failure::from(error),
        _ => Failure::Input(format!("{source}: the input is empty")),
    }
}

/// The profiles that a command line requests, in order.
pub struct Jobs<'a> {
    workloads: Workloads<'a>,
    given: GivenSource,
    settings: &'a ProfileSettings,
}

enum GivenSource {
    /// No --configs.
    Designed,
    /// A table that applies to every workload.
    Table { bytes: Vec<u8>, source: String },
    /// Documents; a document without a workload uses one of the input.
    Documents {
        documents: Box<AnyDocuments<Box<dyn BufRead>>>,
        source: String,
    },
}

impl<'a> Jobs<'a> {
    /// Opens the sources of the arguments.
    pub fn open(settings: &'a ProfileSettings, console: &'a Console) -> Result<Self, Failure> {
        let given = match &settings.configs {
            None => GivenSource::Designed,
            Some(path) => open_configs(path, console)?,
        };
        Ok(Self {
            workloads: Workloads {
                settings,
                console,
                sources: None,
                open: None,
                seen: false,
            },
            given,
            settings,
        })
    }

    /// The next job; `None` after the last.
    pub fn next_job(&mut self) -> Result<Option<ProfileRequest>, Failure> {
        match &mut self.given {
            GivenSource::Designed => {
                Ok(self
                    .workloads
                    .next()?
                    .map(|(workload, place)| ProfileRequest {
                        workload,
                        configurations: None,
                        place,
                    }))
            }
            GivenSource::Table { bytes, source } => {
                let Some((workload, place)) = self.workloads.next()? else {
                    return Ok(None);
                };
                let table = table::read(bytes.as_slice(), source, &workload, Throughput::Ignored)
                    .map_err(|e| failure(e, None))?;
                let given = Given::of_runs(
                    &workload,
                    table.configurations.iter().map(|r| import::runs(r)),
                );
                let configurations = given
                    .configurations(&workload, self.settings.solos)
                    .map_err(|e| failure(e, None))?;
                Ok(Some(ProfileRequest {
                    workload,
                    configurations: Some(configurations),
                    place,
                }))
            }
            GivenSource::Documents { documents, source } => {
                let Some(document) = documents.next() else {
                    return Ok(None);
                };
                let given =
                    Given::of(document?, self.settings.baselines).map_err(|e| failure(e, None))?;
                let carried = given.workload.clone().map(|workload| {
                    let frame = Frame {
                        bytes: Vec::new(),
                        source_name: source.clone(),
                        line: 1,
                    };
                    (workload, SourcePlace(frame))
                });
                let (workload, place) = match carried {
                    Some(carried) => {
                        ignored(&self.settings.files, source)?;
                        carried
                    }
                    None => self.workloads.next()?.ok_or_else(|| {
                        Failure::Input(format!(
                            "{source}: the plan carries no workload; give a workload for each"
                        ))
                    })?,
                };
                let configurations = given
                    .configurations(&workload, self.settings.solos)
                    .map_err(|e| failure(e, None))?;
                Ok(Some(ProfileRequest {
                    workload,
                    configurations: Some(configurations),
                    place,
                }))
            }
        }
    }
}

/// Refuses workloads in addition to a document that contains its own, because they would have no
/// effect.
fn ignored(files: &[PathBuf], source: &str) -> Result<(), Failure> {
    match files.first() {
        None => Ok(()),
        Some(file) => Err(Failure::Usage(format!(
            "--configs: {source} carries its workload, so {} would be ignored; leave it out",
            file.display()
        ))),
    }
}

/// Whether an input contains documents and not a table; `None` if it is empty.
pub fn is_document(reader: &mut impl BufRead) -> std::io::Result<Option<bool>> {
    let start = reader.fill_buf()?;
    let first = start.iter().find(|b| !b.is_ascii_whitespace());
    Ok(first.map(|b| matches!(b, b'{' | b'[')))
}

/// The runs of an input, up to the last complete event; other documents are an error.
pub fn runs(
    reader: Box<dyn BufRead>,
    source: &str,
    console: &Console,
) -> impl Iterator<Item = Result<Vec<RunEvent>, Failure>> {
    let console = console.clone();
    let frames = Frames::new(reader, source).without_cut_record(move |cut| console.warn(cut));
    let all = AnyDocuments::new(frames);
    let source = source.to_owned();
    all.map(move |document| match document? {
        Any::Run(events) => Ok(events),
        _ => Err(Failure::Input(format!(
            "{source}: --import reads CSV and the events of mt-launch (mt.run/1), no other document"
        ))),
    })
}

fn open_configs(path: &Path, console: &Console) -> Result<GivenSource, Failure> {
    let expected = "plans, timelines, profiles or a table";
    let (mut reader, source) = cli::open_reader(path, expected, console)?;
    let failed = |error: std::io::Error| Failure::file(path, &error);
    if is_document(&mut reader).map_err(failed)? == Some(false) {
        let mut bytes = Vec::new();
        let limit = doc::MAX_DOCUMENT_BYTES as u64 + 1;
        reader.take(limit).read_to_end(&mut bytes).map_err(failed)?;
        return Ok(GivenSource::Table { bytes, source });
    }
    let frames = Frames::new(reader, source.clone());
    Ok(GivenSource::Documents {
        documents: Box::new(AnyDocuments::new(frames)),
        source,
    })
}
