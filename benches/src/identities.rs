//! Reads of clients with known identities while others log in and the directory of their accounts
//! is stopped or gone.

use super::busy::{BusyWork, beside};
use super::cores::Cores;
use super::kerberos_site::{KerberosSite, program};
use super::load::TransferKind::Read;
use super::load::{self, FILE_SIZE, LoadedSessions};
use super::output::{BenchFigure, BenchOutput, Floor};
use super::slapd::BenchDirectory;
use super::{Skipped, stopped};
use anyhow::{bail, ensure};
use bench::ServerProcess;
use client::{Client, Flavor, Options, Security};
use gss::Credential;
use realm::RealmOptions;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Interleaved rounds, and how long each condition counts.
const ROUNDS: u32 = 7;
const LENGTH: Duration = Duration::from_secs(1);

/// How long the logins run before the reads count: longer than the absence of an account is cached.
const LEAD_IN: Duration = Duration::from_millis(1500);

/// The users without an account, the threads that log them in, and the pause of each after a login.
const USERS: usize = 64;
const THREADS: usize = 16;
const PAUSE: Duration = Duration::from_millis(100);

/// Reads of the reader in flight, on one connection.
const DEPTH: u32 = 16;

/// The reads beside an unavailable directory, in parts of the reads beside a healthy one.
const FLOOR: Floor = Floor::AtLeast(0.95);

/// How long the directory may take until logins succeed again.
const RECOVERY_MAX: Duration = Duration::from_secs(30);

/// The state of the directory while reads are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DirectoryState {
    Healthy,
    Stopped,
    Killed,
}

/// The conditions of a round: each unavailable directory follows a healthy one.
const ROUND: [DirectoryState; 4] =
    [DirectoryState::Healthy, DirectoryState::Stopped, DirectoryState::Healthy, DirectoryState::Killed];

/// Counts of logins in all conditions of one kind.
#[derive(Default)]
struct LoginCounts {
    made: AtomicU64,
    failed: AtomicU64,
}

/// Logins of users that the server has to look up.
struct Logins {
    options: Vec<Options>,
    next: AtomicUsize,
}

/// Runs the benchmark.
///
/// # Errors
/// When realm, directory or server do not work.
pub(crate) fn run(output: &mut BenchOutput, stop: &AtomicBool) -> anyhow::Result<()> {
    if let Some(reason) = BenchDirectory::missing() {
        bail!(Skipped(reason));
    }
    let cores = Cores::choose()?;
    let users: Vec<String> = (0..USERS).map(|number| format!("stranger{number}")).collect();
    let site = KerberosSite::start(&RealmOptions { users: users.clone(), ..RealmOptions::default() })?;
    let work = private::temporary("orthrus-xtask-")?;
    let mut slapd = BenchDirectory::start(work.path())?;
    let server = cores.on_server(|| serve(&site, work.path(), slapd.port()))?;
    let logins = Logins::prepare(&site, work.path(), &server, &users)?;
    introduce(output, cores);
    let target = site.target("orthrus", server.pid(), server.address(), "/data");
    for flavor in [Flavor::Sys, Flavor::Krb5p] {
        let mut for_reader = target.clone();
        let reads = (flavor, load::random(Read, DEPTH));
        let mut reader = LoadedSessions::prepare(&mut for_reader, "reader", reads, FILE_SIZE, stop)?;
        let mut rates: [Vec<f64>; 4] = Default::default();
        let counts: [LoginCounts; 4] = Default::default();
        for round in 0..ROUNDS {
            for (index, state) in ROUND.into_iter().enumerate() {
                logins.until_healthy()?;
                match state {
                    DirectoryState::Healthy => {}
                    DirectoryState::Stopped => slapd.stop()?,
                    DirectoryState::Killed => slapd.kill()?,
                }
                let busy = (0..THREADS).map(|_| logins.work(&counts[index])).collect();
                let sample = beside(busy, LEAD_IN, || reader.repeat(round, LENGTH))?;
                match state {
                    DirectoryState::Healthy => {}
                    DirectoryState::Stopped => slapd.resume()?,
                    DirectoryState::Killed => slapd.restart()?,
                }
                if stopped(stop) {
                    return Ok(());
                }
                rates[index].extend(sample.map(|sample| sample.operations as f64 / sample.seconds));
            }
        }
        report(output, flavor, &rates, &counts)?;
        reader.finish()?;
    }
    Ok(())
}

fn introduce(output: &mut BenchOutput, cores: Cores) {
    output.note(&format!("{}; one shard", cores.describe()));
    output.note(&format!(
        "reader: alice, from a table of the configuration; random reads of 4 KiB from memory, {DEPTH} in flight"
    ));
    output.note(&format!(
        "others: {THREADS} threads that log in {USERS} users without an account, {} ms after each login; slapd is asked",
        PAUSE.as_millis()
    ));
    output.note(&format!(
        "median [interval] of {ROUNDS} rounds, each {} s beside a healthy slapd, one under SIGSTOP, a healthy one and a killed one",
        LENGTH.as_secs_f64()
    ));
}

