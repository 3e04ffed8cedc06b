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
