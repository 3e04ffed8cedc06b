//! Context set-ups a second on one core: the program by TCP, and MIT's library alone.

use super::cores::Cores;
use super::kerberos_site::{ANSWER_MAX, KerberosSite};
use super::output::{BenchFigure, BenchOutput, Floor};
use super::stopped;
use anyhow::{Context, bail, ensure};
use bench::measuring::Sample;
use bench::{Unit, cpu};
use client::{Head, Protection, RawConnection};
use gss::{Acceptor, Credential, Initiator, Step};
use nfs4::NFSPROC4_NULL;
use realm::{Enctypes, RealmEnctype, RealmOptions};
use rpc::gss::{GSS_S_COMPLETE, GssCredential, InitRes, RpcGssProcT, RpcGssServiceT};
use rpc::{Accepted, AuthFlavor, ReplyHeader};
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use xdr::{Decode, Decoder, Encode, Encoder};

/// Different tokens that are sent in turn.
const TOKENS: usize = 128;

/// Connections to the server, and calls in flight on each.
const CONNECTIONS: usize = 4;
const IN_FLIGHT: usize = 32;

/// Interleaved rounds of the program and of the library.
const ROUNDS: usize = 5;

/// How long each counts.
const LENGTH: Duration = Duration::from_secs(1);

/// How long each runs before it counts.
const LEAD_IN: Duration = Duration::from_millis(200);

/// Contexts a second on one core at least.
const FLOOR: Floor = Floor::AtLeast(5000.0);

/// The unit of the contexts that a round sets up.
const UNIT: Unit = Unit::OperationsPerSecond;

/// Runs the benchmark.
///
/// # Errors
/// When realm, library or server do not work.
pub(crate) fn run(output: &mut BenchOutput, stop: &AtomicBool) -> anyhow::Result<()> {
    let cores = Cores::choose()?;
    output.note(&format!(
        "{}; {CONNECTIONS} connections with {IN_FLIGHT} RPCSEC_GSS_INIT calls in flight on each; library: gss::Acceptor in a loop on the server's core",
        cores.describe()
    ));
    output
        .note(&format!("median [interval] of {ROUNDS} interleaved rounds of {:.0} s", LENGTH.as_secs_f64()));
    println!();
    let mut enctypes = [RealmEnctype::Aes256Sha1, RealmEnctype::Aes256Sha2].into_iter();
    enctypes.try_for_each(|enctype| one(output, stop, cores, enctype))
}

fn one(
    output: &mut BenchOutput,
    stop: &AtomicBool,
    cores: Cores,
    enctype: RealmEnctype,
) -> anyhow::Result<()> {
    let site =
        KerberosSite::start(&RealmOptions { enctypes: Enctypes::only(enctype), ..RealmOptions::default() })?;
    let tokens = tokens(&site.credential())?;
    let acceptor = Acceptor::from_keytab(&site.realm().server_keytab())?;
    let established = acceptor.accept(tokens.first().context("no token")?)?;
    ensure!(established.enctype == enctype.number(), "the context is of enctype {}", established.enctype);
    let work = private::temporary("orthrus-xtask-")?;
    let server = site.serve(cores, work.path(), &["--memory".into(), "16".into()], None)?;
    let mut load = InitLoad::new(server.pid(), &[server.address()], &tokens)?;
    let (mut program, mut library) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        load.round(LEAD_IN)?;
        program.push(load.round(LENGTH)?);
        library.push(cores.on_server(|| {
            accept(&acceptor, &tokens, LEAD_IN)?;
            accept(&acceptor, &tokens, LENGTH)
        })?);
        if stopped(stop) {
            return Ok(());
        }
    }
    for (what, rounds, floor) in
        [("the program", &program, Some(FLOOR)), ("MIT's library alone", &library, None)]
    {
        let name = format!("enctype {}, {what}", enctype.number());
        let rate = rounds.iter().map(|round| round.rate(UNIT));
        let cpu = rounds.iter().filter_map(|round| round.server_cost(UNIT));
        let cpu = BenchFigure::of("processor", format!("{name}, processor time"), "µs", cpu);
        output.line(&name, [BenchFigure::of("rate", &name, "1/s", rate).floor(floor), cpu.brief()]);
    }
    Ok(())
}

/// Makes tokens of a user for the server.
pub(crate) fn tokens(credential: &Credential) -> anyhow::Result<Vec<Vec<u8>>> {
    let token = |_| match Initiator::new("nfs@localhost", credential)?.step(None)? {
        Step::Send(token) => Ok(token),
        Step::Done(_) => bail!("the context needs no answer, so it is not mutual"),
    };
    (0..TOKENS).map(token).collect()
}

