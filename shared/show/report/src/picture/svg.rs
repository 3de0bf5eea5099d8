//! Writes SVG elements.

use std::fmt::Write;

use super::palette::INK;

/// Width of every picture in pixels: about a column of text on a screen. Chosen by hand.
pub const WIDTH: f64 = 880.0;

/// Elements of a picture.
#[derive(Debug)]
pub struct Canvas {
    out: String,
}

/// Which part of a text its point marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// Text escaped for XML and HTML; characters that XML forbids are removed.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => out.push(c),
        }
    }
    out
}

/// Upper bound on the width of a text in pixels, in any of the fonts: uses the widths of DejaVu Sans, the widest of
/// them, by class of letter.
pub fn text_width(text: &str, size: f64) -> f64 {
    let em: f64 = text
        .chars()
        .map(|c| match c {
            'i' | 'j' | 'l' | '\'' | '|' | 'I' => 0.32,
            ' ' | '.' | ',' | ':' | ';' | '/' | '(' | ')' | 'f' | 't' | 'r' | '-' => 0.42,
            'm' | 'w' | 'M' | 'W' | '%' | '@' => 1.0,
            'a'..='z' | '0'..='9' => 0.645,
            c if c.is_ascii() => 0.78,
            _ => 1.05,
        })
        .sum();
    em * size
}

/// Shortens a text to a width with an ellipsis in the middle: related names differ as often at their ends as at
/// their beginnings.
pub fn fit(text: &str, size: f64, width: f64) -> String {
    if text_width(text, size) <= width {
        return text.to_owned();
    }
    let letters: Vec<char> = text.chars().collect();
    let cut = |kept: usize| -> String {
        let head = kept.div_ceil(2);
        let tail = letters.len() - (kept - head);
        let parts = letters[..head].iter().chain(&['…']);
        parts.chain(&letters[tail..]).collect()
    };
    let longest = (0..letters.len())
        .rev()
        .map(cut)
        .find(|short| text_width(short, size) <= width);
    longest.unwrap_or_else(|| "…".to_owned())
}

/// Formats a coordinate with at most two decimals.
fn n(value: f64) -> String {
    let text = format!("{value:.2}");
    let short = text.trim_end_matches('0').trim_end_matches('.');
    if short == "-0" {
        "0".to_owned()
    } else {
        short.to_owned()
    }
}

impl Canvas {
    pub fn new() -> Self {
        Self { out: String::new() }
    }

    pub fn into_elements(self) -> String {
        self.out
    }

    fn push(&mut self, element: &str) {
        self.out.push_str(element);
        self.out.push('\n');
    }

    /// Draws a text that starts at a point.
    pub fn text(&mut self, x: f64, y: f64, size: f64, text: &str) {
        self.label(x, y, size, Anchor::Start, text);
    }

    /// Draws a bold heading that starts at a point.
    pub fn bold(&mut self, x: f64, y: f64, size: f64, text: &str) {
        let style = format!(" font-weight=\"bold\" fill=\"{INK}\"");
        self.styled(x, y, size, &style, text);
    }

    /// `style`: further attributes, each after a space.
    fn styled(&mut self, x: f64, y: f64, size: f64, style: &str, text: &str) {
        self.push(&format!(
            "<text x=\"{}\" y=\"{}\" font-size=\"{}\"{style}>{}</text>",
            n(x),
            n(y),
            n(size),
            escape(text)
        ));
    }

    /// Draws a text at a point; `anchor` says which part of the text the point marks.
    pub fn label(&mut self, x: f64, y: f64, size: f64, anchor: Anchor, text: &str) {
        self.coloured(x, y, size, anchor, INK, text);
    }

    /// Draws a coloured text at a point.
    pub fn coloured(&mut self, x: f64, y: f64, size: f64, anchor: Anchor, fill: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        self.styled(x, y, size, &format!("{anchor} fill=\"{fill}\""), text);
    }

    /// Draws a text with a white outline, so that lines below it do not cross its letters.
    pub fn haloed(&mut self, x: f64, y: f64, size: f64, anchor: Anchor, text: &str) {
        let start = self.out.len();
        self.label(x, y, size, anchor, text);
        let halo = "<text paint-order=\"stroke\" stroke=\"#FFFFFF\" stroke-width=\"4\" stroke-linejoin=\"round\"";
        let element = self.out.split_off(start).replacen("<text", halo, 1);
        self.out.push_str(&element);
    }

    /// Draws vertical text that runs upwards, centred on a point.
    pub fn upwards(&mut self, x: f64, y: f64, size: f64, text: &str) {
        let turn = format!("rotate(-90 {} {})", n(x), n(y));
        let style = format!(" text-anchor=\"middle\" fill=\"{INK}\" transform=\"{turn}\"");
        self.styled(x, y, size, &style, text);
    }

    /// Draws a filled rectangle; `title` appears as its tooltip.
    pub fn rect(&mut self, at: (f64, f64), size: (f64, f64), style: &str, title: &str) {
        let x = n(at.0);
        let y = n(at.1);
        let w = n(size.0.max(0.0));
        let h = n(size.1);
        let title = if title.is_empty() {
            String::new()
        } else {
            format!("<title>{}</title>", escape(title))
        };
        self.push(&format!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" {style}>{title}</rect>"
        ));
    }

    /// Draws a straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), style: &str) {
        let (a, b, c, d) = (n(from.0), n(from.1), n(to.0), n(to.1));
        self.push(&format!(
            "<line x1=\"{a}\" y1=\"{b}\" x2=\"{c}\" y2=\"{d}\" {style}/>"
        ));
    }

    /// Draws a line through points.
    pub fn path(&mut self, points: &[(f64, f64)], close: bool, style: &str) {
        let mut d = String::new();
        for (i, (x, y)) in points.iter().enumerate() {
            // Writing to a String cannot fail.
            let _ = write!(d, "{}{} {}", if i == 0 { "M" } else { " L" }, n(*x), n(*y));
        }
        if close {
            d.push_str(" Z");
        }
        self.push(&format!("<path d=\"{d}\" {style}/>"));
    }

    /// Draws a dot; `title` appears as its tooltip.
    pub fn dot(&mut self, at: (f64, f64), radius: f64, style: &str, title: &str) {
        let (x, y, r) = (n(at.0), n(at.1), n(radius));
        let title = escape(title);
        self.push(&format!(
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"{r}\" {style}><title>{title}</title></circle>"
        ));
    }
}

/// Wraps SVG elements into a complete document.
pub fn document(body: &str, width: f64, height: f64) -> String {
    let (w, h) = (n(width), n(height));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" \
         viewBox=\"0 0 {w} {h}\" font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\">\n\
         <rect width=\"{w}\" height=\"{h}\" fill=\"#FFFFFF\"/>\n{body}</svg>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_keep_both_ends() {
        let a = fit("federation-of-hospitals-resnet50-a", 12.0, 120.0);
        let b = fit("federation-of-hospitals-resnet50-b", 12.0, 120.0);
        assert_ne!(a, b);
        assert!(
            a.starts_with("fed") && a.ends_with("-a") && a.contains('…'),
            "{a}"
        );
        assert!(text_width(&a, 12.0) <= 120.0);
        assert_eq!(fit("short", 12.0, 120.0), "short");
        assert_eq!(fit("short", 12.0, 0.0), "…");
    }
}
