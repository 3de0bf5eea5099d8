//! Points and lines over two axes.

use super::axis::Axis;
use super::palette::{INK, QUIET, colour};
use super::svg::{Anchor, Canvas, WIDTH, fit, text_width};

/// Points and lines over two axes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plot {
    /// Title of the horizontal axis with its unit.
    pub x: String,
    /// Title of the vertical axis with its unit.
    pub y: String,
    /// Whether both axes have the same range, with a line where they are equal.
    pub same: bool,
    /// Whether the vertical axis begins at zero.
    pub from_zero: bool,
    /// Clouds of points.
    pub points: Vec<Points>,
    /// Lines.
    pub lines: Vec<Line>,
    /// Single points with a name.
    pub marks: Vec<Mark>,
}

/// A cloud of points.
#[derive(Debug, Clone, PartialEq)]
pub struct Points {
    /// Label in the legend.
    pub name: String,
    /// Number of the colour; `None`: grey.
    pub colour: Option<usize>,
    /// Coordinates of the points.
    pub at: Vec<(f64, f64)>,
}

/// A line through points.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its label in the legend.
    pub name: String,
    /// Number of the colour.
    pub colour: usize,
    /// Whether it is a step function, like a front.
    pub steps: bool,
    /// Points from left to right.
    pub at: Vec<(f64, f64)>,
}

/// A single point with a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// The name.
    pub name: String,
    /// Number of the colour.
    pub colour: usize,
    /// Coordinates of the point.
    pub at: (f64, f64),
}

/// An occupied rectangle: left, top, right, bottom.
type Area = (f64, f64, f64, f64);

/// Left margin, as in the picture of areas.
const LEFT: f64 = 86.0;
/// Height of a plot: about a third of the width, a usual shape for curves.
const HEIGHT: f64 = 300.0;

impl Line {
    /// The line on the canvas as a sequence of points, including the corners of a step function.
    fn path(&self, at: impl Fn((f64, f64)) -> (f64, f64)) -> Vec<(f64, f64)> {
        let mut path: Vec<(f64, f64)> = Vec::new();
        for &p in &self.at {
            let p = at(p);
            if self.steps
                && let Some(&(_, before)) = path.last()
            {
                path.push((p.0, before));
            }
            path.push(p);
        }
        path
    }
}

impl Plot {
    pub fn draw(&self, canvas: &mut Canvas, top: f64) -> f64 {
        let legend_rows = self.legend(canvas, top);
        let top = top + 20.0 * legend_rows + 6.0;
        let bottom = top + HEIGHT;
        let all = || self.every_point();
        let range = |pick: &dyn Fn(&(f64, f64)) -> f64| {
            let low = all().map(|p| pick(&p)).fold(f64::INFINITY, f64::min);
            let high = all().map(|p| pick(&p)).fold(f64::NEG_INFINITY, f64::max);
            if low <= high { (low, high) } else { (0.0, 1.0) }
        };
        let (mut xs, mut ys) = (range(&|p| p.0), range(&|p| p.1));
        if self.from_zero {
            ys.0 = ys.0.min(0.0);
        }
        if self.same {
            xs = (xs.0.min(ys.0), xs.1.max(ys.1));
            ys = xs;
        }
        // Equal ranges need a square plot; add 160 pixels for the names to the right of points.
        let right = if self.same {
            LEFT + HEIGHT + 160.0
        } else {
            WIDTH - 24.0
        };
        let x = Axis::new(xs.0, xs.1, LEFT, right, 8.0);
        let y = Axis::new(ys.0, ys.1, bottom, top, 6.0);
        x.horizontal(canvas, top, bottom, &self.x);
        y.vertical(canvas, LEFT, right, &self.y);
        self.contents(canvas, &x, &y, (top, right));
        bottom + 42.0
    }

    fn every_point(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let clouds = self.points.iter().flat_map(|p| p.at.iter().copied());
        let lines = self.lines.iter().flat_map(|l| l.at.iter().copied());
        clouds.chain(lines).chain(self.marks.iter().map(|m| m.at))
    }

    fn contents(&self, canvas: &mut Canvas, x: &Axis, y: &Axis, frame: (f64, f64)) {
        let at = |p: (f64, f64)| (x.at(p.0), y.at(p.1));
        if self.same {
            let ends = (x.ticks[0], x.ticks[x.ticks.len() - 1]);
            let style = format!("stroke=\"{INK}\" stroke-dasharray=\"4 3\"");
            canvas.line(at((ends.0, ends.0)), at((ends.1, ends.1)), &style);
        }
        for line in &self.lines {
            let path = line.path(at);
            let stroke = colour(line.colour);
            canvas.path(
                &path,
                false,
                &format!("fill=\"none\" stroke=\"{stroke}\" stroke-width=\"2\""),
            );
            for &p in &line.at {
                let title = format!("{}: {}, {}", line.name, p.0, p.1);
                canvas.dot(at(p), 3.0, &format!("fill=\"{stroke}\""), &title);
            }
        }
        // Draw points above the lines: a line's own dots would hide points of a cloud at the same place.
        for cloud in &self.points {
            let fill = cloud.colour.map_or(QUIET, colour);
            for &p in &cloud.at {
                let title = format!("{}: {}, {}", cloud.name, p.0, p.1);
                let style = format!("fill=\"{fill}\" fill-opacity=\"0.75\"");
                canvas.dot(at(p), 3.5, &style, &title);
            }
        }
        self.marked(canvas, at, frame);
    }

