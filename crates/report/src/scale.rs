//! Where values are on an axis.

use super::chart::Axis;

/// An axis between two values and two places.
pub(crate) struct Scale {
    /// The value at `start`.
    pub from: f64,
    /// The value at `end`.
    pub to: f64,
    start: f64,
    end: f64,
    /// Whether equal steps are equal ratios.
    pub logarithmic: bool,
}

impl Scale {
    /// An axis that has all these values on it.
    pub(crate) fn of(axis: &Axis, values: impl Iterator<Item = f64>, start: f64, end: f64) -> Self {
        let positive = |value: &f64| value.is_finite() && (!axis.logarithmic || *value > 0.0);
        let values: Vec<f64> = values.filter(positive).collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (from, to) = match (values.is_empty(), axis.logarithmic) {
            (true, _) => (0.1, 1.0),
            (false, true) => (least * 0.85, (most * 1.15).max(least * 2.0)),
            (false, false) => (0.0, if most > 0.0 { most * 1.05 } else { 1.0 }),
        };
        Self { from, to, start, end, logarithmic: axis.logarithmic }
    }

    /// Maps a value to a coordinate; values beyond an end map to that end.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let part = if self.logarithmic {
            (value.max(self.from) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        self.start + part.clamp(0.0, 1.0) * (self.end - self.start)
    }

    /// Returns whether a value is on the axis.
    pub(crate) fn holds(&self, value: f64) -> bool {
        (self.from..=self.to).contains(&value)
    }

    /// Round values between the ends, at most six.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        let within = |value: &f64| self.holds(*value);
        if self.logarithmic {
            let steps = (-3..10).flat_map(|power| [1.0, 2.0, 5.0].map(|step| step * 10f64.powi(power)));
            let all: Vec<f64> = steps.filter(within).collect();
            let every = all.len().div_ceil(6).max(1);
            return all.into_iter().step_by(every).collect();
        }
        let steps = (-2..10).flat_map(|power| [1.0, 2.0, 2.5, 5.0].map(|step| step * 10f64.powi(power)));
        let width = steps.into_iter().find(|width| self.to / width < 6.0).unwrap_or(self.to);
        (0..=6).map(|index| f64::from(index) * width).filter(within).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_few_round_steps() {
        for most in [0.3, 1.0, 7.0, 96.0, 1234.0, 250_000.0] {
            for axis in [Axis::linear("l"), Axis::logarithmic("g")] {
                let scale = Scale::of(&axis, [most / 40.0, most].into_iter(), 0.0, 100.0);
                let ticks = scale.ticks();
                assert!((2..=7).contains(&ticks.len()), "{most} {axis:?}: {ticks:?}");
            }
        }
    }
}
