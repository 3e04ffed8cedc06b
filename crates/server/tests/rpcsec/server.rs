//! A server under test: COMPOUNDs are echoed, tests make up the tokens, and time stands still until
//! a test moves it.

use identity::{Identity, Mapped, Mapper, NoAccount, PrincipalError};
use krb5::{ContextKeys, Enctype, ProtocolKey, Role};
use orthrus_server::compound::CompoundStatus;
use orthrus_server::dispatch::{Action, CompletedCall, Engine, Environment, ReplySink, Scratch, Server};
use orthrus_server::engine::{Call, CompoundOutcome, WaitPolicy};
use orthrus_server::metrics::Metrics;
use orthrus_server::rpcsec::{AcceptError, Accepted, Identities, Rpcsec, RpcsecLimits};
use orthrus_server::tenants::LimitedTenants;
use rpc::ConnectionId;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vfs::{SecFlavor, Unresolved};
use xdr::Encoder;

/// The connection that most tests use.
pub(crate) const CONNECTION: ConnectionId = ConnectionId(1);

/// The key of every context in these tests.
pub(crate) const KEY: [u8; 32] = *b"the key both sides of tests know";

/// The lifetime of every ticket in these tests.
pub(crate) const LIFETIME: Duration = Duration::from_secs(3600);

/// The parts of a call that the engine has received.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SeenCall {
    pub flavor: SecFlavor,
    pub principal: Option<String>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub gids: Vec<u32>,
    pub machine: bool,
    pub args: Vec<u8>,
    pub reply_overhead: usize,
    pub request_size: usize,
}

/// Answers each COMPOUND with its own arguments.
#[derive(Default)]
pub(crate) struct Echo {
    pub seen: Mutex<Vec<SeenCall>>,
    /// The accounts whose groups AUTH_SYS callers have.
    pub accounts: Option<Mapper>,
    /// Whether no export admits AUTH_SYS.
    pub admits_nobody: bool,
    /// How often that was asked for.
    pub admissions: AtomicUsize,
}

impl Engine for Echo {
    type Suspended = Infallible;

    fn resume(&self, _: &Call<'_>, _: &mut Encoder, suspended: Infallible) -> CompoundOutcome {
        match suspended {}
    }

    fn decline(&self, _: &Call<'_>, _: &mut Encoder, suspended: Infallible) -> Option<CompoundOutcome> {
        match suspended {}
    }

    fn compound(&self, call: &Call<'_>, reply: &mut Encoder, _: WaitPolicy) -> CompoundStatus<Infallible> {
        let caller = call.security.caller.as_ref();
        self.seen.lock().unwrap().push(SeenCall {
            flavor: call.security.flavor,
            principal: call.security.principal.as_deref().map(str::to_owned),
            uid: caller.map(|caller| caller.uid),
            gid: caller.map(|caller| caller.gid),
            gids: caller.map(|caller| caller.groups.to_vec()).unwrap_or_default(),
            machine: call.security.machine,
            args: call.args.to_vec(),
            reply_overhead: call.reply_overhead,
            request_size: call.request_size,
        });
        reply.raw(call.args);
        CompoundStatus::Done(CompoundOutcome {
            status: nfs4::Nfsstat4::NFS4_OK,
            operations: 1,
            replayed: false,
            subject: orthrus_server::metrics::RequestSubject::NONE,
            expensive: false,
            export: None,
        })
    }

    fn sys_accounts(&self) -> Option<&Mapper> {
        self.accounts.as_ref()
    }

    fn admits_sys(&self, _: SocketAddr, _: Duration) -> Result<bool, Unresolved> {
        self.admissions.fetch_add(1, Relaxed);
        Ok(!self.admits_nobody)
    }

    fn delay(&self, _: &Call<'_>, reply: &mut Encoder) {
        reply.raw(b"delayed.");
    }

    fn connection_closed(&self, _: ConnectionId) {}

    fn housekeeping(&self, _: Duration) {}
}

/// A server, its scratch memory and its clock.
pub(crate) struct Host<E = Echo> {
    pub server: Server<E>,
    scratch: Scratch,
    seconds: Arc<AtomicU64>,
    /// Nanoseconds by which each reading moves the clock, and the sum of these moves.
    looks: Arc<(AtomicU64, AtomicU64)>,
}

