//! Status of a running launch for display and monitoring.

use std::fmt::Write;

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

/// A line below the headings and below the table.
const STYLE: TableStyle = TableStyle::new()
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

/// Current state of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Name.
    pub task: String,
    /// Its state.
    pub state: &'static str,
    /// Share in percent.
    pub share: f64,
    /// Batch size, samples per step.
    pub batch: u32,
    /// Samples trained in this round; absent if the job reports no progress.
    pub samples: Option<u64>,
    /// Samples to train in this round.
    pub wanted: Option<u64>,
    /// Recent throughput, samples per second.
    pub rate: Option<f64>,
    /// Predicted throughput.
    pub predicted: Option<f64>,
    /// Last loss.
    pub loss: Option<f64>,
    /// Restarts in this round.
    pub restarts: u32,
}

/// The state of a run, for display and monitoring.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunState {
    /// Current round, from 0.
    pub round: u32,
    /// The tasks.
    pub rows: Vec<Row>,
    /// Progress of the whole run as a log line; absent: the line shows the progress of each task.
    pub line: Option<String>,
}

impl Row {
    /// Remaining seconds of compute at the current rate.
    fn seconds_left(&self) -> Option<f64> {
        let left = self.wanted?.saturating_sub(self.samples?) as f64;
        self.rate.filter(|r| *r > 0.0).map(|r| left / r)
    }

    /// Columns of the table.
    fn cells(&self) -> [String; 10] {
        let number = |value: Option<f64>, digits: usize| {
            value.map_or_else(String::new, |v| format!("{v:.digits$}"))
        };
        let wanted = self.wanted.map_or_else(String::new, |w| format!("/{w}"));
        let samples = self.samples.map(|samples| format!("{samples}{wanted}"));
        let left = self.seconds_left().map(|s| format!("{s:.0} s"));
        [
            self.task.clone(),
            self.state.to_owned(),
            format!("{} %", self.share),
            self.batch.to_string(),
            number(self.rate, 1),
            number(self.predicted, 1),
            number(self.loss, 4),
            samples.unwrap_or_default(),
            left.unwrap_or_default(),
            self.restarts.to_string(),
        ]
    }
}

/// Columns that are left out on a narrow terminal, in this order: values of the plan do not change, and restarts are
/// also reported as events.
const LEFT_OUT: [&str; 4] = ["batch", "predicted", "restarts", "loss"];

/// A table for a terminal of `width` columns. It must not exceed the width: a line that the terminal wraps would count
/// as one, and part of it would remain when the table is redrawn.
#[must_use]
pub fn table(state: &RunState, width: Option<u16>) -> String {
    if let Some(line) = &state.line {
        return line.clone();
    }
    let (round, rows) = (state.round, &state.rows);
    let mut table = String::new();
    for left_out in 0..=LEFT_OUT.len() {
        table = with_columns(round, rows, &LEFT_OUT[..left_out], None);
        let columns = table.lines().map(|line| line.chars().count()).max();
        if columns <= width.map(usize::from) || width.is_none() {
            return table;
        }
    }
    // With long names even this does not fit, so cells are wrapped.
    width.map_or(table, |_| with_columns(round, rows, &LEFT_OUT, width))
}