    /// Draws marks with their names, each name at a free place next to its point.
    fn marked(
        &self,
        canvas: &mut Canvas,
        at: impl Fn((f64, f64)) -> (f64, f64),
        frame: (f64, f64),
    ) {
        let own = |p: (f64, f64)| (p.0 - 5.0, p.1 - 5.0, p.0 + 5.0, p.1 + 5.0);
        let mut taken: Vec<Area> = self.marks.iter().map(|m| own(at(m.at))).collect();
        let lines: Vec<Area> = self
            .lines
            .iter()
            .flat_map(|l| along(&l.path(&at)))
            .collect();
        for mark in &self.marks {
            let p = at(mark.at);
            let fill = colour(mark.colour);
            let style = format!("fill=\"{fill}\" stroke=\"{INK}\"");
            canvas.dot(
                p,
                5.0,
                &style,
                &format!("{}: {}, {}", mark.name, mark.at.0, mark.at.1),
            );
            let name = fit(&mark.name, 11.0, 260.0);
            let width = text_width(&name, 11.0);
            let free = |area: Area| {
                let inside = area.0 > LEFT
                    && area.2 < frame.1
                    && area.1 > frame.0
                    && area.3 < frame.0 + HEIGHT;
                inside && taken.iter().all(|t| apart(*t, area))
            };
            let mut free = places(p, width).into_iter().filter(|place| free(place.0));
            // A name that overlaps a line is better than no name.
            let first = free.clone().next();
            let clear = free.find(|place| lines.iter().all(|t| apart(*t, place.0)));
            let place = clear.or(first);
            let Some((area, x, y, anchor)) = place else {
                continue;
            };
            taken.push(area);
            // Beyond about a line of text, it is unclear which point a name belongs to, so connect them by a thin
            // line.
            let far = (y - p.1).abs() > 20.0;
            if far {
                canvas.line(
                    p,
                    (x, y - 4.0),
                    &format!("stroke=\"{INK}\" stroke-width=\"0.7\""),
                );
            }
            canvas.haloed(x, y, 11.0, anchor, &name);
        }
    }

    /// Names of clouds and lines above the plot; returns the number of rows used.
    fn legend(&self, canvas: &mut Canvas, top: f64) -> f64 {
        let clouds = self.points.iter().map(|p| (&p.name, p.colour, false));
        let lines = self.lines.iter().map(|l| (&l.name, Some(l.colour), true));
        let (mut x, mut row) = (LEFT, 0.0);
        let mut any = false;
        for (name, tint, line) in clouds.chain(lines) {
            let width = 22.0 + text_width(name, 11.0) + 18.0;
            if x + width > WIDTH - 16.0 && x > LEFT {
                x = LEFT;
                row += 1.0;
            }
            let y = top + 20.0 * row + 9.0;
            let fill = tint.map_or(QUIET, colour);
            if line {
                let style = format!("stroke=\"{fill}\" stroke-width=\"2\"");
                canvas.line((x, y), (x + 16.0, y), &style);
            } else {
                canvas.dot((x + 8.0, y), 4.0, &format!("fill=\"{fill}\""), "");
            }
            canvas.text(x + 22.0, y + 4.0, 11.0, name);
            x += width;
            any = true;
        }
        if any { row + 1.0 } else { 0.0 }
    }
}

/// Small areas along a path that text should avoid.
fn along(path: &[(f64, f64)]) -> Vec<Area> {
    // Distance of the areas: less than the height of a letter, so that no text fits between two of them.
    const APART: f64 = 6.0;
    let mut all = Vec::new();
    for pair in path.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let length = (to.0 - from.0).hypot(to.1 - from.1);
        let count = (length / APART).ceil().max(1.0) as u32;
        for k in 0..=count {
            let part = f64::from(k) / f64::from(count);
            let (x, y) = (
                from.0 + part * (to.0 - from.0),
                from.1 + part * (to.1 - from.1),
            );
            all.push((x - 2.0, y - 2.0, x + 2.0, y + 2.0));
        }
    }
    all
}

/// Possible places of a text around a point, best first: area, baseline and anchor.
fn places(p: (f64, f64), width: f64) -> Vec<(Area, f64, f64, Anchor)> {
    let mut all = Vec::new();
    // Next to the point first, then up and down alternately, one line of text (14 pixels) further each time.
    for dy in [4.0, -10.0, 18.0, -24.0, 32.0, -38.0, 46.0, -52.0, 60.0] {
        let y = p.1 + dy;
        all.push((
            (p.0 + 8.0, y - 10.0, p.0 + 8.0 + width, y + 3.0),
            p.0 + 8.0,
            y,
            Anchor::Start,
        ));
        all.push((
            (p.0 - 8.0 - width, y - 10.0, p.0 - 8.0, y + 3.0),
            p.0 - 8.0,
            y,
            Anchor::End,
        ));
    }
    all
}

fn apart(a: Area, b: Area) -> bool {
    a.2 < b.0 || b.2 < a.0 || a.3 < b.1 || b.3 < a.1
}
