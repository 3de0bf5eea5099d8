//! Stacked areas over time, in panels one below the other.

use super::axis::Axis;
use super::palette::colour;
use super::svg::{Canvas, WIDTH, fit, text_width};

/// Panels with a common time axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Area {
    /// Title of the time axis.
    pub x: String,
    /// Title of the vertical axis of every panel.
    pub y: String,
    /// Value of the vertical axis at the top of every panel, for example all SMs.
    pub full: f64,
    /// Names of the layers, from the bottom.
    pub layers: Vec<String>,
    /// The panels.
    pub panels: Vec<Panel>,
}

/// One panel.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// Its name.
    pub name: String,
    /// Start of each interval and the height of each layer in it; the last entry only marks the end.
    pub steps: Vec<(f64, Vec<f64>)>,
}

/// Left margin: room for the vertical title of the axis, and for tick labels of seven digits at size 11.
const LEFT: f64 = 86.0;
/// Height of a panel. Low, since there is one panel per GPU or task, and readers compare them down the page.
const HEIGHT: f64 = 96.0;

impl Area {
    pub fn draw(&self, canvas: &mut Canvas, top: f64) -> f64 {
        let (mut x, mut top) = (LEFT, top);
        for (i, name) in self.layers.iter().enumerate() {
            let name = fit(name, 11.0, 260.0);
            let width = 20.0 + text_width(&name, 11.0) + 16.0;
            if x + width > WIDTH - 16.0 && x > LEFT {
                (x, top) = (LEFT, top + 18.0);
            }
            let style = format!("fill=\"{}\"", colour(i));
            canvas.rect((x, top + 3.0), (14.0, 11.0), &style, "");
            canvas.text(x + 20.0, top + 13.0, 11.0, &name);
            x += width;
        }
        let ends = self
            .panels
            .iter()
            .filter_map(|p| p.steps.last())
            .map(|s| s.0);
        let time = Axis::exact(0.0, ends.fold(0.0, f64::max), LEFT, WIDTH - 24.0, 8.0);
        let mut y = top + 22.0;
        for (i, panel) in self.panels.iter().enumerate() {
            canvas.text(LEFT, y + 14.0, 12.0, &panel.name);
            let (from, to) = (y + 20.0, y + 20.0 + HEIGHT);
            let mut height = Axis::exact(0.0, self.full, to, from, 2.0);
            // The full height is always labelled; a round tick this close to it would overlap it.
            height.ticks.retain(|t| *t < 0.8 * self.full);
            height.ticks.push(self.full);
            let last = i + 1 == self.panels.len();
            if last {
                time.horizontal(canvas, from, to, &self.x);
            }
            height.vertical(canvas, LEFT, WIDTH - 24.0, &self.y);
            self.stack(canvas, panel, &time, &height);
            y = to + 6.0;
        }
        y + 36.0
    }

    fn stack(&self, canvas: &mut Canvas, panel: &Panel, time: &Axis, height: &Axis) {
        // Every layer is drawn down to zero, the highest first. Later layers cover their own part, so no gap is
        // visible between two layers.
        for layer in (0..self.layers.len()).rev() {
            let sum = |values: &[f64]| values.iter().take(layer + 1).sum::<f64>();
            let mut path = vec![(
                time.at(panel.steps.first().map_or(0.0, |s| s.0)),
                height.at(0.0),
            )];
            for pair in panel.steps.windows(2) {
                let y = height.at(sum(&pair[0].1));
                path.push((time.at(pair[0].0), y));
                path.push((time.at(pair[1].0), y));
            }
            let end = panel.steps.last().map_or(0.0, |s| s.0);
            path.push((time.at(end), height.at(0.0)));
            canvas.path(&path, true, &format!("fill=\"{}\"", colour(layer)));
        }
    }
}
