//! Upgrades: the pause that clients see, and the processor time of both processes, by the state
//! that goes over.

use super::kerberos_site::{KerberosSite, make_export, program};
use super::output::{BenchFigure, BenchOutput};
use super::stopped;
use anyhow::{Context, bail, ensure};
use bench::ServerProcess;
use client::{Client, Flavor, OpenHow, Security};
use nfs4::NfsLockType4::WRITE_LT;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use realm::RealmOptions;
use serde_json::Value;
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

/// The amounts of state, and the upgrades with each.
#[derive(clap::Args)]
pub(crate) struct UpgradesArguments {
    /// Numbers of opens, locked ranges and clients, each with a server of its own.
    #[arg(long, value_name = "COUNT,..", value_delimiter = ',', default_value = "1000,10000,100000")]
    counts: Vec<usize>,
    /// Upgrades with each number.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    #[command(flatten)]
    pub output: super::Arguments,
}

/// The lines of the log with the processor time of the old and of the new process.
const HANDING_OVER: &str = "handing over the state took ";
const RESTORING: &str = "restoring the state took ";

/// The clients of opens and ranges have as many each, and users of their own, so that no limit of a
/// client or a user is in the way.
const PER_CLIENT: usize = 500;
/// The user of the first of them.
const FIRST_USER: u32 = 10_000;

/// An open, a locked range, or a client with a connection, a session and a Kerberos context.
#[derive(Clone, Copy)]
enum HandedOver {
    Opens,
    Ranges,
    Clients,
}

impl HandedOver {
    const ALL: [Self; 3] = [Self::Opens, Self::Ranges, Self::Clients];

    /// Returns the name, which is also that of the number in the report of an upgrade.
    fn name(self) -> &'static str {
        match self {
            Self::Opens => "opens",
            Self::Ranges => "locks",
            Self::Clients => "clients",
        }
    }

    fn flavor(self) -> Flavor {
        if matches!(self, Self::Clients) { Flavor::Krb5p } else { Flavor::Sys }
    }

    /// Makes objects `from` a number up to `to`, all of one client.
    fn make(self, client: &mut Client, from: usize, to: usize) -> anyhow::Result<()> {
        match self {
            Self::Opens => {
                let (folder, _) = client.lookup_path("/data")?;
                let how = OpenHow::read().owner("owner");
                for number in from..to {
                    client.open(&folder, number.to_string().as_bytes(), &how)?;
                }
            }
            Self::Ranges => {
                let file = client.open_path(&format!("/data/{from}"), &OpenHow::write())?;
                let mut lock = match client.lock(&file, b"owner", WRITE_LT, 0, 1)? {
                    Ok(lock) => lock,
                    Err(denied) => bail!("a range is locked: {denied:?}"),
                };
                for number in 1..(to - from) as u64 {
                    let locked = client.lock_more(&file.handle, &mut lock, WRITE_LT, 2 * number, 1)?;
                    ensure!(locked.is_ok(), "a range is locked: {locked:?}");
                }
            }
            // Its connection has all.
            Self::Clients => {}
        }
        Ok(())
    }

    /// Returns the number of objects of one client.
    fn per_client(self) -> usize {
        if matches!(self, Self::Clients) { 1 } else { PER_CLIENT }
    }
}

/// Upgrades a server to its own program with each number of each kind of objects.
pub(crate) fn run(
    arguments: &UpgradesArguments,
    output: &mut BenchOutput,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    // The server gets the limit of this process.
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    let site = KerberosSite::start(&RealmOptions::default())?;
    output.note(&format!(
        "a folder on tmpfs; opens and ranges by sys, clients with a connection, a session and a context by krb5p; \
         {} upgrades each to the same program; processor time of both processes during the pause",
        arguments.rounds
    ));
    for kind in HandedOver::ALL {
        for count in &arguments.counts {
            if stopped(stop) {
                return Ok(());
            }
            measure(kind, *count, arguments.rounds, &site, output, stop)?;
        }
    }
    Ok(())
}

