/// Colours that people with any common colour blindness can distinguish (Okabe and Ito, 2008), ordered so that
/// neighbours also differ in lightness; yellow, which is faint on white, is last.
const OKABE_ITO: [&str; 8] = [
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#F0E442",
];

/// Colour of the n-th series.
pub fn colour(index: usize) -> &'static str {
    OKABE_ITO[index % OKABE_ITO.len()]
}

/// Text and axes.
pub const INK: &str = "#222222";
/// Grid lines.
pub const GRID: &str = "#DDDDDD";
/// Background items: other schemes, unmarked points.
pub const QUIET: &str = "#9AA5B1";
