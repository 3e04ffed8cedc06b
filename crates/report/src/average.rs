//! Averages with confidence intervals, as the paper reports: the mean, and Student's t around it.

/// The two-sided 95 % quantile of Student's distribution with 1 to 30 degrees of freedom.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// The same with ever more of them.
const T_NORMAL: f64 = 1.960;

/// A mean and how far the true one may be from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Average {
    /// The mean of the values.
    pub mean: f64,
    /// Half of its 95 % confidence interval; none of a single value.
    pub half: Option<f64>,
}

impl Average {
    /// Makes it of values; `None` without any.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().collect();
        let count = values.len() as f64;
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count;
        let half = (values.len() > 1).then(|| {
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            let t = T.get(values.len() - 2).copied().unwrap_or(T_NORMAL);
            t * (squares / (count - 1.0)).sqrt() / count.sqrt()
        });
        Some(Self { mean, half })
    }

    /// Writes a time in seconds: `3.30 ±0.50 ms`.
    pub fn time(&self) -> String {
        let (part, unit) = match self.mean {
            mean if mean >= 0.9995 => (1.0, "s"),
            mean if mean >= 0.000_999_5 => (1e-3, "ms"),
            _ => (1e-6, "µs"),
        };
        format!("{} {unit}", self.words(|seconds| crate::form::digits(seconds / part)))
    }

    /// Writes it with `format`: `12.3 ±0.4`.
    pub fn words(&self, format: impl Fn(f64) -> String) -> String {
        match self.half {
            Some(half) => format!("{} ±{}", format(self.mean), format(half)),
            None => format(self.mean),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Average;

    #[test]
    fn the_interval_is_that_of_students_distribution() {
        // 10, 12, 14: s = 2, t(2) = 4.303, 4.303 * 2 / sqrt(3) = 4.969.
        let average = Average::of([10.0, 12.0, 14.0]).unwrap();
        assert_eq!(average.mean, 12.0);
        assert!((average.half.unwrap() - 4.9687).abs() < 1e-3, "{average:?}");
        assert_eq!(Average::of([7.0]), Some(Average { mean: 7.0, half: None }));
        assert_eq!(Average::of([]), None);
        assert_eq!(Average::of([1.0, f64::NAN]), None);
        assert_eq!(average.words(|value| format!("{value:.1}")), "12.0 ±5.0");
    }

    #[test]
    fn many_values_have_the_normal_quantile() {
        let average = Average::of((0..100).map(f64::from)).unwrap();
        // s = 29.011, 1.96 * 29.011 / 10.
        assert!((average.half.unwrap() - 5.686).abs() < 1e-2, "{average:?}");
    }
}
