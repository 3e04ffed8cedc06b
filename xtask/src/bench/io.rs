//! The kernel's two interfaces to sockets beside each other: the same program, folder, realm and client, in turns.

use super::cores::Cores;
use super::output::Output;
use super::site::Site;
use super::stand::{Load, Stand, rate_unit};
use super::{End, stopped};
use bench::measuring::{Interval, Sample, compare};
use bench::view::form::cpu_unit;
use bench::{Endpoint, Flavor, Mount, ServerProcess};
use realm::Enctypes;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What to measure, and where the figures go.
#[derive(clap::Args)]
pub struct Arguments {
    /// Interleaved rounds of each row.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Only the rows of which a part of the name is one of these, such as `metadata` or `krb5p`.
    #[arg(long, value_delimiter = ',', value_name = "TEXT,…")]
    only: Vec<String>,
    #[command(flatten)]
    pub output: super::Arguments,
}

/// How long each interface counts in a round.
const LENGTH: Duration = Duration::from_millis(250);

/// Bytes of each mount's file.
const FILE_SIZE: u64 = 64 << 20;

/// MiB of each memory export: a file for each mount.
const MEMORY: &str = "1024";

/// Connections of a session.
const CONNECTIONS: [usize; 2] = [1, 8];

const FLAVORS: [Flavor; 2] = [Flavor::Sys, Flavor::Krb5p];

const EXPORTS: [(&str, &str); 2] = [("/data", "tmpfs"), ("/memory", "memory backend")];

const LOADS: [(&str, Load); 5] = [
    ("randread 4KiB qd1", Load::random(false, 1)),
    ("randread 4KiB qd64", Load::random(false, 64)),
    ("metadata", Load::Metadata),
    ("seqread", Load::sequential(false, 16, 1 << 20)),
    ("seqwrite", Load::sequential(true, 16, 1 << 20)),
];

/// The interfaces, as `--io` names them.
const INTERFACES: [&str; 2] = ["epoll", "uring"];

/// Runs the benchmark.
///
/// # Errors
/// When realm or server do not work.
pub fn run(output: &mut Output, arguments: &Arguments, stop: &AtomicBool) -> anyhow::Result<End> {
    let cores = Cores::choose()?;
    let site = Site::start(Enctypes::default())?;
    let folder = tempfile::Builder::new().prefix("orthrus-io-").tempdir_in("/dev/shm")?;
    let export = folder.path().join("data");
    std::fs::create_dir(&export)?;
    std::fs::set_permissions(&export, std::fs::Permissions::from_mode(0o777))?;
    let works = [tempfile::tempdir()?, tempfile::tempdir()?];
    let mut servers = Vec::new();
    for (io, work) in INTERFACES.into_iter().zip(&works) {
        let arguments = [export.as_os_str(), "--squash".as_ref(), "none".as_ref(), "--memory".as_ref()];
        let mut arguments: Vec<OsString> = arguments.map(OsString::from).to_vec();
        arguments.extend([MEMORY, "--io", io].map(OsString::from));
        servers.push(site.serve(cores, work.path(), &arguments)?);
    }
    if servers.last().is_some_and(|server| !has_ring(server)) {
        return Ok(End::Skipped("the kernel refuses io_uring here".into()));
    }
    introduce(output, cores, arguments.rounds);
    let stands = servers.iter().map(|server| Stand {
        site: &site,
        pid: server.pid(),
        address: server.address(),
        file_size: FILE_SIZE,
        stop,
    });
    let run = Run { stands: stands.collect(), arguments, stop };
    for (export, store) in EXPORTS {
        for flavor in FLAVORS {
            for connections in CONNECTIONS {
                run.mounts(output, export, store, flavor, connections)?;
            }
        }
    }
    Ok(if stopped(stop) { End::Interrupted } else { End::Complete })
}

fn introduce(output: &mut Output, cores: Cores, rounds: u32) {
    output.note(&format!("{}; one shard; one folder on tmpfs, and memory exports", cores.describe()));
    output.note(&format!(
        "the server's processor time: median [interval] of {rounds} interleaved rounds of {:.2} s; a ratio is that of one round's two figures, below 1 io_uring is better",
        LENGTH.as_secs_f64()
    ));
    println!("\n{:52} {:>13} {:>13}   {:24} rate uring/epoll", "", "epoll", "uring", "uring/epoll");
}

