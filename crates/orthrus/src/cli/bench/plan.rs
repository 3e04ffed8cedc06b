//! `orthrus bench run`: the cases of a plan of one's own.

use super::arguments::{Selection, TargetArguments};
use super::evaluate::{RunRequest, list, start};
use super::mounts::MountArguments;
use super::on_mounts;
use anyhow::Context;
use bench::evaluation::{PLAN, PlanFile, own_plan};
use serde_json::json;
use std::path::PathBuf;

/// Measure the cases of your own plan; docs/report.md has an example.
#[derive(clap::Args)]
pub(crate) struct Run {
    /// The plan, as TOML.
    plan: PathBuf,
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    mount: MountArguments,
    /// Write the report to PREFIX.html, .json, .csv and .md [default: orthrus-plan].
    #[arg(long, value_name = "PREFIX")]
    output: Option<PathBuf>,
    /// Continue an interrupted run from its PREFIX.json.
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    #[command(flatten)]
    selection: Selection,
}

impl Run {
    /// Measures.
    ///
    /// # Errors
    /// A plan that cannot be used, and the same as [`either`].
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let name = self.plan.display();
        let text = std::fs::read_to_string(&self.plan).with_context(|| format!("{name} cannot be read"))?;
        let plan: PlanFile = toml::from_str(&text).with_context(|| format!("{name} is no plan"))?;
        plan.check().with_context(|| format!("{name} cannot be used"))?;
        let mut settings = plan.settings();
        settings.options.insert("plan".into(), json!(text));
        self.selection.select(&mut settings);
        let mounts = on_mounts::Target::find(&self.mount, &self.target, &mut settings)?;
        let evaluation = &mut own_plan(&plan);
        let request =
            RunRequest { name: PLAN, title: &plan.title, settings, evaluation, files: 2, counting: true };
        if self.selection.list {
            return list(request);
        }
        match mounts {
            Some(mounts) => mounts.measure(self.output, self.resume, request),
            None => start(&self.target, self.output, self.resume, request),
        }
    }
}
