//! Contents of pictures, and how they are drawn as SVG.

mod area;
mod axis;
mod bars;
mod gantt;
mod palette;
mod plot;
mod svg;

pub use area::{Area, Panel};
pub use bars::{Bar, Bars};
pub use gantt::{Gantt, Lane, Span};
pub use plot::{Line, Mark, Plot, Points};
pub use svg::{Canvas, escape};

/// One picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    /// Name for `--picture`.
    pub key: &'static str,
    /// Title: what the picture shows.
    pub title: String,
    /// A remark below the title, for example that numbers are simulated.
    pub subtitle: String,
    /// What is drawn.
    pub drawing: Drawing,
}

/// Content of a picture, by kind of chart.
#[derive(Debug, Clone, PartialEq)]
pub enum Drawing {
    /// Bars with values.
    Bars(Bars),
    /// Points and lines over two axes.
    Plot(Plot),
    /// Phases over time.
    Gantt(Gantt),
    /// Stacked areas over time.
    Area(Area),
}

impl Picture {
    /// Draws the picture; returns its SVG elements and height.
    pub fn draw(&self) -> (String, f64) {
        let mut canvas = Canvas::new();
        canvas.bold(16.0, 24.0, 16.0, &self.title);
        let mut top = 34.0;
        if !self.subtitle.is_empty() {
            canvas.text(16.0, 42.0, 12.0, &self.subtitle);
            top = 52.0;
        }
        let bottom = match &self.drawing {
            Drawing::Bars(bars) => bars.draw(&mut canvas, top),
            Drawing::Plot(plot) => plot.draw(&mut canvas, top),
            Drawing::Gantt(gantt) => gantt.draw(&mut canvas, top),
            Drawing::Area(area) => area.draw(&mut canvas, top),
        };
        (canvas.into_elements(), bottom + 12.0)
    }
}

/// One SVG document of pictures, one below the other.
pub fn document<'a>(pictures: impl IntoIterator<Item = &'a Picture>) -> String {
    let mut body = String::new();
    let mut y = 0.0;
    for picture in pictures {
        let (elements, height) = picture.draw();
        body.push_str(&format!(
            "<g transform=\"translate(0 {y})\">\n{elements}</g>\n"
        ));
        y += height;
    }
    svg::document(&body, svg::WIDTH, y.max(1.0))
}
