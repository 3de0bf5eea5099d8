//! Least squares, linear algebra and statistics; knows no domain type.
