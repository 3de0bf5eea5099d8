use doc::PhaseKind;

/// Joins names into a list for a sentence.
pub fn listed<T: std::fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    let names: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    names.join(", ")
}

/// The name of a phase.
pub fn phase_name(kind: PhaseKind) -> &'static str {
    match kind {
        PhaseKind::Download => "download",
        PhaseKind::Compute => "compute",
        PhaseKind::Upload => "upload",
    }
}
