//! The server without sockets: threads call it as shards do, with a backend in memory.

use super::worker::{DEPTH, ShardWorker};
use crate::cores;
use anyhow::{Context, anyhow};
use bench::workload::together;
use identity::{Identity, Mapped, PrincipalError};
use krb5::{ContextKeys, Enctype, ProtocolKey, Role};
use nix::time::{ClockId, clock_gettime};
use runtime::Builder;
use server::dispatch::{Environment, Server};
use server::engine::{Nfs, Start};
use server::rpcsec::{AcceptError, Accepted, Identities, RpcsecLimits};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use vfs::{
    Backend, Caller, Export, ExportRule, ExportTable, Exports, MemoryBackend, MemoryLimits, SecFlavor,
    SetAttributes, Timestamp,
};

/// The user ID of all calls.
pub(super) const UID: u32 = 1000;

/// The key of every context: the benchmark does not measure their creation.
pub(super) const KEY: [u8; 32] = *b"a key that both the sides know..";

/// How long a context is good for.
const LIFETIME: Duration = Duration::from_secs(3600);

/// The operations in the calls of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ShardWork {
    /// SEQUENCE and nothing else.
    Sequence,
    /// READ of 4 KiB.
    Read,
    /// The same with krb5.
    ReadKrb5,
    /// OPEN and CLOSE by name.
    OpenClose,
    /// LOCK and LOCKU of one byte.
    Lock,
}

/// A rate, and the processor time of each call.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShardSample {
    /// Calls a second of all threads together, while they are with the server.
    pub rate: f64,
    /// Microseconds of processor time for each call.
    pub cpu_us: f64,
}

struct BenchAccount;

impl Identities for BenchAccount {
    fn resolve(&self, _: &str, _: Duration) -> Result<Mapped, PrincipalError> {
        let identity = Identity { uid: UID, gid: UID, groups: [].into() };
        Ok(Mapped { identity: Ok(identity), machine: false })
    }
}

fn accept(_: &[u8]) -> Result<Accepted, AcceptError> {
    let (major, message) = (9 << 16, "no keys".to_owned());
    let refused = |_| AcceptError { major, minor: 0, message, is_temporary: false };
    Ok(Accepted {
        delegated_through: Vec::new(),
        token: b"reply token".to_vec(),
        principal: "user@EXAMPLE.ORG".to_owned(),
        keys: ContextKeys::new(
            Enctype::Aes256CtsHmacSha1_96,
            ProtocolKey::AcceptorSubkey(&KEY),
            Role::Acceptor,
        )
        .map_err(refused)?,
        lifetime: LIFETIME,
        send_sequence: 1,
    })
}

/// Starts a server on a backend in memory.
pub(super) fn server() -> anyhow::Result<Server<Nfs>> {
    let backend =
        MemoryBackend::new(MemoryLimits::default(), [7; 16]).map_err(|error| anyhow!("{error:?}"))?;
    let set = SetAttributes { mode: Some(0o777), ..SetAttributes::default() };
    backend.setattr(&Caller::root(), &backend.root(), &set).map_err(|error| anyhow!("{error:?}"))?;
    let flavors = SecFlavor::ALL.to_vec();
    let export = Export::new("/", Arc::new(backend))?.with_rule(ExportRule {
        flavors,
        secure: false,
        ..ExportRule::default()
    });
    let table = ExportTable::new(vec![export], Timestamp::default())?;
    let boot = state::Boot { epoch: 1, hash_key: [7; 16], principal_key: [0; 16], prior_clients: Vec::new() };
    let start = Start { boot, write_verifier: [1; 8], filehandle_key: [2; 16] };
    let (begin, handles) = (Instant::now(), AtomicU64::new(1));
    let environment = Environment {
        clock: Box::new(move || begin.elapsed()),
        // Handles differ, and nothing else of it counts.
        random: Box::new(move |bytes| {
            let number = handles.fetch_add(1, Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
            bytes.iter_mut().zip(number.iter().cycle()).for_each(|(to, from)| *to = *from);
        }),
    };
    let builder = Builder::new(Arc::new(Exports::new(table)), start, environment);
    Ok(builder.kerberos(Box::new(accept), Box::new(BenchAccount), RpcsecLimits::default()).server())
}

/// Lets each worker work on a core of its own for some time.
pub(super) fn measure(
    server: &Server<Nfs>,
    workers: &mut [ShardWorker],
    length: Duration,
    stop: &AtomicBool,
) -> anyhow::Result<ShardSample> {
    let barrier = Barrier::new(workers.len());
    let samples = together(workers, |core, worker| {
        let pinned = cores::pin_to(core);
        barrier.wait();
        pinned.and_then(|()| work(server, worker, length, stop))
    });
    let samples = samples.into_iter().collect::<anyhow::Result<Vec<ShardSample>>>()?;
    let rate: f64 = samples.iter().map(|sample| sample.rate).sum();
    let cpu_us = samples.iter().map(|sample| sample.cpu_us * sample.rate).sum::<f64>() / rate;
    Ok(ShardSample { rate, cpu_us })
}

/// Makes calls, and measures how long the server has them.
fn work(
    server: &Server<Nfs>,
    worker: &mut ShardWorker,
    length: Duration,
    stop: &AtomicBool,
) -> anyhow::Result<ShardSample> {
    let (mut wall, mut cpu, mut calls) = (Duration::ZERO, Duration::ZERO, 0);
    let end = Instant::now() + length;
    let mut replies = Vec::new();
    while Instant::now() < end && !stop.load(Relaxed) {
        let batch = worker.calls()?;
        let (began, cpu_began) = (Instant::now(), processor_time()?);
        worker.tick(server, batch, &mut replies);
        cpu += processor_time()?.saturating_sub(cpu_began);
        wall += began.elapsed();
        calls += DEPTH;
        ShardWorker::check(&mut replies)?;
    }
    let calls = f64::from(calls.max(1));
    Ok(ShardSample { rate: calls / wall.as_secs_f64(), cpu_us: cpu.as_secs_f64() * 1e6 / calls })
}

/// Processor time of this thread.
fn processor_time() -> anyhow::Result<Duration> {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).context("the processor time is not told")?;
    Ok(Duration::from(time))
}
