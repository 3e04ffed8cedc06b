//! The data of a run: the request, the samples, and the figures derived from them.

use super::{Calibration, Case, Figures, LINK, LOOPBACK, Load, MachineLimit, Missing, Noise, Sample};
use crate::Environment;
use anyhow::{Context as _, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Version of the JSON form; a change that a reader must know about raises the number.
pub const SCHEMA: &str = "orthrus-bench/2";

/// The settings of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Repetitions of each case, interleaved; six are the least that give a median a 95 % interval.
    pub repetitions: u32,
    /// Length of one repetition in seconds.
    pub seconds: f64,
    /// Total bytes of the files that all clients of a case read and write.
    pub file_size: u64,
    /// The compared variants, in the order of the tables.
    #[serde(rename = "sides")]
    pub variants: Vec<String>,
    /// The variant that the others are compared with.
    pub baseline: String,
    /// Further options of the evaluation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, serde_json::Value>,
}

impl Settings {
    /// Makes settings; the first variant is the baseline.
    pub fn new(repetitions: u32, seconds: f64, file_size: u64, variants: Vec<String>) -> Self {
        let baseline = variants.first().cloned().unwrap_or_default();
        Self { repetitions, seconds, file_size, variants, baseline, options: BTreeMap::new() }
    }

    /// Returns the length of one repetition.
    pub fn length(&self) -> Duration {
        Duration::try_from_secs_f64(self.seconds).unwrap_or(Duration::from_secs(1))
    }
}

/// A case with its samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseRecord {
    /// The case that was measured.
    #[serde(flatten)]
    pub case: Case,
    /// All its repetitions, warm-ups among them, in the order in which they were made.
    pub samples: Vec<Sample>,
    /// The statistics of the samples; `None` without a sample that counts.
    pub figures: Option<Figures>,
}

/// The record of a case is read like the case itself.
impl std::ops::Deref for CaseRecord {
    type Target = Case;

    fn deref(&self) -> &Case {
        &self.case
    }
}

impl CaseRecord {
    /// Returns the samples that count.
    pub fn counted(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(|sample| !sample.warm_up)
    }

    /// Returns the median rate.
    pub fn rate(&self) -> Option<f64> {
        Some(self.figures.as_ref()?.rate.median)
    }

    /// Adds up one of the counters over the samples that count.
    pub fn counter(&self, name: &str) -> u64 {
        self.counted().filter_map(|sample| sample.counters.get(name)).sum()
    }
}

/// All of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Identifies the schema: [`SCHEMA`].
    pub schema: String,
    /// The name of the evaluation: `anf`, `ontap`, `nconnect`, …
    pub evaluation: String,
    /// The title of the report.
    pub title: String,
    /// Seconds since 1970 at the start.
    pub started_at: u64,
    /// The server that was measured, as the user named it.
    pub target: String,
    /// The command that repeats the run.
    pub command: String,
    /// The settings of the run.
    pub settings: Settings,
    /// Whether all cases were measured; an interrupted run keeps its samples.
    pub complete: bool,
    /// The reason why the run is not complete.
    pub stopped_by: Option<String>,
    /// Variants that were asked for and could not be measured, and cases that failed.
    #[serde(rename = "left_out", default)]
    pub skipped: Vec<Missing>,
    /// Cases that had failed before the run was continued, and were tried again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tried_again: Vec<Missing>,
    /// The machine and its software.
    pub environment: Environment,
    /// Remarks for readers, one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
    /// How far this machine could go, measured in this run.
    #[serde(default)]
    pub limits: Vec<MachineLimit>,
    /// All calibrations, in order.
    #[serde(default)]
    pub calibrations: Vec<Calibration>,
    /// The statistics of the calibrations.
    #[serde(default)]
    pub noise: Option<Noise>,
    /// The cases, in the order of the plan.
    pub cases: Vec<CaseRecord>,
}

