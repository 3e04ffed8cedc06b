//! The server's processor time for each request in its sandbox, beside the same server without it.
//!
//! Each system call passes the filter, so loads with many system calls for each byte cost most.

use super::cores::Cores;
use super::kerberos_site::{KerberosSite, make_export};
use super::load::TransferKind::Read;
use super::load::{self, FILE_SIZE, LoadedSessions, METADATA};
use super::output::{BenchFigure, BenchOutput, Floor};
use super::stopped;
use bench::measuring::{Load, compare};
use bench::native::BenchTarget;
use bench::{Flavor, ServerProcess};
use realm::RealmOptions;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const ROUNDS: u32 = 15;
const LENGTH: Duration = Duration::from_secs(1);

/// The processor time with the sandbox, as a part of that without it.
const FLOOR: Floor = Floor::AtMost(1.02);

const LOADS: [(&str, Flavor, Load); 5] = [
    ("4 KiB reads, one at a time, sys", Flavor::Sys, load::random(Read, 1)),
    ("4 KiB reads, 64 in flight, sys", Flavor::Sys, load::random(Read, 64)),
    ("4 KiB reads, 64 in flight, krb5p", Flavor::Krb5p, load::random(Read, 64)),
    ("1 MiB reads, 16 in flight, sys", Flavor::Sys, load::sequential(Read, 16, 1 << 20)),
    ("metadata, sys", Flavor::Sys, METADATA),
];

/// A server whose sandbox is on or off.
struct SandboxedServer {
    server: ServerProcess,
    work: tempfile::TempDir,
}

impl SandboxedServer {
    fn start(site: &KerberosSite, cores: Cores, export: &Path, sandbox: &str) -> anyhow::Result<Self> {
        let work = private::temporary("orthrus-xtask-")?;
        let arguments: [OsString; 5] =
            [export.into(), "--squash".into(), "none".into(), "--sandbox".into(), sandbox.into()];
        let server = site.serve(cores, work.path(), &arguments, None)?;
        Ok(Self { server, work })
    }

    fn target(&self, site: &KerberosSite) -> BenchTarget {
        site.target("orthrus", self.server.pid(), self.server.address(), "/data")
    }
}

/// Measures both in turns.
pub(crate) fn run(output: &mut BenchOutput, stop: &AtomicBool) -> anyhow::Result<()> {
    let cores = Cores::choose()?;
    let site = KerberosSite::start(&RealmOptions::default())?;
    let folder = private::temporary_in("orthrus-sandbox-", "/dev/shm".as_ref())?;
    let export = folder.path().join("data");
    make_export(&export)?;
    let with = SandboxedServer::start(&site, cores, &export, "on")?;
    let without = SandboxedServer::start(&site, cores, &export, "off")?;
    output.note("both servers export one folder on tmpfs from one core; processor time of their processes");
    for (name, flavor, load) in LOADS {
        let (mut one, mut other) = (with.target(&site), without.target(&site));
        let mut on = LoadedSessions::prepare(&mut one, "on", (flavor, load.clone()), FILE_SIZE, stop)?;
        let mut off = LoadedSessions::prepare(&mut other, "off", (flavor, load.clone()), FILE_SIZE, stop)?;
        let (mut in_sandbox, mut outside) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            in_sandbox.extend(on.repeat(round, LENGTH)?);
            outside.extend(off.repeat(round, LENGTH)?);
            if stopped(stop) {
                return Ok(());
            }
        }
        on.finish()?;
        off.finish()?;
        let unit = load::unit(&load);
        let cost = compare(&in_sandbox, &outside, |a, b| Some(a.server_cost(unit)? / b.server_cost(unit)?));
        let figure = BenchFigure::new("", name, "of the time without", cost).floor(FLOOR);
        output.line(name, [figure]);
    }
    drop((with.work, without.work));
    Ok(())
}
