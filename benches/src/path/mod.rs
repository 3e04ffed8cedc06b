//! The data path: each flavor beside `sys`, NFS-Ganesha and a bare loop, as client rates and as the
//! server's processor time.

mod bare;
mod beside;
mod flavors;
mod observers;
mod rows;

use super::output::BenchOutput;
use super::stopped;
use super::test_bed::TestBed;
use bench::Flavor;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The groups to measure, and the file for the figures.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only the rows of which a part of the name is one of these, such as `seqread` or `memory`;
    /// `bare`, `ganesha` and `observers` name the comparisons with them.
    #[arg(long, value_delimiter = ',', value_name = "TEXT,…")]
    only: Vec<String>,
    /// Only these flavors, beside sys: krb5, krb5i, krb5p.
    #[arg(long, value_delimiter = ',', value_name = "FLAVOR,…")]
    flavors: Vec<Flavor>,
    /// Interleaved rounds of each row.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    #[command(flatten)]
    pub output: super::Arguments,
}

impl Arguments {
    /// Returns the flavors of each group; the first is the baseline, sys.
    fn flavors(&self) -> Vec<Flavor> {
        let wanted = |flavor: &Flavor| *flavor == Flavor::Sys || self.flavors.contains(flavor);
        Flavor::ALL.into_iter().filter(|flavor| self.flavors.is_empty() || wanted(flavor)).collect()
    }

    /// Whether a row, or a group of rows, is asked for.
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| name.contains(part))
    }
}

/// Time of each flavor in a round: short, so that disturbances of the machine affect all flavors
/// equally.
pub(crate) const LENGTH: Duration = Duration::from_millis(250);

/// Runs the benchmark.
///
/// # Errors
/// When realm or server do not work; Ganesha's failures become part of the table.
pub(crate) fn run(arguments: &Arguments, output: &mut BenchOutput, stop: &AtomicBool) -> anyhow::Result<()> {
    let test_bed = TestBed::start()?;
    introduce(output, &test_bed, arguments.rounds);
    for store in [rows::ExportStore::Tmpfs, rows::ExportStore::Memory] {
        let groups = rows::GROUPS.iter().filter(|group| arguments.wants(&store.name(group)));
        let groups: Vec<_> = groups.collect();
        flavors::measure(output, test_bed.target(store.export()), store, (&groups, arguments), stop)?;
    }
    if !stopped(stop) && arguments.wants("bare") {
        bare::measure(output, &test_bed, arguments.rounds, stop)?;
    }
    if !stopped(stop) && arguments.wants("observers") {
        observers::measure(output, &test_bed, arguments.rounds, stop)?;
    }
    if !stopped(stop) && arguments.wants("ganesha") {
        beside::measure(output, &test_bed, arguments.rounds, stop)?;
    }
    Ok(())
}

fn introduce(output: &mut BenchOutput, test_bed: &TestBed, rounds: u32) {
    output.note(&format!("{}; one shard, one connection for each flavor", test_bed.cores().describe()));
    output.note(&format!(
        "median [interval] of {rounds} interleaved rounds of {:.2} s; a ratio is that of one round's two figures",
        LENGTH.as_secs_f64()
    ));
    output.note(
        "sequential: 16 requests of 1 MiB, cut as a mount cuts them into what the server offers (128 KiB with krb5i and krb5p), 64 in flight at most",
    );
    output.note(
        "server and client: processor time for an operation or a GB, and how busy it kept its core. A core that is busy all the time is what limits the rate; with neither, the two take turns",
    );
}
