//! The rows of Tables IV and V of the FedMT paper.

use std::error::Error;
use std::path::{Path, PathBuf};

/// One row: a mix of models on a GPU with total throughputs in images per second.
#[derive(Debug, Clone)]
pub struct Row {
    pub gpu: String,
    pub mix: String,
    pub models: Vec<&'static str>,
    pub temporal: f64,
    /// Isolated, sharing and the paper's own, each over temporal.
    pub ratios: [f64; 3],
}

/// The data folder of the paper example.
pub fn data_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/paper/data")
}

/// Catalogue name of a short name in the paper.
pub fn model(short: &str) -> Option<&'static str> {
    Some(match short {
        "ALEX" => "alexnet",
        "V16" => "vgg16",
        "R18" => "resnet18",
        "R34" => "resnet34",
        "R50" => "resnet50",
        "R101" => "resnet101",
        "M3" => "mobilenet_v3_large",
        "S2" => "shufflenet_v2_x1_0",
        "D121" => "densenet121",
        _ => return None,
    })
}

/// All 17 rows, Table IV first.
pub fn read() -> Result<Vec<Row>, Box<dyn Error>> {
    let mut rows = Vec::new();
    for file in ["table4.csv", "table5.csv"] {
        let text = std::fs::read_to_string(data_folder().join(file))?;
        let mut lines = text.lines();
        let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        for line in lines {
            let cells: Vec<&str> = line.split(',').collect();
            rows.push(row(&header, &cells)?);
        }
    }
    Ok(rows)
}

fn row(header: &[&str], cells: &[&str]) -> Result<Row, Box<dyn Error>> {
    let cell = |name: &str| {
        header
            .iter()
            .position(|h| *h == name)
            .and_then(|i| cells.get(i).copied())
            .ok_or_else(|| format!("no column {name}"))
    };
    let number = |name: &str| -> Result<f64, Box<dyn Error>> { Ok(cell(name)?.parse::<f64>()?) };
    let temporal = number("temporal_img_s")?;
    let mix = cell("combination")?;
    let models = mix
        .split('+')
        .map(|m| model(m).ok_or_else(|| format!("no model {m}")));
    Ok(Row {
        gpu: cell("gpu")?.to_owned(),
        mix: mix.to_owned(),
        models: models.collect::<Result<_, _>>()?,
        temporal,
        ratios: [
            number("isolated_img_s")? / temporal,
            number("sharing_img_s")? / temporal,
            number("fedmt_img_s")? / temporal,
        ],
    })
}
