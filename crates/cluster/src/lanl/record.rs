//! The measurements of a run, as data.

use super::Scope;
use crate::LabOptions;
use bench::link::LinkSpec;
use serde::Serialize;
use serde_json::Value;

/// The version of the JSON.
const SCHEMA: &str = "orthrus-lab-lanl/1";

/// The results of the paper's tests in a lab.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lanl {
    /// The version of this format.
    pub schema: &'static str,
    /// How many nodes there were.
    pub nodes: u8,
    /// Memory of a node in MiB.
    pub memory_mib: u32,
    /// The part of the published sizes and numbers.
    pub scale: f64,
    /// Repetitions of each test.
    pub repetitions: u32,
    /// The rate of every cable of the lab, if it was limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkSpec>,
    /// The measurements by part and flavor.
    pub sides: Vec<Side>,
}

/// One copy with one flavor, from some nodes at the same time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// How many nodes copied.
    pub nodes: usize,
    /// Part of the test: `small` or `large`.
    pub part: String,
    /// Security flavor of the mount.
    pub flavor: String,
    /// Every copy of every node, except warm-up copies.
    pub copies: Vec<Copied>,
    /// Processor time of the server for these copies, the warm-up copies, and reading all back to
    /// compare.
    pub server_cpu_seconds: f64,
}

/// One copy of one node.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Copied {
    /// How long it took.
    pub seconds: f64,
    /// Number of bytes copied.
    pub bytes: f64,
    /// Number of files copied.
    pub files: f64,
    /// Processor time of the node, in seconds.
    pub client_cpu_seconds: Option<f64>,
}

impl Lanl {
    /// Makes a record without results.
    pub(super) fn new(options: &LabOptions, scope: Scope) -> Self {
        Self {
            schema: SCHEMA,
            nodes: options.nodes,
            memory_mib: options.memory_mib,
            scale: scope.scale,
            repetitions: scope.repetitions,
            link: options.link,
            sides: Vec::new(),
        }
    }
}

/// Takes the copies of one part and flavor out of a report of the bench.
pub(super) fn copies(report: &Value, part: &str, flavor: &str) -> Vec<Copied> {
    let cases = report["cases"].as_array().into_iter().flatten();
    let wanted = cases.filter(|case| case["side"] == flavor && case["axes"]["part"] == part);
    let samples = wanted.flat_map(|case| {
        let samples = case["samples"].as_array().into_iter().flatten();
        samples
            .filter(|sample| sample["warm_up"] != true)
            .map(|sample| (sample, case["load"]["files"].as_f64()))
    });
    let copied = |(sample, files): (&Value, Option<f64>)| {
        Some(Copied {
            seconds: sample["seconds"].as_f64().filter(|seconds| *seconds > 0.0)?,
            bytes: sample["bytes"].as_f64()?,
            files: files?,
            client_cpu_seconds: sample["client_cpu_seconds"].as_f64(),
        })
    };
    samples.filter_map(copied).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn copies_of_the_part_and_flavor_are_taken_and_no_warm_up() {
        let sample = json!({ "seconds": 0.5, "bytes": 1000, "client_cpu_seconds": 0.1 });
        let warm = json!({ "warm_up": true, "seconds": 9.0, "bytes": 1000, "client_cpu_seconds": 0.1 });
        let case = |side: &str, part: &str| json!({ "side": side, "axes": { "part": part }, "load": { "files": 50 }, "samples": [warm, sample] });
        let report =
            json!({ "cases": [case("sys", "small"), case("krb5p", "small"), case("krb5p", "large")] });
        let expected = Copied { seconds: 0.5, bytes: 1000.0, files: 50.0, client_cpu_seconds: Some(0.1) };
        assert_eq!(copies(&report, "small", "krb5p"), [expected]);
        assert_eq!(copies(&report, "small", "krb5i"), []);
        assert_eq!(copies(&json!({}), "small", "sys"), []);
    }
}