/// Accepts in a loop on this thread.
fn accept(acceptor: &Acceptor, tokens: &[Vec<u8>], length: Duration) -> anyhow::Result<Sample> {
    let (start, before) = (Instant::now(), cpu::of_this_thread());
    let mut contexts = 0;
    while start.elapsed() < length {
        for token in tokens {
            acceptor.accept(token)?;
            contexts += 1;
        }
    }
    Ok(round(contexts, start.elapsed(), cpu::of_this_thread().saturating_sub(before)))
}

/// The figures of a round.
fn round(contexts: u64, time: Duration, cpu: Duration) -> Sample {
    let (seconds, cpu) = (time.as_secs_f64(), cpu.as_secs_f64());
    Sample { operations: contexts, seconds, server_cpu_seconds: Some(cpu), ..Sample::default() }
}

/// The client: one thread, several connections, always enough for the server to do.
pub(crate) struct InitLoad {
    server: u32,
    connections: Vec<RawConnection>,
    /// Marked records of [`IN_FLIGHT`] calls each.
    batches: Vec<Vec<u8>>,
    next: usize,
}

impl InitLoad {
    /// Connects to a server, which is the process `server`.
    pub(crate) fn new(server: u32, addresses: &[SocketAddr], tokens: &[Vec<u8>]) -> anyhow::Result<Self> {
        let mut batches = vec![Vec::new(); TOKENS / IN_FLIGHT];
        for (index, token) in tokens.iter().enumerate() {
            if let Some(batch) = batches.get_mut(index / IN_FLIGHT) {
                batch.extend(init_call(u32::try_from(index)?, token)?);
            }
        }
        let connect = |_| RawConnection::connect(addresses, ANSWER_MAX, 1 << 20);
        let connections = (0..CONNECTIONS).map(connect).collect::<Result<_, _>>()?;
        Ok(Self { server, connections, batches, next: 0 })
    }

    /// Returns the connections, on which no call is in flight.
    pub(crate) fn connections(&mut self) -> &mut [RawConnection] {
        &mut self.connections
    }

    /// Sets contexts up for a while.
    pub(crate) fn round(&mut self, length: Duration) -> anyhow::Result<Sample> {
        for at in 0..self.connections.len() {
            self.send(at)?;
        }
        let (start, before) = (Instant::now(), cpu::of_process(self.server));
        let mut contexts = 0;
        while start.elapsed() < length {
            for at in 0..self.connections.len() {
                contexts += self.receive(at)?;
                self.send(at)?;
            }
        }
        let time = start.elapsed();
        let used = before.zip(cpu::of_process(self.server)).map(|(from, to)| to.saturating_sub(from));
        for at in 0..self.connections.len() {
            self.receive(at)?;
        }
        Ok(round(contexts, time, used.context("the server is gone")?))
    }

    fn send(&mut self, at: usize) -> anyhow::Result<()> {
        let batch = self.batches.get(self.next % self.batches.len()).context("no calls")?;
        self.next += 1;
        Ok(self.connections.get_mut(at).context("no connection")?.send_bytes(batch)?)
    }

    fn receive(&mut self, at: usize) -> anyhow::Result<u64> {
        let connection = self.connections.get_mut(at).context("no connection")?;
        for _ in 0..IN_FLIGHT {
            let reply = connection.receive_record(ANSWER_MAX)?.context("the server does not answer")?;
            init_result(&reply)?;
        }
        Ok(IN_FLIGHT as u64)
    }
}

/// The marked record of an INIT call (RFC 2203 section 5.2.2).
pub(crate) fn init_call(xid: u32, token: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut body = Encoder::new();
    let (procedure, service) = (RpcGssProcT::RPCSEC_GSS_INIT, RpcGssServiceT::rpc_gss_svc_privacy);
    GssCredential { procedure, sequence: 0, service, handle: &[] }.encode(&mut body);
    let flavor = AuthFlavor::RPCSEC_GSS as u32;
    let protection = Protection::Plain { flavor, body: body.into_vec().into() };
    let mut arguments = Encoder::new();
    arguments.opaque(token);
    Ok(Head::nfs(xid, NFSPROC4_NULL, protection).record(arguments.as_slice())?)
}

/// Returns the result of an INIT call; every reply must bring a context.
pub(crate) fn init_result(reply: &[u8]) -> anyhow::Result<InitRes<'_>> {
    let ReplyHeader::Accepted { status: Accepted::Success, results_at, .. } = ReplyHeader::parse(reply)?
    else {
        bail!("an INIT was refused")
    };
    let result = InitRes::decode(&mut Decoder::new(reply.get(results_at..).unwrap_or_default()))?;
    ensure!(result.gss_major == GSS_S_COMPLETE, "an INIT failed: major {:#x}", result.gss_major);
    ensure!(!result.handle.is_empty(), "a context without handle");
    Ok(result)
}
