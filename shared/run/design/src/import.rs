//! Makes a profile from external measurements.

use std::io::BufRead;

use doc::{
    DesignKind, DeviceFingerprint, DeviceKind, Header, Measured, ProfileEnd, RunEvent, Sample,
    StopReason, Workload,
};
use predict::runs;
use units::corun::Setting;
use units::{Seconds, Share};

use crate::DesignError;
use crate::sink::{Record, Sink};
use crate::table::{self, Row, Throughput};

/// A profile that was read from tables.
pub struct Imported {
    header: Header,
    samples: Vec<Sample>,
    end: ProfileEnd,
}

/// Tables of measurements of one workload, read one after another.
pub struct Import {
    workload: Workload,
    names: Vec<String>,
    configurations: Vec<Vec<Row>>,
}

impl Import {
    /// An import without measurements.
    #[must_use]
    pub fn of(workload: Workload) -> Self {
        Self {
            workload,
            names: Vec::new(),
            configurations: Vec::new(),
        }
    }

    /// Reads the measurements of a table; returns messages about it. Configurations of different tables
    /// stay separate, even with the same label.
    pub fn read(&mut self, reader: impl BufRead, source: &str) -> Result<Vec<String>, DesignError> {
        let table = table::read(reader, source, &self.workload, Throughput::Needed)?;
        self.configurations.extend(table.configurations);
        let file = source.rsplit('/').next().unwrap_or(source);
        self.names.push(file.to_owned());
        let with_source = |note: String| format!("{source}: {note}");
        Ok(table.notes.into_iter().map(with_source).collect())
    }

    /// Adds the measurements of a launched run.
    ///
    /// # Errors
    /// [`DesignError`] if the run has no measurements, or has tasks that are not in the workload.
    pub fn read_run(&mut self, events: &[RunEvent], source: &str) -> Result<(), DesignError> {
        let wrong = |why: String| DesignError::Table(format!("{source}: {why}"));
        let samples = runs::samples(events).map_err(|error| wrong(error.to_string()))?;
        let row = |m: &Measured| {
            let task = self.workload.task_index(&m.id).ok_or_else(|| {
                let names: Vec<&str> = self.workload.tasks.iter().map(|t| t.id.as_str()).collect();
                let known = names.join(", ");
                wrong(format!(
                    "the run has the tasks {}, the workload {known}",
                    m.id
                ))
            })?;
            Ok(Row {
                task,
                batch: m.batch,
                share: m.share,
                throughput: Some(m.throughput),
                stderr: m.stderr,
            })
        };
        let rows: Result<Vec<Vec<Row>>, DesignError> = samples
            .iter()
            .map(|s| s.tasks.iter().map(row).collect())
            .collect();
        self.configurations.extend(rows?);
        let file = source.rsplit('/').next().unwrap_or(source);
        self.names.push(file.to_owned());
        Ok(())
    }

    /// A message about missing measurements: fits need solo runs on the whole device as reference.
    #[must_use]
    pub fn lacks(&self) -> Vec<String> {
        let alone = |task: usize| {
            self.configurations.iter().any(
                |rows| matches!(&rows[..], [row] if row.task == task && row.share == Share::FULL),
            )
        };
        let runs = |task: usize| self.configurations.iter().flatten().any(|r| r.task == task);
        let tasks = self.workload.tasks.iter().enumerate();
        let lacking = tasks.filter(|(i, _)| runs(*i) && !alone(*i));
        lacking
            .map(|(_, task)| {
                format!(
                    "task {} has no run alone at 100 %: its solo rate is a guess, and so are fairness and every comparison with running one after another",
                    task.id
                )
            })
            .collect()
    }

    /// The profile.
    pub fn finish(self, seed: u64) -> Result<Imported, DesignError> {
        let unknown = Seconds::ZERO;
        let samples: Option<Vec<Sample>> = self
            .configurations
            .iter()
            .enumerate()
            .map(|(config, rows)| {
                let tasks: Option<Vec<Measured>> =
                    rows.iter().map(|r| row(&self.workload, r)).collect();
                Some(Sample {
                    config: config as u64,
                    tasks: tasks?,
                    window: unknown,
                    repeats: 1,
                    gpu: None,
                })
            })
            .collect();
        let samples = samples.ok_or(DesignError::NoThroughput)?;
        Ok(Imported {
            header: header(&self.names.join(", "), self.workload, seed),
            end: ProfileEnd {
                measured: samples.len() as u64,
                failed: 0,
                cost: unknown,
                stopped: StopReason::Complete,
                noise_scales: Vec::new(),
            },
            samples,
        })
    }
}

impl Imported {
    /// Writes every record.
    ///
    /// # Errors
    /// The sink's error.
    pub fn write<S: Sink>(&self, sink: &mut S) -> Result<(), S::Error> {
        sink.record(Record::Header(&self.header))?;
        for sample in &self.samples {
            sink.record(Record::Sample(sample))?;
        }
        sink.record(Record::End(&self.end))
    }
}

fn header(files: &str, workload: Workload, seed: u64) -> Header {
    let mut provenance = workload.provenance.clone();
    provenance.push(doc::Provenance {
        tool: "mt-profile".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: None,
        device: None,
    });
    Header {
        aim: None,
        workload,
        device: DeviceFingerprint {
            kind: DeviceKind::Replay,
            name: format!("imported from {files}"),
            simulated: false,
            units: None,
            detail: None,
            noise_percent: None,
        },
        design: DesignKind::Imported,
        seed,
        window: None,
        provenance,
    }
}

fn row(workload: &Workload, row: &Row) -> Option<Measured> {
    Some(Measured {
        id: workload.tasks[row.task].id.clone(),
        batch: row.batch,
        share: row.share,
        throughput: row.throughput?,
        stderr: row.stderr,
        gradient: None,
        launch: doc::Launch::default(),
    })
}

/// The runs of a configuration in a table.
pub fn runs(rows: &[Row]) -> Vec<Setting> {
    rows.iter()
        .map(|row| Setting {
            task: row.task,
            batch: row.batch,
            share: row.share,
        })
        .collect()
}