fn measure(
    kind: HandedOver,
    count: usize,
    rounds: u32,
    site: &KerberosSite,
    output: &mut BenchOutput,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let work = private::temporary("orthrus-xtask-")?;
    let folder = private::temporary_in("orthrus-upgrades-", "/dev/shm".as_ref())?;
    let export = folder.path().join("data");
    make_export(&export)?;
    for number in 0..count {
        let file = File::create(export.join(number.to_string()))?;
        file.set_permissions(fs::Permissions::from_mode(0o666))?;
    }
    let exports = ["--squash", "none", "--lease-time", "600"].map(Into::into);
    let exports = [export.into()].into_iter().chain(exports).collect();
    let log = work.path().join("log");
    let server = site.start_server(work.path(), exports, Some(File::create(&log)?), None)?;
    let _clients = match make_all(kind, count, &server, site, stop) {
        Ok(clients) => clients,
        Err((clients, error)) => {
            output.note(&format!("not all of {count} {}: {error:#}", kind.name()));
            clients
        }
    };
    let (mut pauses, mut old, mut new) = (Vec::new(), Vec::new(), Vec::new());
    let mut found = 0;
    for _ in 0..rounds {
        if stopped(stop) {
            return Ok(());
        }
        let report = upgrade(&work.path().join("state"))?;
        found = report[kind.name()].as_u64().context("the report lacks the objects")?;
        pauses.push(report["pause_ms"].as_f64().context("the report lacks the pause")?);
        let lines = fs::read_to_string(&log)?;
        old.push(spent(&lines, HANDING_OVER).context("the log lacks the time of the old process")?);
        new.push(spent(&lines, RESTORING).context("the log lacks the time of the new process")?);
    }
    let figure = |label, row: &str, values: Vec<f64>| {
        BenchFigure::of(label, format!("{} {found} {row}", kind.name()), "ms", values)
    };
    let longest = pauses.iter().copied().fold(0.0, f64::max);
    let longest =
        BenchFigure::once("longest", format!("{} {found} longest pause", kind.name()), "ms", longest);
    let figures = [
        figure("pause", "pause", pauses),
        longest,
        figure("old process", "old process", old),
        figure("new process", "new process", new),
    ];
    output.line(&format!("{found} {}", kind.name()), figures);
    Ok(())
}

/// Makes clients with so many objects, each from an address of its own.
///
/// # Errors
/// The server or this machine has no room for more; the clients that have their objects remain.
fn make_all(
    kind: HandedOver,
    count: usize,
    server: &ServerProcess,
    site: &KerberosSite,
    stop: &AtomicBool,
) -> Result<Vec<Client>, (Vec<Client>, anyhow::Error)> {
    let mut clients = Vec::new();
    for from in (0..count).step_by(kind.per_client()) {
        if stopped(stop) {
            break;
        }
        let number = clients.len() as u32;
        let source = Ipv4Addr::from(u32::from(Ipv4Addr::LOCALHOST) + 1 + number);
        let mut options = site.options(server.address(), kind.flavor());
        options.source = Some(source.into());
        if kind.flavor() == Flavor::Sys {
            options.security = Security::sys_as(FIRST_USER + number, FIRST_USER);
        }
        let made = Client::connect(options).map_err(anyhow::Error::from).and_then(|mut client| {
            kind.make(&mut client, from, count.min(from + kind.per_client()))?;
            Ok(client)
        });
        match made {
            Ok(client) => clients.push(client),
            Err(error) => return Err((clients, error)),
        }
    }
    Ok(clients)
}

/// Upgrades the server with this state folder; returns its report.
fn upgrade(state: &Path) -> anyhow::Result<Value> {
    let output = Command::new(program()?).args(["upgrade", "--json", "--state-dir"]).arg(state).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the upgrade failed: {}", said.trim());
    let outcome: Value = serde_json::from_slice(&output.stdout)?;
    outcome.get("upgraded").cloned().context("the server was not upgraded")
}

/// Returns the milliseconds in the last line of a log that begins so.
fn spent(log: &str, line: &str) -> Option<f64> {
    let (_, behind) = log.rsplit_once(line)?;
    behind.split_whitespace().next()?.parse().ok()
}
