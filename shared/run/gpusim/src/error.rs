use crate::catalogue::names;
use crate::layer::LayerError;

/// Why a network could not be built.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NetworkError {
    /// The catalogue has no such model.
    #[error("no model in the catalogue is called {name:?}: use one of {}", names::NAMES.join(", "))]
    UnknownName {
        /// The requested name.
        name: String,
    },
    /// The model cannot take inputs of this size.
    #[error(
        "input side {side} is out of range: expected {} to {} pixels",
        names::MIN_SIDE,
        names::MAX_SIDE
    )]
    BadSide {
        /// The requested size.
        side: u32,
    },
    /// A total is not a finite number above zero.
    #[error("{field} is {value}: expected a finite number above 0")]
    BadTotal {
        /// Which total.
        field: &'static str,
        /// The offending value.
        value: f64,
    },
    /// There are no layers.
    #[error("a network needs at least one layer")]
    Empty,
    /// A layer is invalid.
    #[error("layer {index}: {source}")]
    Layer {
        /// Position in the list, from 0.
        index: usize,
        /// What is wrong with it.
        source: LayerError,
    },
}
