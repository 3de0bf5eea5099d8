//! Makes one profile for each workload of the input.

use std::path::{Path, PathBuf};

use cli::{Console, Existing, Exit, Failure, Output};
use design::SessionResult;
use design::import::Import;
use design::sequence::{Conditions, Configuration, Sequence};
use design::session::{self, Session};
use design::worth::Worth;
use device::{OpenError, Options, Sim};
use doc::{DesignKind, DeviceKind, DeviceList, GpuSpec, Header, Model, Profile, Workload};
use predict::Predictor;

use crate::ProfileSettings;
use crate::console::{Written, failure as exit, session_failure};
use crate::failed;
use crate::interrupt::Signals;
use crate::resume;
use crate::source::{Jobs, ProfileRequest, SourcePlace, is_document, runs};
use crate::trace;

/// Profiles every workload of the input, makes a profile from a table, or calibrates the simulator, depending on the
/// settings.
///
/// # Errors
/// [`Failure`] for input that cannot be read or is inconsistent, a device that cannot be used, and a signal; every
/// finished record has been written before.
pub fn run(settings: &ProfileSettings, console: &Console) -> Result<Exit, Failure> {
    let context = Context::new(settings, console)?;
    if let Some(profile) = &settings.calibrate {
        return context.calibrate(profile);
    }
    let mut jobs = Jobs::open(settings, console)?;
    // Reads the first job before anything is written, so that invalid input leaves no output.
    let Some(first) = jobs.next_job()? else {
        return Err(Failure::Input("there is nothing to profile".to_owned()));
    };
    if !settings.import.is_empty() {
        return context.import(&settings.import, first, &mut jobs);
    }
    let signals = Signals::listen()?;
    let mut earlier = match &settings.resume {
        None => Vec::new().into_iter(),
        Some(path) => resume::read(path, console)?.into_iter(),
    };
    let mut prepared = Some(context.prepare(first, &signals)?);
    let mut out = context.output()?;
    let mut empty = 0_usize;
    let mut stopped = 0_usize;
    while let Some(job) = prepared {
        let outcome = context.profile(job, earlier.next(), &signals, &mut out)?;
        if let Some(failure) = &outcome.failure {
            console.error(&failed::told(failure));
            stopped += 1;
        } else {
            empty += usize::from(outcome.widest.is_none());
        }
        prepared = match signals.while_idle(|| jobs.next_job())?? {
            None => None,
            Some(job) => Some(context.prepare(job, &signals)?),
        };
    }
    if earlier.next().is_some() {
        console.warn("the profile to resume has more workloads than the input");
    }
    out.finish()?;
    if stopped > 0 {
        return Err(Failure::Negative(format!(
            "{stopped} of the profiles ended early, because a task failed alone; correct it, then \
             --resume measures the rest"
        )));
    }
    if empty > 0 {
        // The records were written, since they contain the reasons, but no model can be fitted to them.
        return Err(Failure::Negative(format!(
            "no configuration could be measured in {empty} of the profiles; their records say why"
        )));
    }
    Ok(Exit::Done)
}

/// Lists the GPUs, the processor, and the GPUs of the simulator.
///
/// # Errors
/// [`Failure`] if the output cannot be written.
pub fn list_devices(output: Option<&Path>, console: &Console) -> Result<Exit, Failure> {
    let models = gpusim::Network::CATALOGUE.map(str::to_owned).to_vec();
    let made_by = vec![console.provenance(None, None)];
    let list = DeviceList::new(device::inventory(), models, made_by);
    let mut out = Output::open(output, false)?;
    out.document(&list)?;
    out.finish()?;
    Ok(Exit::Done)
}

/// Data common to all workloads.
struct Context<'a> {
    settings: &'a ProfileSettings,
    console: &'a Console,
    gpu: Option<GpuSpec>,
    replay: Option<Profile>,
    warm_start: Option<Model>,
}

/// A workload with its device open.
struct Prepared {
    opened: device::Opened,
    job: ProfileRequest,
}

