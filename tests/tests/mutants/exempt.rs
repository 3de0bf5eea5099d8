//! Fields that may be altered unnoticed, each with the reason.

mod table;

use std::collections::BTreeSet;

use table::EXEMPT;

/// The exemption of a place. What goes further is exempt where a little of the same is.
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

/// Exemptions that nothing needed: of what is only altered far (exchanged), or of all else.
pub fn unused(used: &BTreeSet<usize>, far: bool) -> Vec<&'static str> {
    let unused = EXEMPT.iter().enumerate().filter(|(i, _)| !used.contains(i));
    let own = unused.filter(|(_, exempt)| exempt.2.contains("exchanged") == far);
    own.map(|(_, exempt)| exempt.1).collect()
}

/// Why something may be altered.
pub fn why(at: usize) -> &'static str {
    EXEMPT[at].3
}
