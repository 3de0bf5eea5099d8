//! Fields that may be altered unnoticed, each with the reason.

mod table;

use std::collections::BTreeSet;

use table::EXEMPT;

/// The exemption of a place.
pub fn reason(document: &str, place: &str, kind: &str) -> Option<usize> {
    EXEMPT.iter().position(|(of, part, what, _)| {
        (of.is_empty() || *of == document)
            && place.contains(part)
            && (what.is_empty() || *what == kind)
    })
}

/// Exemptions that nothing needed.
pub fn unused(used: &BTreeSet<usize>) -> Vec<&'static str> {
    let unused = EXEMPT.iter().enumerate().filter(|(i, _)| !used.contains(i));
    unused.map(|(_, exempt)| exempt.1).collect()
}

/// Why something may be altered.
pub fn why(at: usize) -> &'static str {
    EXEMPT[at].3
}
