//! Horizontal bars, one row for each scheme.

use super::axis::Axis;
use super::palette::{INK, QUIET, colour};
use super::svg::{Anchor, Canvas, WIDTH, fit, text_width};
use crate::number::{decimals, fixed};

/// Bars with values at their ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// Title of the axis with its unit.
    pub axis: String,
    /// The rows, from the top.
    pub rows: Vec<Bar>,
}

/// One row.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// Name of the row.
    pub name: String,
    /// Length of the bar.
    pub value: f64,
    /// Text after the value, for example the gain.
    pub note: String,
    /// A second value to compare with.
    pub other: Option<f64>,
    /// Whether this row is the subject of the picture.
    pub chosen: bool,
}

/// Height of a row: a bar of 22 pixels, which has room for text of size 12, and 8 pixels between two bars.
const ROW: f64 = 30.0;
/// Maximum width of names: about 32 letters of size 12, a quarter of the picture, because the bars matter more.
/// Longer names lose their middle ([`fit`]).
const NAMES: f64 = 240.0;

impl Bars {
    pub fn draw(&self, canvas: &mut Canvas, top: f64) -> f64 {
        let size = 12.0;
        let names = self.rows.iter().map(|r| text_width(&r.name, size));
        // The widths of names and values decide where bars begin and end. A minimum width makes most pictures of a
        // report begin alike.
        let left = 16.0 + names.fold(60.0, f64::max).min(NAMES) + 10.0;
        let ends = self.rows.iter().map(|r| text_width(&self.end(r), size));
        let right = WIDTH - 16.0 - ends.fold(40.0, f64::max) - 8.0;
        let most = self
            .rows
            .iter()
            .flat_map(|r| [Some(r.value), r.other])
            .flatten();
        let axis = Axis::new(0.0, most.fold(0.0, f64::max), left, right, 5.0);
        let legend = self.rows.iter().any(|r| r.other.is_some());
        let top = if legend { top + 20.0 } else { top };
        let bottom = top + ROW * self.rows.len() as f64 + 4.0;
        axis.horizontal(canvas, top, bottom, &self.axis);
        if legend {
            Self::legend(canvas, left, top - 18.0);
        }
        for (i, row) in self.rows.iter().enumerate() {
            self.row(canvas, &axis, row, top + 4.0 + ROW * i as f64, left);
        }
        bottom + 42.0
    }

    fn end(&self, row: &Bar) -> String {
        let decimals = decimals(self.rows.iter().map(|r| r.value));
        let value = fixed(row.value, decimals);
        if row.note.is_empty() {
            return value;
        }
        format!("{value} ({})", row.note)
    }

    fn legend(canvas: &mut Canvas, left: f64, y: f64) {
        canvas.rect((left, y), (14.0, 10.0), &format!("fill=\"{QUIET}\""), "");
        canvas.text(left + 19.0, y + 9.0, 11.0, "measured");
        let x = left + 19.0 + text_width("measured", 11.0) + 16.0;
        canvas.line(
            (x, y - 2.0),
            (x, y + 12.0),
            &format!("stroke=\"{INK}\" stroke-width=\"3\""),
        );
        canvas.text(x + 8.0, y + 9.0, 11.0, "predicted");
    }

    fn row(&self, canvas: &mut Canvas, axis: &Axis, row: &Bar, y: f64, left: f64) {
        let fill = if row.chosen { colour(0) } else { QUIET };
        let height = ROW - 8.0;
        let width = axis.at(row.value) - left;
        let title = format!("{}: {}", row.name, row.value);
        canvas.rect(
            (left, y),
            (width, height),
            &format!("fill=\"{fill}\""),
            &title,
        );
        let middle = y + height / 2.0 + 4.0;
        canvas.label(
            left - 8.0,
            middle,
            12.0,
            Anchor::End,
            &fit(&row.name, 12.0, NAMES),
        );
        let mut end = axis.at(row.value);
        if let Some(other) = row.other {
            let x = axis.at(other);
            let style = format!("stroke=\"{INK}\" stroke-width=\"3\"");
            canvas.line((x, y - 2.0), (x, y + height + 2.0), &style);
            end = end.max(x + 2.0);
        }
        canvas.haloed(end + 6.0, middle, 12.0, Anchor::Start, &self.end(row));
    }
}
