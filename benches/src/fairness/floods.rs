//! Clients that flood the server, each in its own way.

use crate::busy::BusyWork;
use crate::contexts::InitLoad;
use crate::kerberos_site::ANSWER_MAX;
use crate::load::TransferKind::{Read, Write};
use crate::load::{self, FILE_SIZE, LoadedSessions};
use anyhow::Context;
use bench::measuring::{ClientLayout, Load};
use bench::native::BenchTarget;
use bench::{Endpoint, ExportMount, Flavor};
use client::{Client, Compound};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a flood goes on at once.
const SLICE: Duration = Duration::from_millis(100);

/// The work of a flood.
#[derive(Clone)]
pub(super) enum FloodWork {
    /// A load of the measuring core, by a flavor.
    Load(Flavor, Load),
    /// RPCSEC_GSS_INIT with valid tokens, on connections that have sent a signed call.
    Contexts,
    /// Reads whose replies are hardly read.
    SlowReaders(Flavor),
}

/// A way to flood the server.
pub(super) struct FloodKind {
    /// Its name on the command line.
    pub(super) name: &'static str,
    /// One line for people.
    pub(super) about: &'static str,
    pub(super) work: FloodWork,
}

/// Clients with four connections each.
const MANY: ClientLayout = ClientLayout { clients: 4, connections: 4, ..ClientLayout::ONE };
/// Clients with one connection each.
const FOUR: ClientLayout = ClientLayout { clients: 4, ..ClientLayout::ONE };
/// Clients that each have one metadata operation in flight.
const STORM: ClientLayout = ClientLayout { clients: 16, ..ClientLayout::ONE };

/// All floods, in the order of the table.
pub(super) fn floods() -> [FloodKind; 7] {
    let stream = |kind| load::laid_out(load::sequential(kind, 16, 1 << 20), FOUR);
    [
        FloodKind {
            name: "requests",
            about: "sys, cached reads of 4 KiB by 4 clients with 4 connections each, 64 in flight for each client",
            work: FloodWork::Load(Flavor::Sys, load::laid_out(load::random(Read, 64), MANY)),
        },
        FloodKind {
            name: "contexts",
            about: "RPCSEC_GSS_INIT with valid tokens, on 4 trusted connections with 32 in flight on each",
            work: FloodWork::Contexts,
        },
        FloodKind {
            name: "reads",
            about: "krb5p, sequential reads by 4 clients, 16 times 1 MiB in flight for each",
            work: FloodWork::Load(Flavor::Krb5p, stream(Read)),
        },
        FloodKind {
            name: "writes",
            about: "krb5p, sequential writes by 4 clients, 16 times 1 MiB in flight for each",
            work: FloodWork::Load(Flavor::Krb5p, stream(Write)),
        },
        FloodKind {
            name: "metadata",
            about: "sys, the metadata mix of 16 clients",
            work: FloodWork::Load(Flavor::Sys, Load::Metadata { layout: STORM }),
        },
        FloodKind {
            name: "slow-readers",
            about: "sys, reads of 1 MiB by 16 clients, 64 in flight for each; the replies are hardly read",
            work: FloodWork::SlowReaders(Flavor::Sys),
        },
        FloodKind {
            name: "slow-readers-krb5p",
            about: "the same with krb5p",
            work: FloodWork::SlowReaders(Flavor::Krb5p),
        },
    ]
}

/// A flood with its sessions.
pub(super) enum RunningFlood<'a> {
    Load(Box<LoadedSessions<'a>>),
    Contexts(InitLoad),
    SlowReaders(SlowReaders),
}

impl<'a> RunningFlood<'a> {
    /// Connects to the server. `tokens` are of the flooding principal.
    pub(super) fn prepare(
        flood: &FloodKind,
        target: &'a mut BenchTarget,
        tokens: &[Vec<u8>],
        stop: &'a AtomicBool,
    ) -> anyhow::Result<Self> {
        Ok(match &flood.work {
            FloodWork::Load(flavor, load) => {
                let load = (*flavor, load.clone());
                let sessions = LoadedSessions::prepare(target, flood.name, load, FILE_SIZE, stop)?;
                Self::Load(Box::new(sessions))
            }
            FloodWork::Contexts => Self::Contexts(trusted_inits(target, tokens)?),
            FloodWork::SlowReaders(flavor) => Self::SlowReaders(SlowReaders::connect(target, *flavor)?),
        })
    }

