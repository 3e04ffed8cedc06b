//! The text format of Prometheus, version 0.0.4.

use std::fmt::{Display, Write};
use std::time::Duration;

/// A page of metrics.
#[derive(Default)]
pub(super) struct MetricsText(String);

/// The kind of a family of values.
#[derive(Clone, Copy)]
pub(super) enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

impl MetricKind {
    fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// The labels of a value: names and values.
pub(super) type Labels<'l> = [(&'l str, &'l str)];

impl MetricsText {
    /// Begins a family of values.
    pub(super) fn family(&mut self, name: &str, kind: MetricKind, help: &str) {
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {}\n", kind.name());
    }

    /// Writes a value of the family. Labels without a value are left out, which means the same.
    pub(super) fn value(&mut self, name: &str, labels: &Labels<'_>, value: impl Display) {
        self.0.push_str(name);
        let mut separator = '{';
        for (label, value) in labels.iter().filter(|(_, value)| !value.is_empty()) {
            let _ = write!(self.0, "{separator}{label}=\"");
            value.chars().for_each(|c| self.escaped(c));
            self.0.push('"');
            separator = ',';
        }
        if separator == ',' {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    fn escaped(&mut self, c: char) {
        match c {
            '\\' => self.0.push_str("\\\\"),
            '"' => self.0.push_str("\\\""),
            '\n' => self.0.push_str("\\n"),
            c => self.0.push(c),
        }
    }

    /// Writes a family with one value.
    pub(super) fn single(&mut self, name: &str, kind: MetricKind, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.value(name, &[], value);
    }

    /// Writes a histogram of the family: the number of observations by the upper bound of their
    /// class, of which the last has none, and the sum of all observations.
    pub(super) fn histogram(
        &mut self,
        name: &str,
        labels: &Labels<'_>,
        classes: impl IntoIterator<Item = (Option<f64>, u64)>,
        sum: impl Display,
    ) {
        let bucket = format!("{name}_bucket");
        let mut count = 0;
        for (bound, observations) in classes {
            count += observations;
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |bound| bound.to_string());
            self.value(&bucket, &[labels, &[("le", &bound)]].concat(), count);
        }
        self.value(&format!("{name}_sum"), labels, sum);
        self.value(&format!("{name}_count"), labels, count);
    }

    /// Returns the text of the page.
    pub(super) fn into_string(self) -> String {
        self.0
    }
}

/// Returns a bound of times in seconds.
pub(super) fn seconds(bound: Duration) -> f64 {
    bound.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_its_help_its_type_and_its_values() {
        let mut page = MetricsText::default();
        page.single("x_total", MetricKind::Counter, "Some.", 2.5);
        page.value("x_total", &[("a", "b"), ("none", ""), ("c", "\"\\\n")], 3);
        let expected = "# HELP x_total Some.\n# TYPE x_total counter\nx_total 2.5\nx_total{a=\"b\",c=\"\\\"\\\\\\n\"} 3\n";
        assert_eq!(page.into_string(), expected);
    }

    #[test]
    fn a_histogram_counts_each_class_with_those_below() {
        let mut page = MetricsText::default();
        let classes = [(Some(seconds(Duration::from_micros(20))), 1), (Some(1.0), 0), (None, 2)];
        page.histogram("t", &[("a", "b")], classes, 7.5);
        let expected = "t_bucket{a=\"b\",le=\"0.00002\"} 1\nt_bucket{a=\"b\",le=\"1\"} 1\n\
                        t_bucket{a=\"b\",le=\"+Inf\"} 3\nt_sum{a=\"b\"} 7.5\nt_count{a=\"b\"} 3\n";
        assert_eq!(page.into_string(), expected);
    }
}