impl Record {
    /// Begins a run on this machine.
    pub fn begin(evaluation: &str, title: &str, settings: Settings) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            evaluation: evaluation.to_owned(),
            title: title.to_owned(),
            started_at: 0,
            target: String::new(),
            command: String::new(),
            settings,
            complete: false,
            stopped_by: None,
            skipped: Vec::new(),
            tried_again: Vec::new(),
            environment: Environment::of_this_machine(),
            notes: Vec::new(),
            limits: Vec::new(),
            calibrations: Vec::new(),
            noise: None,
            cases: Vec::new(),
        }
    }

    /// Reads a record.
    ///
    /// # Errors
    /// When it is no record of this version.
    pub fn parse(text: &str) -> Result<Self> {
        #[derive(Deserialize)]
        struct SchemaHead {
            schema: String,
            #[serde(default)]
            command: String,
        }
        let head: SchemaHead = serde_json::from_str(text).map_err(|error| {
            let what = match error.is_eof() && !text.trim().is_empty() {
                true => {
                    "it is cut off in the middle, and what it had is lost; measure again without --resume"
                }
                false => "it is no report of orthrus bench; name the PREFIX.json that a run has left",
            };
            anyhow::Error::new(error).context(what)
        })?;
        ensure!(head.schema == SCHEMA, other_schema(&head.schema, &head.command));
        serde_json::from_str(text).context("it is damaged; measure again without --resume")
    }

    /// Checks that this earlier run is part of the wanted one. The record states one environment
    /// for all samples, so that must be the same.
    ///
    /// # Errors
    /// Names the first difference and the remedy.
    pub fn continues(&self, wanted: &Self) -> Result<()> {
        let (begun, now) = (&self.environment, &wanted.environment);
        let differing =
            |all: &[(&'static str, bool)]| all.iter().find(|(_, same)| !same).map(|(what, _)| *what);
        let asked = differing(&[
            ("evaluation", self.evaluation == wanted.evaluation),
            ("server", self.target == wanted.target),
            ("length or number of repetitions, file size or flavors", self.settings == wanted.settings),
            ("link", begun.link == now.link),
        ]);
        if let Some(what) = asked {
            bail!("it was begun with another {what}; repeat its command: {}", self.command);
        }
        let machine = differing(&[
            ("machine", begun.processor == now.processor),
            ("number of cores", begun.cores == now.cores),
            ("set of processor instructions", begun.instructions == now.instructions),
            ("kernel", begun.kernel == now.kernel),
            ("version of orthrus", begun.program == now.program),
        ]);
        if let Some(what) = machine {
            bail!("it was begun with another {what}; measure again without --resume: {}", self.command);
        }
        Ok(())
    }

    /// Returns the name of the network between client and server, as in its limits.
    pub fn between(&self) -> &'static str {
        if self.environment.link.is_some() { LINK } else { LOOPBACK }
    }

    /// Returns the noise of the machine as a fraction of a figure; 0 if unknown.
    pub fn relative_noise(&self) -> f64 {
        self.noise.map_or(0.0, |noise| noise.relative)
    }

    /// Returns whether the run copied whole files, which other programs may do.
    pub fn is_of_copies(&self) -> bool {
        self.cases.iter().any(|case| matches!(case.load, Load::Copy(_) | Load::Fetch(_)))
    }

    /// Finds the record of a case.
    pub fn find(&self, case: &Case) -> Option<&CaseRecord> {
        self.cases.iter().find(|found| found.variant == case.variant && found.group == case.group)
    }

    /// Finds a variant of a group.
    pub fn variant(&self, group: &str, variant: &str) -> Option<&CaseRecord> {
        self.cases.iter().find(|found| found.group == group && found.variant == variant)
    }

    /// Returns the groups in their order.
    pub fn groups(&self) -> Vec<&str> {
        let mut groups: Vec<&str> = Vec::new();
        for case in &self.cases {
            if !groups.contains(&case.group.as_str()) {
                groups.push(&case.group);
            }
        }
        groups
    }

    /// Returns the variants that were measured or have failed in the middle, in the order in which
    /// they were asked for.
    pub fn variants(&self) -> Vec<&str> {
        let measured =
            |variant: &str| self.cases.iter().any(|case| case.variant == variant && case.figures.is_some());
        let failed = |variant: &str| {
            self.skipped.iter().any(|missing| missing.variant == variant && missing.group.is_some())
        };
        self.settings
            .variants
            .iter()
            .map(String::as_str)
            .filter(|variant| measured(variant) || failed(variant))
            .collect()
    }

    /// Recomputes the figures of all cases from their samples. A failed case has none, even with
    /// samples; where it is the baseline, the others of its group have no ratios.
    pub fn summarise(&mut self) {
        self.noise = Noise::of(&self.calibrations);
        let noise = self.relative_noise();
        let failed: Vec<bool> =
            self.cases.iter().map(|case| self.failure(&case.group, &case.variant).is_some()).collect();
        let baselines: BTreeMap<String, Vec<Sample>> = self
            .cases
            .iter()
            .zip(&failed)
            .filter(|(case, failed)| case.variant == self.settings.baseline && !**failed)
            .map(|(case, _)| (case.group.clone(), case.samples.clone()))
            .collect();
        for (case, failed) in self.cases.iter_mut().zip(failed) {
            let base = baselines.get(&case.group).filter(|_| case.variant != self.settings.baseline);
            let figures = || Figures::of(case.unit, &case.samples, base.map(Vec::as_slice), noise);
            case.figures = if failed { None } else { figures() };
        }
    }

    /// Renders it as JSON, indented, with a newline at the end.
    ///
    /// # Errors
    /// None in practice: all figures are finite.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }
}

/// Describes the problem of a report with another schema, and the remedy.
fn other_schema(found: &str, command: &str) -> String {
    let number = |schema: &str| schema.strip_prefix("orthrus-bench/")?.parse::<u32>().ok();
    let cure = match number(found).zip(number(SCHEMA)) {
        Some((found, known)) if found > known => "use the newer orthrus that wrote it".to_owned(),
        Some(_) if !command.is_empty() => {
            format!("it is of an older orthrus; measure again: {command}")
        }
        Some(_) => "it is of an older orthrus; measure again".to_owned(),
        None => "it is no report of orthrus bench".to_owned(),
    };
    format!("its schema is {found}, and this orthrus reads {SCHEMA}: {cure}")
}