/// The accounts of the site: alice and bob are users, `host/` is a machine, eve is refused.
struct Accounts;

impl Identities for Accounts {
    fn resolve(&self, principal: &str, _: Duration) -> Result<Mapped, PrincipalError> {
        let user = |uid| Ok(Identity { uid, gid: 100, groups: [uid, 100, 200].into() });
        let unknown = || NoAccount::Unknown(principal.to_owned());
        match principal.split('@').next() {
            Some("alice") => Ok(Mapped { identity: user(1000), machine: false }),
            Some("bob") => Ok(Mapped { identity: user(1001), machine: false }),
            Some("eve") => Err(PrincipalError::Refused(principal.to_owned(), unknown())),
            Some(name) => Ok(Mapped { identity: Err(unknown()), machine: name.starts_with("host/") }),
            None => Err(PrincipalError::Refused(principal.to_owned(), unknown())),
        }
    }
}

/// A token of these tests: the enctype, then the principal.
pub(crate) fn token(enctype: Enctype, principal: &str) -> Vec<u8> {
    [&[enctype as u8], principal.as_bytes()].concat()
}

/// A token that finds the acceptor without descriptors.
pub(crate) const SHORTAGE: &str = "shortage";

fn accept(token: &[u8]) -> Result<Accepted, AcceptError> {
    let refused = |message: &str| AcceptError {
        major: 9 << 16,
        minor: 42,
        message: message.to_owned(),
        is_temporary: message == SHORTAGE,
    };
    if token == SHORTAGE.as_bytes() {
        return Err(refused(SHORTAGE));
    }
    let (etype, principal) = token.split_first().ok_or_else(|| refused("empty"))?;
    let enctype = Enctype::from_etype(i32::from(*etype)).ok_or_else(|| refused("no such enctype"))?;
    let principal = std::str::from_utf8(principal).map_err(|_| refused("no name"))?;
    Ok(Accepted {
        token: b"reply token".to_vec(),
        principal: principal.trim_end_matches('\0').to_owned(),
        delegated_through: Vec::new(),
        keys: ContextKeys::new(
            enctype,
            ProtocolKey::AcceptorSubkey(&KEY[..enctype.key_len()]),
            Role::Acceptor,
        )
        .unwrap(),
        lifetime: LIFETIME,
        send_sequence: 1_000_000,
    })
}

impl Host {
    pub(crate) fn new() -> Self {
        Self::with_limits(RpcsecLimits { window_size: 4096, ..RpcsecLimits::default() })
    }

    pub(crate) fn with_limits(limits: RpcsecLimits) -> Self {
        Self::with_tenants(limits, Arc::default())
    }

    /// A server with limits of single principals and clients.
    pub(crate) fn with_tenants(limits: RpcsecLimits, tenants: Arc<LimitedTenants>) -> Self {
        let metrics = Arc::new(Metrics::default());
        let (accounts, counters) = (Box::new(Accounts), Arc::clone(&metrics));
        let rpcsec = Rpcsec::new(Box::new(accept), accounts, limits, counters, Arc::clone(&tenants));
        Self::build_with(Echo::default(), Some(rpcsec), metrics, tenants)
    }

    /// A server that asks `identities` for accounts.
    pub(crate) fn with_identities(identities: impl Identities + 'static) -> Self {
        let (metrics, limits) = (Arc::new(Metrics::default()), RpcsecLimits::default());
        let rpcsec =
            Rpcsec::new(Box::new(accept), Box::new(identities), limits, Arc::clone(&metrics), Arc::default());
        Self::build(Echo::default(), Some(rpcsec), metrics)
    }

    /// A server whose AUTH_SYS callers have the groups of these accounts.
    pub(crate) fn with_sys_accounts(accounts: Mapper) -> Self {
        Self::without_kerberos_over(Echo { accounts: Some(accounts), ..Echo::default() })
    }

    pub(crate) fn without_kerberos() -> Self {
        Self::without_kerberos_over(Echo::default())
    }

    pub(crate) fn without_kerberos_over(engine: Echo) -> Self {
        Self::build(engine, None, Arc::default())
    }

    pub(crate) fn seen(&self) -> Vec<SeenCall> {
        std::mem::take(&mut *self.server.engine().seen.lock().unwrap())
    }
}