    /// Returns the work to repeat. `done` receives operations or bytes, and seconds.
    pub(super) fn work<'b>(&'b mut self, mut done: impl FnMut(f64, f64) + Send + 'b) -> BusyWork<'b> {
        match self {
            Self::Load(sessions) => Box::new(move || {
                let sample = sessions.plain(SLICE)?.unwrap_or_default();
                done(sample.operations as f64, sample.seconds);
                Ok(())
            }),
            Self::Contexts(load) => Box::new(move || {
                let sample = load.round(SLICE)?;
                done(sample.operations as f64, sample.seconds);
                Ok(())
            }),
            Self::SlowReaders(readers) => Box::new(move || {
                let start = Instant::now();
                let reads = readers.go_on(SLICE)?;
                done(reads as f64, start.elapsed().as_secs_f64());
                Ok(())
            }),
        }
    }

    /// Ends the sessions of the flood.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::Load(sessions) => sessions.finish(),
            // Their connections close with the value.
            Self::Contexts(_) | Self::SlowReaders(_) => Ok(()),
        }
    }
}

/// Connections that the server trusts, for INITs.
fn trusted_inits(target: &BenchTarget, tokens: &[Vec<u8>]) -> anyhow::Result<InitLoad> {
    let pid = target.pid.context("the server is gone")?;
    let addresses = client::resolve(&target.host, target.port)?;
    let mut load = InitLoad::new(pid, &addresses, tokens)?;
    let mut client = Client::connect(target.options(Flavor::Krb5p)?)?;
    for connection in load.connections() {
        // The answer is an error, since nothing but the signature is right.
        client.control(connection).call(Compound::sessionless(1))?;
    }
    client.close()?;
    Ok(load)
}

/// The number of the next slow reader's folder.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Clients that take one reply now and then.
pub(super) struct SlowReaders {
    mounts: Vec<ExportMount>,
    next: usize,
}

/// Clients, and the reads that each keeps in flight.
const SLOW_READERS: usize = 16;
const SLOW_DEPTH: usize = 64;
/// Bytes of each of these reads.
const SLOW_SIZE: usize = 1 << 20;
/// Time between two looks at replies.
const SLOW_PAUSE: Duration = Duration::from_millis(50);

impl SlowReaders {
    fn connect(target: &BenchTarget, flavor: Flavor) -> anyhow::Result<Self> {
        let connect = |_| {
            let mut options = target.options(flavor)?;
            // The replies take their time.
            options.call_timeout = ANSWER_MAX * 100;
            let name = format!("slow-{}-{}", flavor.name(), NEXT.fetch_add(1, Ordering::Relaxed));
            let mut mount = ExportMount::connect(options, &target.export, &name)?;
            mount.prepare()?;
            mount.start_write(0, 0, &vec![7; 128 << 10])?;
            mount.poll(None, &mut |_, _| Ok(()))?;
            let depth = SLOW_DEPTH.min(mount.depth_max());
            (0..depth).try_for_each(|tag| mount.start_read(tag, 0, SLOW_SIZE))?;
            mount.flush()?;
            anyhow::Ok(mount)
        };
        Ok(Self { mounts: (0..SLOW_READERS).map(connect).collect::<Result<_, _>>()?, next: 0 })
    }

    /// Takes a few replies, and asks again; returns how many came.
    fn go_on(&mut self, length: Duration) -> anyhow::Result<usize> {
        let (start, mut came) = (Instant::now(), 0);
        while start.elapsed() < length {
            std::thread::sleep(SLOW_PAUSE);
            let mount = self.next % self.mounts.len();
            self.next += 1;
            let mount = self.mounts.get_mut(mount).context("no reader")?;
            let mut finished = Vec::new();
            mount.poll(Some(Duration::ZERO), &mut |tag, _| {
                finished.push(tag);
                Ok(())
            })?;
            came += finished.len();
            finished.into_iter().try_for_each(|tag| mount.start_read(tag, 0, SLOW_SIZE))?;
            mount.flush()?;
        }
        Ok(came)
    }
}
