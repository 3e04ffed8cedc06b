//! `orthrus bench`: the cost of each flavor.

mod anf;
mod arguments;
mod enctypes;
pub(super) mod evaluate;
mod folder_server;
mod keep;
mod lanl;
mod mounts;
mod nconnect;
mod on_mounts;
mod ontap;
mod plan;
pub(super) mod quick;
mod records;
pub(super) mod site;

/// Measure what each security flavor costs.
///
/// Exit status: 0 if everything was measured; 3 if the run finished but skipped a flavor or some
/// cases (the report says which and why); 1 if nothing could be measured or the run stopped early;
/// 2 if the command line is wrong.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    Quick(quick::Quick),
    Anf(anf::Anf),
    Lanl(lanl::Arguments),
    Ontap(ontap::Ontap),
    Nconnect(nconnect::Nconnect),
    Run(plan::Run),
    Compare(records::Compare),
    Report(records::Report),
}

impl Command {
    /// Runs the bench.
    ///
    /// # Errors
    /// An unreachable server, a missing ticket, a report that cannot be written.
    pub(super) fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Quick(quick) => quick.run(),
            Self::Anf(anf) => anf.run(),
            Self::Lanl(lanl) => lanl.run(),
            Self::Ontap(ontap) => ontap.run(),
            Self::Nconnect(nconnect) => nconnect.run(),
            Self::Run(run) => run.run(),
            Self::Compare(compare) => compare.run(),
            Self::Report(report) => report.run(),
        }
    }
}
