//! `orthrus bench quick`: the flavors side by side in about a minute.

use super::arguments::{RunArguments, TargetArguments};
use super::evaluate::{self, RunRequest};
use bench::evaluation::{self, QUICK, QUICK_LOADS};
use bench::measuring::{Evaluation, Settings};
use serde_json::json;
use std::path::PathBuf;

/// Where the report goes by default, of `orthrus try` too.
const OUTPUT: &str = "orthrus-report";

/// Compare the flavors in about a minute: sequential and random I/O, and metadata.
///
/// Without TARGET, this starts a server that exports memory, in a throw-away realm. With
/// HOST:/EXPORT, it measures that server; Kerberos flavors then use your ticket (kinit) or
/// --keytab. It creates a folder in the export and removes it. It runs 6 interleaved repetitions of
/// 0.2 s of each of 7 loads.
#[derive(clap::Args)]
pub(crate) struct Quick {
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    plan: PlanArguments,
}

impl Quick {
    /// Measures.
    ///
    /// # Errors
    /// An unreachable server, a missing ticket, a report that cannot be written; and, after the
    /// report was written, when the run was not complete.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let settings = self.plan.settings();
        let evaluation = &mut *self.plan.evaluation(&settings);
        let request = request(settings, evaluation);
        if self.plan.run.selection.list {
            return evaluate::list(request);
        }
        evaluate::start(&self.target, self.plan.output(), self.plan.run.resume, request)
    }
}

/// The options of a quick comparison; `orthrus try` makes the same.
#[derive(Clone, clap::Args)]
#[command(mut_arg("output", |argument| argument.help("Where the report goes: PREFIX.html, .json, .csv and .md [default: orthrus-report]")))]
pub(crate) struct PlanArguments {
    #[command(flatten)]
    pub run: RunArguments,
    /// Number of connections per session, like the mount option nconnect.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    connections: u32,
}

impl PlanArguments {
    /// Returns the method of measurement.
    pub(crate) fn settings(&self) -> Settings {
        let mut settings = self.run.settings(6, 0.2, QUICK_LOADS);
        settings.options.insert("connections".into(), json!(self.connections));
        settings
    }

    /// Returns the cases of the comparison.
    pub(crate) fn evaluation(&self, settings: &Settings) -> Box<dyn Evaluation> {
        Box::new(evaluation::quick(settings, self.connections))
    }

    /// Where the report goes, if not beside a run that is gone on with.
    pub(crate) fn output(&self) -> Option<PathBuf> {
        let fresh = self.run.resume.is_none().then(|| OUTPUT.into());
        self.run.output.clone().or(fresh)
    }
}

/// A quick comparison, as the other evaluations are asked for.
pub(crate) fn request(settings: Settings, evaluation: &mut dyn Evaluation) -> RunRequest<'_> {
    RunRequest { name: QUICK, title: "What Kerberos costs", settings, evaluation, files: 1, counting: false }
}