impl<'a> Context<'a> {
    fn new(settings: &'a ProfileSettings, console: &'a Console) -> Result<Self, Failure> {
        let replay = match &settings.replay {
            None => None,
            Some(path) => {
                let input = cli::Input::open(std::slice::from_ref(path), "a profile", console)?;
                input.profiles().next().transpose()?
            }
        };
        let warm_start = match &settings.warm_start {
            None => None,
            Some(path) => {
                let input = cli::Input::open(std::slice::from_ref(path), "a model", console)?;
                input.documents::<Model>().next().transpose()?
            }
        };
        Ok(Self {
            settings,
            console,
            gpu: settings
                .gpu
                .as_deref()
                .map(|g| gpu(g, console))
                .transpose()?,
            replay,
            warm_start,
        })
    }

    fn output(&self) -> Result<Output, Failure> {
        let existing = Existing {
            replace: self.settings.force,
            continues: self.settings.resume.as_deref(),
        };
        Output::progressive(self.settings.output.as_deref(), existing)
    }

    fn import(
        &self,
        tables: &[PathBuf],
        job: ProfileRequest,
        jobs: &mut Jobs<'_>,
    ) -> Result<Exit, Failure> {
        if jobs.next_job()?.is_some() {
            return Err(Failure::Usage(
                "--import: tables belong to one workload; give one".to_owned(),
            ));
        }
        let wanted = self.overridden(job.workload);
        let workload = device::complete(&wanted, DeviceKind::Replay)
            .map_err(|error| failure(error, &job.place))?;
        let mut import = Import::of(workload);
        for csv in tables {
            let (mut reader, source) =
                cli::open_reader(csv, "measurements (CSV, or runs)", self.console)?;
            let kind = is_document(&mut reader).map_err(|error| Failure::file(csv, &error))?;
            if kind == Some(true) {
                for run in runs(reader, &source, self.console) {
                    import.read_run(&run?, &source).map_err(|e| exit(e, None))?;
                }
                continue;
            }
            for note in import.read(reader, &source).map_err(|e| exit(e, None))? {
                self.console.note(&note);
            }
        }
        for lack in import.lacks() {
            self.console.warn(&lack);
        }
        let imported = import
            .finish(self.settings.seed)
            .map_err(|e| exit(e, None))?;
        let mut out = self.output()?;
        let signals = Signals::default();
        imported.write(&mut Written::new(&mut out, self.console, &signals, 0))?;
        out.finish()?;
        Ok(Exit::Done)
    }

    /// The predictor for a warm start, if it has the same tasks.
    fn earlier(&self, workload: &Workload) -> Result<Option<Predictor>, Failure> {
        let Some(model) = &self.warm_start else {
            return Ok(None);
        };
        let names = |workload: &Workload| -> Vec<units::TaskId> {
            workload.tasks.iter().map(|t| t.id.clone()).collect()
        };
        if names(&model.workload) != names(workload) {
            return Err(Failure::Input(
                "--warm-start: the model has other tasks; give one with the same tasks in the same order"
                    .to_owned(),
            ));
        }
        Predictor::from_model(model)
            .map(Some)
            .map_err(|error| Failure::Input(format!("--warm-start: {error}")))
    }

    /// The workload on the device that the arguments name.
    fn overridden(&self, mut workload: Workload) -> Workload {
        if self.replay.is_some() {
            workload.device.kind = DeviceKind::Replay;
        }
        if let Some(device) = self.settings.device {
            workload.device.kind = device;
        }
        if self.gpu.is_some() {
            workload.device.gpu.clone_from(&self.gpu);
        }
        workload
    }