impl<E: Engine> Host<E> {
    pub(crate) fn over(engine: E) -> Self {
        let metrics = Arc::new(Metrics::default());
        let limits = RpcsecLimits::default();
        let rpcsec =
            Rpcsec::new(Box::new(accept), Box::new(Accounts), limits, Arc::clone(&metrics), Arc::default());
        Self::build(engine, Some(rpcsec), metrics)
    }

    fn build(engine: E, rpcsec: Option<Rpcsec>, metrics: Arc<Metrics>) -> Self {
        Self::build_with(engine, rpcsec, metrics, Arc::default())
    }

    fn build_with(
        engine: E,
        rpcsec: Option<Rpcsec>,
        metrics: Arc<Metrics>,
        tenants: Arc<LimitedTenants>,
    ) -> Self {
        let seconds = Arc::new(AtomicU64::new(100));
        let (time, state) = (Arc::clone(&seconds), AtomicU64::new(0x9E37_79B9_7F4A_7C15));
        let looks = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
        let moved = Arc::clone(&looks);
        let environment = Environment {
            clock: Box::new(move || {
                let looked = moved.1.fetch_add(moved.0.load(Relaxed), Relaxed);
                Duration::from_secs(time.load(Relaxed)) + Duration::from_nanos(looked)
            }),
            random: Box::new(move |bytes| bytes.iter_mut().for_each(|byte| *byte = random_byte(&state))),
        };
        let server = Server::new(engine, rpcsec, environment, metrics, tenants);
        Self { server, scratch: Scratch::new(), seconds, looks }
    }

    pub(crate) fn advance(&self, time: Duration) {
        self.seconds.fetch_add(time.as_secs(), Relaxed);
    }

    /// Makes each reading of the clock move it by this time.
    pub(crate) fn move_by_looks(&self, nanoseconds: u64) {
        self.looks.0.store(nanoseconds, Relaxed);
    }

    /// Returns the time of the clock without moving it.
    pub(crate) fn now(&self) -> Duration {
        Duration::from_secs(self.seconds.load(Relaxed)) + Duration::from_nanos(self.looks.1.load(Relaxed))
    }

    /// Sets the time at which the records of the next ticks have arrived.
    pub(crate) fn arrived(&mut self, at: Duration) {
        self.scratch.arrived(at);
    }

    /// Runs one tick with these records.
    pub(crate) fn tick(&mut self, requests: Vec<(ConnectionId, Vec<u8>)>) -> Vec<(ConnectionId, Action)> {
        let mut replies = Vec::new();
        self.tick_into(requests, &mut |connection, action| replies.push((connection, action)));
        replies
    }

    /// Runs one tick with this sink for its results.
    pub(crate) fn tick_into(
        &mut self,
        requests: Vec<(ConnectionId, Vec<u8>)>,
        sink: &mut impl ReplySink<E::Suspended>,
    ) {
        let peer: SocketAddr = ([127, 0, 0, 1], 1023).into();
        let requests = requests.into_iter().map(|(connection, record)| (connection, peer, record));
        self.server.tick(&mut self.scratch, requests, sink);
    }

    /// Returns a deferred call to the server for the next tick.
    pub(crate) fn take_completed(&mut self, completed: CompletedCall) {
        self.server.take_completed(&mut self.scratch, completed);
    }

    /// Sends one record on the usual connection. Returns its reply without the room for the mark,
    /// if any.
    pub(crate) fn answer(&mut self, record: Vec<u8>) -> Option<Vec<u8>> {
        match self.tick(vec![(CONNECTION, record)]).pop() {
            Some((CONNECTION, Action::Send(reply))) => Some(reply[4..].to_vec()),
            _ => None,
        }
    }

    /// Sends one record, and returns whether the only result is a closed connection.
    pub(crate) fn is_closed_by(&mut self, record: Vec<u8>) -> bool {
        self.tick(vec![(CONNECTION, record)]) == [(CONNECTION, Action::Close)]
    }

    pub(crate) fn count(&self, name: &str) -> u64 {
        let counters = self.server.metrics().snapshot();
        counters.into_iter().find(|(counter, _)| *counter == name).expect("a counter").1
    }
}

fn random_byte(state: &AtomicU64) -> u8 {
    let mut x = state.load(Relaxed);
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    state.store(x, Relaxed);
    (x >> 32) as u8
}
