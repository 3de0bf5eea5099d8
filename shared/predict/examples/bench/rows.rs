//! One measured figure, and how a list of them is written.

/// A figure against its baseline; `ratio` is value over baseline.
pub struct Row {
    pub name: String,
    pub value: f64,
    pub unit: &'static str,
    pub baseline: &'static str,
    pub baseline_value: f64,
    pub what: String,
}

pub fn json(rows: &[Row]) -> String {
    let one = |r: &Row| {
        format!(
            "{{\"name\":{:?},\"value\":{},\"unit\":{:?},\"baseline\":{:?},\"baseline_value\":{},\
             \"ratio\":{},\"what\":{:?}}}",
            r.name,
            r.value,
            r.unit,
            r.baseline,
            r.baseline_value,
            r.value / r.baseline_value,
            r.what
        )
    };
    format!("[{}]", rows.iter().map(one).collect::<Vec<_>>().join(",\n"))
}

pub fn table(rows: &[Row]) -> String {
    let one = |r: &Row| {
        format!(
            "{:34} {:>9.4} {:10} {:>9.4} {:>7.3}  {}  ({})",
            r.name,
            r.value,
            r.unit,
            r.baseline_value,
            r.value / r.baseline_value,
            r.what,
            r.baseline
        )
    };
    rows.iter().map(one).collect::<Vec<_>>().join("\n")
}