/// Starts the server with alice in a table and all other accounts in the directory.
fn serve(site: &KerberosSite, work: &Path, port: u16) -> anyhow::Result<ServerProcess> {
    let text = format!(
        "listen = \"127.0.0.1:0\"\nshards = 1\nkeytab = {:?}\nstate_dir = {:?}\n\
         [identity]\nrefresh = 2\nabsent = 1\n\
         [principals]\n{:?} = \"alice\"\n\
         [[identity.source]]\nkind = \"static\"\nusers.alice = {{ uid = 0, gid = 0 }}\n\
         [[identity.source]]\nkind = \"ldap\"\nservers = [\"ldap://127.0.0.1:{port}\"]\ninsecure = true\nbase = \"dc=bench\"\n\
         [[export]]\nmemory = {}\npseudo = \"/data\"\nsec = [\"sys\", \"krb5p\"]\nsecure = false\nsquash = \"none\"\n",
        site.realm().server_keytab(),
        work.join("state"),
        format!("alice@{}", site.realm().name()),
        FILE_SIZE * 4,
    );
    let config = work.join("orthrus.toml");
    std::fs::write(&config, text)?;
    let log = std::fs::File::create(work.join("log"))?;
    let arguments = vec!["--config".into(), config.into()];
    ServerProcess::start_with_log(&program()?, arguments, &site.environment(), Some(log))
}

impl Logins {
    /// Gets a ticket for each user.
    fn prepare(
        site: &KerberosSite,
        work: &Path,
        server: &ServerProcess,
        users: &[String],
    ) -> anyhow::Result<Self> {
        let mut options = Vec::new();
        for user in users {
            let cache = work.join(user);
            site.realm().kinit(user, &cache)?;
            let ticket = Credential::Ccache(format!("FILE:{}", cache.display()));
            let security = Security::of(Flavor::Krb5, "localhost", ticket);
            options.push(Options { security, ..site.options(server.address(), Flavor::Krb5) });
        }
        Ok(Self { options, next: AtomicUsize::new(0) })
    }

    /// Logs the next user in and out. Returns whether the server took the user.
    fn log_in(&self) -> bool {
        let next = self.next.fetch_add(1, Relaxed) % self.options.len();
        self.options.get(next).is_some_and(|options| Client::connect(options.clone()).is_ok())
    }

    fn work<'a>(&'a self, counts: &'a LoginCounts) -> BusyWork<'a> {
        Box::new(|| {
            let count = if self.log_in() { &counts.made } else { &counts.failed };
            count.fetch_add(1, Relaxed);
            std::thread::sleep(PAUSE);
            Ok(())
        })
    }

    /// Waits until as many logins in a row succeed as there are users.
    fn until_healthy(&self) -> anyhow::Result<()> {
        let end = Instant::now() + RECOVERY_MAX;
        while !(0..self.options.len()).all(|_| self.log_in()) {
            ensure!(Instant::now() < end, "logins do not succeed although the directory is healthy");
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}

/// Reports the reads in each condition, and the ratios.
fn report(
    output: &mut BenchOutput,
    flavor: Flavor,
    rates: &[Vec<f64>; 4],
    counts: &[LoginCounts; 4],
) -> anyhow::Result<()> {
    let name = format!("identities {}", flavor.name());
    println!("\nthe reader with {}", flavor.name());
    let time = (LENGTH + LEAD_IN).as_secs_f64() * f64::from(ROUNDS);
    let titles = ["slapd healthy", "slapd under SIGSTOP", "slapd healthy again", "slapd killed"];
    for ((title, rates), counts) in titles.into_iter().zip(rates).zip(counts) {
        let (made, failed) = (counts.made.load(Relaxed), counts.failed.load(Relaxed));
        let reads = BenchFigure::of("reads", format!("{name}, reads, {title}"), "1/s", rates.iter().copied());
        let logins = |label: &str, count: u64| {
            BenchFigure::once(label, format!("{name}, {label}, {title}"), "1/s", count as f64 / time)
        };
        output.line(title, [reads, logins("logins", made), logins("delayed logins", failed)]);
    }
    let [first, halted, second, killed] = rates;
    for (label, healthy, down) in [("SIGSTOP", first, halted), ("SIGKILL", second, killed)] {
        let ratios = healthy.iter().zip(down).map(|(healthy, down)| down / healthy);
        let row = format!("{name}, reads, {label} / healthy");
        let title = format!("reads, {label} / healthy");
        output.line(&title, [BenchFigure::of("", row, "ratio", ratios).floor(FLOOR)]);
    }
    let [healthy, halted, _, killed] = counts;
    // Otherwise the lookups were not what was measured.
    ensure!(healthy.failed.load(Relaxed) == 0, "logins failed beside a healthy directory");
    ensure!(halted.failed.load(Relaxed) > 0 && killed.failed.load(Relaxed) > 0, "no login was delayed");
    Ok(())
}
