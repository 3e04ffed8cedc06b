//! Figures as people read them.

pub use crate::view::form::{cpu_unit, digits, latency, percent, rate};

use crate::Spread;

/// Formats how far to trust a median: `±3 %`.
pub fn spread(spread: &Spread) -> String {
    format!("±{}", percent(spread.relative()))
}