/// Whether the server has an io_uring instance: else it has fallen back.
fn has_ring(server: &ServerProcess) -> bool {
    let entries = std::fs::read_dir(format!("/proc/{}/fd", server.pid()));
    let is_ring = |path: &Path| {
        std::fs::read_link(path).is_ok_and(|target| target.to_string_lossy().contains("[io_uring]"))
    };
    entries.is_ok_and(|entries| entries.flatten().any(|entry| is_ring(&entry.path())))
}

struct Run<'a> {
    /// In the order of [`INTERFACES`].
    stands: Vec<Stand<'a>>,
    arguments: &'a Arguments,
    stop: &'a AtomicBool,
}

impl Run<'_> {
    /// All loads over one kind of mount.
    fn mounts(
        &self,
        output: &mut Output,
        export: &str,
        store: &str,
        flavor: Flavor,
        connections: usize,
    ) -> anyhow::Result<()> {
        let name = |load: &str| format!("{load} {} {store}, {connections} connection(s)", flavor.name());
        let wanted = |name: &str| {
            let only = &self.arguments.only;
            only.is_empty() || only.iter().any(|part| name.contains(part.as_str()))
        };
        let loads: Vec<_> = LOADS.iter().filter(|(load, _)| wanted(&name(load))).collect();
        if loads.is_empty() || stopped(self.stop) {
            return Ok(());
        }
        let mount =
            |stand: &Stand<'_>| stand.mount(export, flavor, stand.options(flavor)?.connections(connections));
        let mut mounts = self.stands.iter().map(mount).collect::<anyhow::Result<Vec<Mount>>>()?;
        for (load, shape) in loads {
            let measured = self.rounds(&mut mounts, *shape)?;
            if stopped(self.stop) {
                break;
            }
            report(output, &name(load), *shape, &measured);
        }
        mounts.iter_mut().try_for_each(Endpoint::finish)
    }

    fn rounds(&self, mounts: &mut [Mount], load: Load) -> anyhow::Result<Vec<Vec<Sample>>> {
        let mut measured = vec![Vec::new(); mounts.len()];
        for round in 0..self.arguments.rounds {
            for ((stand, mount), measured) in self.stands.iter().zip(mounts.iter_mut()).zip(&mut measured) {
                measured.extend(stand.repeat(mount, load, round, LENGTH)?);
            }
        }
        Ok(measured)
    }
}

fn report(output: &mut Output, name: &str, load: Load, measured: &[Vec<Sample>]) {
    let unit = load.unit();
    let mut line = format!("{name:52}");
    for (io, measured) in INTERFACES.iter().zip(measured) {
        let cost = Interval::of(measured.iter().filter_map(|one| one.server_cost(unit)));
        let rate = Interval::of(measured.iter().map(|one| one.rate(unit)));
        let (Some(cost), Some(rate)) = (cost, rate) else { return };
        output.interval(&format!("{name}, {io}, cpu"), cpu_unit(unit), cost, None);
        output.interval(&format!("{name}, {io}, rate"), rate_unit(unit), rate, None);
        line += &format!(" {:7.3} {:5}", cost.median, cpu_unit(unit));
    }
    let [epoll, uring] = measured else { return };
    if let Some(ratio) = compare(uring, epoll, |a, b| Some(a.server_cost(unit)? / b.server_cost(unit)?)) {
        output.interval(&format!("{name}, cpu uring/epoll"), "ratio", ratio, None);
        line += &format!("   {:5.3} [{:.3} to {:.3}]", ratio.median, ratio.low, ratio.high);
    }
    if let Some(ratio) = compare(uring, epoll, |a, b| Some(a.rate(unit) / b.rate(unit))) {
        output.interval(&format!("{name}, rate uring/epoll"), "ratio", ratio, None);
        line += &format!("    {:5.3}", ratio.median);
    }
    println!("{line}");
}
