//! A profile of measurements made elsewhere.

use std::io::BufRead;

use cli::{Failure, Output};
use device::Run;
use doc::{
    DesignKind, DeviceFingerprint, DeviceKind, Header, Measured, ProfileEnd, Sample, StopReason,
    Workload,
};
use units::Seconds;

use crate::table::{self, Row, Throughput};

/// A profile that was read from a table.
pub struct Imported {
    header: Header,
    samples: Vec<Sample>,
    end: ProfileEnd,
}

/// Reads the measurements of a table.
pub fn read(
    reader: impl BufRead,
    source: &str,
    workload: Workload,
    seed: u64,
) -> Result<Imported, Failure> {
    let rows = table::read(reader, source, &workload, Throughput::Needed)?;
    let unknown = Seconds::new(0.0).map_err(|error| Failure::Input(error.to_string()))?;
    let samples: Option<Vec<Sample>> = rows
        .iter()
        .enumerate()
        .map(|(config, rows)| {
            let tasks: Option<Vec<Measured>> = rows.iter().map(|r| row(&workload, r)).collect();
            Some(Sample {
                config: config as u64,
                tasks: tasks?,
                window: unknown,
                repeats: 1,
            })
        })
        .collect();
    let samples =
        samples.ok_or_else(|| Failure::Input(format!("{source}: a row has no throughput")))?;
    Ok(Imported {
        header: header(source, workload, seed),
        end: ProfileEnd {
            measured: samples.len() as u64,
            failed: 0,
            cost: unknown,
            stopped: StopReason::Complete,
        },
        samples,
    })
}

impl Imported {
    /// Writes every record.
    pub fn write(&self, out: &mut Output) -> Result<(), Failure> {
        out.record(&self.header)?;
        for sample in &self.samples {
            out.record(sample)?;
        }
        out.record(&self.end)
    }
}

fn header(source: &str, workload: Workload, seed: u64) -> Header {
    let file = source.rsplit('/').next().unwrap_or(source);
    let mut provenance = workload.provenance.clone();
    provenance.push(cli::provenance(
        "mt-profile",
        env!("CARGO_PKG_VERSION"),
        None,
        None,
    ));
    Header {
        workload,
        device: DeviceFingerprint {
            kind: DeviceKind::Replay,
            name: format!("imported from {file}"),
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
    })
}

/// The runs of a configuration in a table.
pub fn runs(rows: &[Row]) -> Vec<Run> {
    rows.iter()
        .map(|row| Run {
            task: row.task,
            batch: row.batch,
            share: row.share,
        })
        .collect()
}