    fn prepare(&self, mut job: ProfileRequest, signals: &Signals) -> Result<Prepared, Failure> {
        job.workload = self.overridden(job.workload);
        let named = job.workload.device.kind;
        self.check_simulated(named)?;
        let options = Options {
            seed: self.settings.seed,
            noise_percent: self.settings.noise_percent,
            replay: self.replay.clone(),
            interrupted: signals.flag(),
            cpus: self.settings.cpus.clone(),
            attach_mps: self.settings.attach_mps,
            passing: self.settings.passing.clone(),
            guarded: self.settings.guarded,
        };
        let opened =
            device::open(&job.workload, &options).map_err(|error| failure(error, &job.place))?;
        let found = opened.workload.device.kind;
        if named == DeviceKind::Auto
            && found != DeviceKind::Sim
            && let Some(option) = self.simulated()
        {
            self.console.note(&format!(
                "{option}: nothing is simulated, so it does nothing"
            ));
        }
        Ok(Prepared { opened, job })
    }

    /// The first given option that affects only the simulator.
    fn simulated(&self) -> Option<&'static str> {
        let given = [
            ("--gpu", self.gpu.is_some()),
            ("--noise", self.settings.noise_percent > 0.0),
            ("--trace", self.settings.trace.is_some()),
        ];
        let first = given.into_iter().find(|(_, given)| *given);
        first.map(|(option, _)| option)
    }

    /// Refuses an option of the simulator if another device was named. With `auto` it only prints a note, because a
    /// script may give the same options on every machine.
    fn check_simulated(&self, named: DeviceKind) -> Result<(), Failure> {
        match self.simulated() {
            Some(option) if !matches!(named, DeviceKind::Sim | DeviceKind::Auto) => {
                let kind = device::word(named);
                Err(Failure::Usage(format!(
                    "{option}: it is for the simulator, and the device is {kind}; leave it out, or give --device sim"
                )))
            }
            _ => Ok(()),
        }
    }

    fn profile(
        &self,
        prepared: Prepared,
        earlier: Option<Profile>,
        signals: &Signals,
        out: &mut Output,
    ) -> Result<SessionResult, Failure> {
        let Prepared { mut opened, job } = prepared;
        if let Some(note) = &opened.note {
            self.console.note(note);
        }
        let fingerprint = opened.device.fingerprint();
        let seed = self.settings.seed;
        let real = matches!(fingerprint.kind, DeviceKind::Cpu | DeviceKind::Cuda);
        signals.end_soon(!real);
        let sequence = match job.configurations {
            Some(configurations) => {
                recorded_only(&opened, &configurations)?;
                Sequence::given(configurations)
            }
            None => {
                let earlier = self.earlier(&opened.workload)?;
                let conditions = Conditions {
                    only: opened.device.only(),
                    drifts: real,
                    earlier: earlier.as_ref(),
                    seed,
                };
                Sequence::designed(&opened.workload, &self.settings.design, conditions)
                    .map_err(|e| exit(e, None))?
            }
        };
        let mut provenance = opened.workload.provenance.clone();
        let device = Some(fingerprint.name.clone());
        provenance.push(self.console.provenance(Some(seed), device));
        let kind = fingerprint.kind;
        let window = self.settings.window.on(kind);
        let adaptive = sequence.kind == DesignKind::Adaptive;
        let aim = adaptive.then(|| self.settings.design.aim(&opened.workload));
        let header = Header {
            workload: opened.workload,
            device: fingerprint,
            design: sequence.kind,
            seed,
            // The simulator's results depend on the window, so it is recorded to make them reproducible.
            window: match kind {
                DeviceKind::Sim => Some(window.least),
                _ => self.settings.window.least,
            },
            aim,
            provenance,
        };
        let rounds = self.settings.rounds.filter(|_| adaptive);
        let worth = rounds
            .map(|rounds| Worth::new(rounds, &header.workload))
            .transpose()
            .map_err(|e| exit(e, None))?;
        let recorded = match (earlier, &self.settings.resume) {
            (Some(profile), Some(path)) => {
                design::resume::records(path, profile, &header).map_err(|e| exit(e, None))?
            }
            _ => Vec::new(),
        };
        let mut written = Written::new(out, self.console, signals, sequence.length);
        if real {
            written.expects(&window);
        }
        let outcome = Session {
            device: opened.device.as_mut(),
            header: &header,
            sequence,
            window,
            recorded,
            worth,
            resumed: self.settings.resume.as_deref(),
            real,
        }
        .run(&mut written)
        .map_err(|error| session_failure(error, signals))?;
        if kind == DeviceKind::Sim
            && let (Some(path), Some(configuration)) = (&self.settings.trace, &outcome.widest)
        {
            self.trace(path, &header.workload, configuration)?;
        }
        Ok(outcome)
    }
}

