//! Draws phases of a round over time, planned above measured.

use super::axis::Axis;
use super::palette::{GRID, INK, colour};
use super::svg::{Anchor, Canvas, WIDTH, fit, text_width};

/// Lanes of phases over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Gantt {
    /// Title of the time axis.
    pub axis: String,
    /// The lanes, from the top.
    pub lanes: Vec<Lane>,
    /// Vertical lines with a name: makespan, bound.
    pub limits: Vec<(String, f64)>,
}

/// One lane: a resource, or the compute of one task.
#[derive(Debug, Clone, PartialEq)]
pub struct Lane {
    /// Name of the lane.
    pub name: String,
    /// What was planned.
    pub planned: Vec<Span>,
    /// What happened.
    pub measured: Vec<Span>,
}

/// A phase of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Name of the task.
    pub task: String,
    /// Number of the task, for its colour.
    pub index: usize,
    /// Start in seconds.
    pub start: f64,
    /// End in seconds.
    pub end: f64,
}

/// Height of a bar, which has room for text of size 11; a lane has two bars, planned above measured.
const BAR: f64 = 20.0;
/// Space between two lanes; the two bars of a lane touch.
const GAP: f64 = 8.0;
/// Maximum width of names, as in the picture of bars.
const NAMES: f64 = 240.0;

impl Gantt {
    pub fn draw(&self, canvas: &mut Canvas, top: f64) -> f64 {
        let both = self.lanes.iter().any(|l| !l.planned.is_empty())
            && self.lanes.iter().any(|l| !l.measured.is_empty());
        let bars = if both { 2.0 } else { 1.0 };
        let names = self.lanes.iter().map(|l| text_width(&l.name, 12.0));
        let left = 16.0 + names.fold(60.0, f64::max).min(NAMES) + 10.0;
        let spans = self
            .lanes
            .iter()
            .flat_map(|l| l.planned.iter().chain(&l.measured));
        let last = spans.map(|s| s.end).chain(self.limits.iter().map(|l| l.1));
        let axis = Axis::exact(0.0, last.fold(0.0, f64::max), left, WIDTH - 24.0, 8.0);
        let named = self.limit_rows(&axis);
        let rows = named.iter().map(|l| l.2 + 1).max().unwrap_or(0);
        let legend = if both { 20.0 } else { 0.0 };
        let top = top + legend + 16.0 * rows as f64;
        let height = bars * BAR + GAP;
        let bottom = top + height * self.lanes.len() as f64 + 4.0;
        axis.horizontal(canvas, top, bottom, &self.axis);
        if both {
            Self::legend(canvas, left, top - 16.0 * rows as f64 - 20.0);
        }
        for (i, lane) in self.lanes.iter().enumerate() {
            let y = top + 4.0 + height * i as f64;
            canvas.label(
                left - 8.0,
                y + height / 2.0 - 1.0,
                12.0,
                Anchor::End,
                &fit(&lane.name, 12.0, NAMES),
            );
            let edge = y + height - GAP / 2.0;
            canvas.line(
                (left, edge),
                (WIDTH - 24.0, edge),
                &format!("stroke=\"{GRID}\""),
            );
            for span in &lane.planned {
                Self::bar(canvas, &axis, span, y, both, "planned");
            }
            let below = if both { y + BAR } else { y };
            for span in &lane.measured {
                Self::bar(canvas, &axis, span, below, false, "measured");
            }
        }
        for (text, x, row, anchor) in named {
            let y = top - 4.0 - 16.0 * row as f64;
            let style = format!("stroke=\"{INK}\" stroke-dasharray=\"4 3\"");
            canvas.line((x, y + 2.0), (x, bottom), &style);
            let shift = if anchor == Anchor::End { -4.0 } else { 4.0 };
            canvas.haloed(x + shift, y, 11.0, anchor, &text);
        }
        bottom + 42.0
    }

    /// Places the labels of the limits so that no two overlap: text, pixel, row above the lanes, and side of
    /// the line.
    fn limit_rows(&self, axis: &Axis) -> Vec<(String, f64, usize, Anchor)> {
        let mut placed: Vec<(String, f64, usize, Anchor)> = Vec::new();
        let mut taken: Vec<(usize, f64, f64)> = Vec::new();
        for (text, value) in &self.limits {
            let x = axis.at(*value);
            let width = text_width(text, 11.0) + 10.0;
            let anchor = if x + width > WIDTH - 8.0 {
                Anchor::End
            } else {
                Anchor::Start
            };
            let (from, to) = if anchor == Anchor::End {
                (x - width, x + 2.0)
            } else {
                (x - 2.0, x + width)
            };
            let free = |row: usize| taken.iter().all(|t| t.0 != row || to < t.1 || from > t.2);
            let row = (0..=placed.len()).find(|&r| free(r)).unwrap_or(0);
            taken.push((row, from, to));
            placed.push((text.clone(), x, row, anchor));
        }
        placed
    }

    fn legend(canvas: &mut Canvas, left: f64, y: f64) {
        let fill = colour(0);
        let light = format!("fill=\"{fill}\" fill-opacity=\"0.25\" stroke=\"{fill}\"");
        canvas.rect((left, y), (22.0, 11.0), &light, "");
        canvas.text(left + 28.0, y + 10.0, 11.0, "planned");
        let x = left + 28.0 + text_width("planned", 11.0) + 18.0;
        canvas.rect((x, y), (22.0, 11.0), &format!("fill=\"{fill}\""), "");
        canvas.text(x + 28.0, y + 10.0, 11.0, "measured");
    }

    fn bar(canvas: &mut Canvas, axis: &Axis, span: &Span, y: f64, light: bool, what: &str) {
        let (from, to) = (axis.at(span.start), axis.at(span.end));
        let fill = colour(span.index);
        let style = if light {
            format!("fill=\"{fill}\" fill-opacity=\"0.25\" stroke=\"{fill}\"")
        } else {
            format!("fill=\"{fill}\" stroke=\"#FFFFFF\" stroke-width=\"0.5\"")
        };
        // Minimum width, so that a phase of a millisecond in a round of a minute, narrower than a pixel, is
        // still visible.
        let width = (to - from).max(1.5);
        let title = format!(
            "{} {what}: {:.3} s to {:.3} s",
            span.task, span.start, span.end
        );
        canvas.rect((from, y + 1.0), (width, BAR - 2.0), &style, &title);
        if text_width(&span.task, 11.0) + 6.0 <= width {
            let middle = from + width / 2.0;
            let ink = if light { INK } else { on(span.index) };
            canvas.coloured(
                middle,
                y + BAR / 2.0 + 4.0,
                11.0,
                Anchor::Middle,
                ink,
                &span.task,
            );
        }
    }
}

/// Colour of text that is readable on a series' colour: white on the two dark ones.
fn on(index: usize) -> &'static str {
    match index % 8 {
        0 => "#FFFFFF",
        _ => "#000000",
    }
}
