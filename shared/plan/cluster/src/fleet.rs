/// GPU types and how many of each.
pub type Fleet = Vec<(String, u32)>;

/// A part of a list that is not `TYPE=COUNT`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not TYPE=COUNT")]
pub struct FleetError(String);

/// Parses a list such as `v100=8,k80=1`.
///
/// # Errors
/// [`FleetError`] with the first part that is not a type and a count above 0.
pub fn fleet(text: &str) -> Result<Fleet, FleetError> {
    let one = |part: &str| {
        let (kind, count) = part.split_once('=')?;
        // Whatever is wrong with the count, the error shows the whole part and the expected form.
        let count = count.trim().parse().ok().filter(|&n| n > 0)?;
        Some((kind.trim().to_owned(), count))
    };
    text.split(',')
        .map(|part| one(part).ok_or_else(|| FleetError(part.to_owned())))
        .collect()
}