impl Context<'_> {
    fn trace(
        &self,
        path: &Path,
        workload: &Workload,
        configuration: &Configuration,
    ) -> Result<(), Failure> {
        let options = Options {
            seed: self.settings.seed,
            ..Options::default()
        };
        let unusable = |error: &dyn std::fmt::Display| Failure::Environment(error.to_string());
        let mut sim = Sim::open(workload, &options).map_err(|error| unusable(&error))?;
        let trace = sim.trace(configuration).map_err(|error| unusable(&error))?;
        trace::write(path, &trace, workload, configuration)
    }

    /// Fits the parameters of a GPU to a profile.
    fn calibrate(&self, profile: &Path) -> Result<Exit, Failure> {
        let path = [profile.to_owned()];
        let input = cli::Input::open(&path, "a profile", self.console)?;
        let Some(profile) = input.profiles().next().transpose()? else {
            return Err(Failure::Input(
                "--calibrate: there is no profile".to_owned(),
            ));
        };
        let start = self.gpu.clone().ok_or_else(|| {
            Failure::Usage("--calibrate: name the GPU to start from with --gpu".to_owned())
        })?;
        let options = Options {
            seed: self.settings.seed,
            ..Options::default()
        };
        let found = device::calibrate(&profile, &start, &options)
            .map_err(|error| Failure::Input(format!("--calibrate: {error}")))?;
        self.console.note(&format!(
            "{} samples: the mean error of the simulator is {:.1} %; with the initial figures it was {:.1} %",
            found.samples,
            100.0 * found.error_after,
            100.0 * found.error_before
        ));
        let mut text = Vec::new();
        doc::write_gpu(&mut text, &found.gpu).map_err(|error| Failure::write(&error))?;
        let mut out = self.output()?;
        out.text(&String::from_utf8_lossy(&text))?;
        out.finish()?;
        Ok(Exit::Done)
    }
}

fn failure(error: OpenError, place: &SourcePlace) -> Failure {
    match error {
        OpenError::Workload(fault) => place.fault(fault),
        OpenError::Unfit(_) => Failure::Usage(error.to_string()),
        OpenError::NoRecording => Failure::Usage(format!("{error} (--replay FILE)")),
        OpenError::Environment { .. } => Failure::Environment(error.to_string()),
    }
}

/// Refuses given configurations if the recording lacks some of them, before anything is written.
fn recorded_only(opened: &device::Opened, configurations: &[Configuration]) -> Result<(), Failure> {
    let Some(only) = opened.device.only() else {
        return Ok(());
    };
    match configurations.iter().find(|runs| !only.contains(runs)) {
        None => Ok(()),
        Some(missing) => Err(Failure::Input(format!(
            "the recording does not have the configuration {}",
            session::describe(&opened.workload, missing)
        ))),
    }
}

/// A GPU from a file with its parameters if the text is `-`, a path, a name with an extension or an existing file;
/// otherwise a GPU by name.
fn gpu(text: &str, console: &Console) -> Result<GpuSpec, Failure> {
    let path = Path::new(text);
    let is_file = text == "-" || text.contains('/') || path.extension().is_some() || path.is_file();
    if !is_file {
        return Ok(GpuSpec::Named(text.to_owned()));
    }
    let (reader, source) = cli::open_reader(path, "the figures of a GPU", console)?;
    let description = doc::read_gpu(reader, &source)?;
    Ok(GpuSpec::Described(description))
}