fn with_columns(round: u32, rows: &[Row], left_out: &[&str], width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(STYLE);
    if let Some(width) = width {
        table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width);
    }
    let title = format!("round {round}");
    let headings = [
        title.as_str(),
        "state",
        "share",
        "batch",
        "samples/s",
        "predicted",
        "loss",
        "samples",
        "left",
        "restarts",
    ];
    let is_shown = |i: &usize| !left_out.contains(&headings[*i]);
    let shown: Vec<usize> = (0..headings.len()).filter(is_shown).collect();
    table.set_header(shown.iter().map(|i| headings[*i]));
    for row in rows {
        let cells = row.cells();
        table.add_row(shown.iter().map(|i| cells[*i].as_str()));
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

/// A line for a log.
#[must_use]
pub fn line(state: &RunState) -> String {
    if let Some(line) = &state.line {
        return line.clone();
    }
    let row = |row: &Row| {
        let mut text = format!("{} {}", row.task, row.state);
        if let Some(samples) = row.samples {
            text += &format!(" {samples}");
            text += &row.wanted.map_or_else(String::new, |w| format!("/{w}"));
        }
        text + &row
            .rate
            .map_or_else(String::new, |r| format!(" at {r:.0}/s"))
    };
    let all: Vec<String> = state.rows.iter().map(row).collect();
    format!("round {}: {}", state.round, all.join(", "))
}

/// Metrics in the Prometheus text format 0.0.4.
#[must_use]
pub fn metrics(round: u32, rows: &[Row]) -> String {
    type Value = fn(&Row) -> Option<f64>;
    let families: [(&str, &str, &str, Value); 7] = [
        ("samples", "gauge", "Samples trained in this round", |r| {
            r.samples.map(|samples| samples as f64)
        }),
        ("samples_per_second", "gauge", "Throughput", |r| r.rate),
        (
            "predicted_samples_per_second",
            "gauge",
            "Predicted throughput",
            |r| r.predicted,
        ),
        ("share_ratio", "gauge", "Part of the device", |r| {
            Some(r.share / 100.0)
        }),
        ("loss", "gauge", "Last training loss", |r| r.loss),
        ("restarts", "gauge", "Restarts in this round", |r| {
            Some(f64::from(r.restarts))
        }),
        (
            "seconds_left",
            "gauge",
            "Seconds of compute left",
            Row::seconds_left,
        ),
    ];
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "# HELP mt_round Round under way, from 0");
    let _ = writeln!(text, "# TYPE mt_round gauge\nmt_round {round}");
    for (name, kind, help, value) in families {
        let _ = writeln!(
            text,
            "# HELP mt_task_{name} {help}\n# TYPE mt_task_{name} {kind}"
        );
        for row in rows {
            if let Some(value) = value(row) {
                let _ = writeln!(text, "mt_task_{name}{{task=\"{}\"}} {value}", row.task);
            }
        }
    }
    let _ = writeln!(
        text,
        "# HELP mt_task_state What the task does\n# TYPE mt_task_state gauge"
    );
    for row in rows {
        let _ = writeln!(
            text,
            "mt_task_state{{task=\"{}\",state=\"{}\"}} 1",
            row.task, row.state
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        Row {
            task: "a".to_owned(),
            state: "training",
            share: 40.0,
            batch: 64,
            samples: Some(500),
            wanted: Some(1500),
            rate: Some(100.0),
            predicted: Some(110.0),
            loss: None,
            restarts: 1,
        }
    }

    fn state(rows: &[Row]) -> RunState {
        RunState {
            round: 2,
            rows: rows.to_vec(),
            line: None,
        }
    }

    #[test]
    fn the_table_says_what_is_known() {
        let text = table(&state(&[row()]), None);
        for word in [
            "round 2", "training", "40 %", "100.0", "110.0", "500/1500", "10 s",
        ] {
            assert!(text.contains(word), "{word} in\n{text}");
        }
    }

    #[test]
    fn a_line_says_how_far_everybody_is() {
        let silent = Row {
            samples: None,
            rate: None,
            ..row()
        };
        let text = line(&state(&[row(), silent]));
        assert_eq!(text, "round 2: a training 500/1500 at 100/s, a training");
    }

    #[test]
    fn the_table_fits_the_terminal() {
        let long = Row {
            task: "a-task-whose-name-is-as-long-as-a-path".to_owned(),
            ..row()
        };
        let wide = table(&state(std::slice::from_ref(&long)), None);
        assert!(wide.lines().any(|line| line.chars().count() > 80), "{wide}");
        for width in [90, 80, 60] {
            let text = table(&state(std::slice::from_ref(&long)), Some(width));
            let whole = text.contains("500/1500") && text.contains("round 2");
            assert!(whole, "{text}");
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(usize::from(width)), "{text}");
        }
    }

    #[test]
    fn a_job_that_tells_nothing_has_no_count() {
        let silent = Row {
            samples: None,
            rate: None,
            ..row()
        };
        let text = table(&state(std::slice::from_ref(&silent)), None);
        assert!(!text.contains("1500"), "{text}");
        assert!(!metrics(2, &[silent]).contains("mt_task_samples{"));
    }

    #[test]
    fn metrics_are_lines_of_name_labels_and_value() {
        let text = metrics(0, &[row()]);
        assert!(text.contains("\nmt_task_samples_per_second{task=\"a\"} 100\n"));
        assert!(text.contains("\nmt_task_share_ratio{task=\"a\"} 0.4\n"));
        assert!(!text.contains("mt_task_loss{"));
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            let (_, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
        assert!(text.ends_with('\n'));
    }
}
