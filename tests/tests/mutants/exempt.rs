//! Fields whose alteration may go unnoticed, each with the reason.

mod table;

use std::collections::BTreeSet;

use table::EXEMPT;

/// The exemption of a position. A strong alteration is exempt if the same slight one is.
pub fn reason(document: &str, place: &str, kind: &str) -> Option<usize> {
    let kind = match kind {
        "null" | "emptied" | "halved" => "deleted",
        "turned" => "swapped",
        "duplicated" => "longer",
        "scaled" | "scaled far" => "more",
        "scaled down" | "zero" | "negated" => "less",
        kind => kind,
    };
    EXEMPT.iter().position(|(of, part, what, _)| {
        (of.is_empty() || document.split(' ').any(|kind| *of == kind))
            && place.contains(part)
            && (what.is_empty() || *what == kind)
    })
}

/// Exemptions that were not needed: those for strong alterations (exchanges), or all others.
pub fn unused(used: &BTreeSet<usize>, far: bool) -> Vec<&'static str> {
    let unused = EXEMPT.iter().enumerate().filter(|(i, _)| !used.contains(i));
    let own = unused.filter(|(_, exempt)| exempt.2.contains("exchanged") == far);
    own.map(|(_, exempt)| exempt.1).collect()
}

/// Why an alteration may go unnoticed.
pub fn why(at: usize) -> &'static str {
    EXEMPT[at].3
}
