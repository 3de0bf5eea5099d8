//! The paper's figures, from the CSV files in `data`.

use std::path::Path;

use crate::Outcome;

/// A CSV file as rows of cells by column name.
pub struct Sheet {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Sheet {
    pub fn read(path: &Path) -> Outcome<Self> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let mut lines = text
            .lines()
            .map(|l| l.split(',').map(str::to_owned).collect::<Vec<_>>());
        Ok(Self {
            header: lines.next().unwrap_or_default(),
            rows: lines.collect(),
        })
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn text(&self, row: usize, column: &str) -> Outcome<&str> {
        let cell = self
            .header
            .iter()
            .position(|h| h == column)
            .and_then(|i| self.rows.get(row)?.get(i));
        Ok(cell.ok_or_else(|| format!("no {column} in row {row}"))?)
    }

    pub fn number(&self, row: usize, column: &str) -> Outcome<f64> {
        Ok(self.text(row, column)?.parse()?)
    }
}

/// One row of Table IV or V.
pub struct Throughputs {
    pub gpu: String,
    pub mix: String,
    pub temporal: f64,
    /// Isolated, sharing, FedMT: images per second.
    pub schemes: [f64; 3],
}

/// The 17 rows of Tables IV and V.
pub fn throughputs(data: &Path) -> Outcome<Vec<Throughputs>> {
    let mut all = Vec::new();
    for file in ["table4.csv", "table5.csv"] {
        let sheet = Sheet::read(&data.join(file))?;
        for row in 0..sheet.len() {
            all.push(Throughputs {
                gpu: sheet.text(row, "gpu")?.to_owned(),
                mix: sheet.text(row, "combination")?.to_owned(),
                temporal: sheet.number(row, "temporal_img_s")?,
                schemes: [
                    sheet.number(row, "isolated_img_s")?,
                    sheet.number(row, "sharing_img_s")?,
                    sheet.number(row, "fedmt_img_s")?,
                ],
            });
        }
    }
    Ok(all)
}

/// One row of Table I.
pub struct Overlap {
    pub mix: String,
    pub off_s: f64,
    pub off_images_per_s: f64,
    pub on_s: f64,
    pub on_images_per_s: f64,
}

impl Overlap {
    /// Images of a round: time multiplied by throughput, which agree within 0.1 % with and without overlap.
    pub fn images(&self) -> f64 {
        (self.off_s * self.off_images_per_s + self.on_s * self.on_images_per_s) / 2.0
    }
}

/// The three rows of Table I.
pub fn overlaps(data: &Path) -> Outcome<Vec<Overlap>> {
    let sheet = Sheet::read(&data.join("table1.csv"))?;
    (0..sheet.len())
        .map(|row| {
            Ok(Overlap {
                mix: sheet.text(row, "setting")?.to_owned(),
                off_s: sheet.number(row, "off_seconds")?,
                off_images_per_s: sheet.number(row, "off_img_per_s")?,
                on_s: sheet.number(row, "on_seconds")?,
                on_images_per_s: sheet.number(row, "on_img_per_s")?,
            })
        })
        .collect()
}

/// A claim of the paper outside of its tables, as an interval.
pub fn claim(data: &Path, beginning: &str) -> Outcome<(f64, f64)> {
    let sheet = Sheet::read(&data.join("claims.csv"))?;
    for row in 0..sheet.len() {
        if sheet.text(row, "claim")?.starts_with(beginning) {
            return Ok((sheet.number(row, "low")?, sheet.number(row, "high")?));
        }
    }
    Err(format!("claims.csv has no {beginning:?}").into())
}

/// One task of a setting of Table III.
pub struct Allocation {
    pub setting: String,
    pub model: String,
    pub batch: u64,
    pub best: f64,
    pub fedmt: f64,
}

/// Table III, task by task.
pub fn allocations(data: &Path) -> Outcome<Vec<Allocation>> {
    let sheet = Sheet::read(&data.join("table3.csv"))?;
    (0..sheet.len())
        .map(|row| {
            Ok(Allocation {
                setting: sheet.text(row, "setting")?.to_owned(),
                model: sheet.text(row, "model")?.to_owned(),
                batch: sheet.number(row, "batch")? as u64,
                best: sheet.number(row, "best_share_percent")?,
                fedmt: sheet.number(row, "fedmt_share_percent")?,
            })
        })
        .collect()
}

/// Table II: the paper's search.
pub struct Search {
    pub points: f64,
    pub ms_per_point: f64,
    pub seconds: f64,
}

/// Table II.
pub fn search(data: &Path) -> Outcome<Search> {
    let sheet = Sheet::read(&data.join("table2.csv"))?;
    let item = |name: &str| -> Outcome<f64> {
        let mut rows = 0..sheet.len();
        let row = rows.find(|&row| sheet.text(row, "item").is_ok_and(|item| item == name));
        sheet.number(
            row.ok_or_else(|| format!("table2.csv has no {name}"))?,
            "value",
        )
    };
    Ok(Search {
        points: item("search_points")?,
        ms_per_point: item("prediction_ms_per_point")?,
        seconds: item("search_seconds")?,
    })
}
