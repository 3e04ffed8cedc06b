//! `orthrus bench`: what each flavor costs.

mod arguments;
mod enctypes;
pub mod evaluate;
mod folder_server;
mod keep;
mod lanl;
mod mounts;
mod on_mounts;
pub mod quick;
mod records;
pub mod site;

/// Measure what each security flavor costs.
///
/// Exit status: 0 when all that was asked for was measured, 3 when the run came to its end but a side or some cases are left out (the report
/// says which and why), 1 when nothing could be measured or the run ended before its end, 2 for a wrong command line.
#[derive(clap::Subcommand)]
pub enum Command {
    Quick(quick::Quick),
    Anf(evaluate::Anf),
    Lanl(lanl::Arguments),
    Ontap(evaluate::Ontap),
    Nconnect(evaluate::Nconnect),
    Run(evaluate::Run),
    Compare(records::Compare),
    Report(records::Report),
}

impl Command {
    /// Runs the bench.
    ///
    /// # Errors
    /// An unreachable server, a missing ticket, a report that cannot be written.
    pub fn run(self) -> anyhow::Result<()> {
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
