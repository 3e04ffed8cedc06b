//! A server's state and clients that use it the way real ones do.

use super::shared::{Shared, TestState};
use crate::*;
use nfs4::{Nfsstat4, Sessionid4, Stateid4};
use rng::SplitMix64;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::LazyLock;
use std::time::Duration;

/// The state with its clock.
pub(super) struct World {
    pub(super) state: Shared,
    pub(super) now: Duration,
    random: SplitMix64,
}

/// A client with one session, one user and one connection.
#[derive(Clone)]
pub(super) struct TestClient {
    pub(super) name: Vec<u8>,
    pub(super) verifier: [u8; 8],
    pub(super) principal: Principal,
    pub(super) protection: Protection,
    pub(super) connection: u64,
    pub(super) address: IpAddr,
    pub(super) protect: StateProtect,
    pub(super) clientid: u64,
    pub(super) sequenceid: u32,
    pub(super) sessionid: Sessionid4,
    /// The next sequence id of slot 0.
    pub(super) slot: u32,
}

pub(super) const CHANNEL: ChannelAttrs = ChannelAttrs {
    header_pad_size: 0,
    request_size: 1 << 20,
    response_size: 1 << 20,
    response_cached: 2048,
    operations: 16,
    requests: 8,
};

pub(super) fn boot(epoch: u32, prior: &[&[u8]]) -> Boot {
    let principal = Some(hash_of(&TestClient::new("").caller()));
    let prior = prior.iter().map(|owner| PriorClient { owner: owner.to_vec(), principal });
    Boot { epoch, hash_key: [7; 16], principal_key: PRINCIPAL_KEY, prior_clients: prior.collect() }
}

pub(super) const PRINCIPAL_KEY: [u8; 16] = [3; 16];

/// Returns the recorded hash of this caller's clients.
pub(super) fn hash_of(caller: &Caller<'_>) -> PrincipalHash {
    PrincipalHash::of(&PRINCIPAL_KEY, caller)
}

/// The effect that a client of the usual principal is recorded.
pub(super) fn recorded(owner: impl Into<Vec<u8>>) -> Effect {
    Effect::RecordClient { owner: owner.into(), principal: hash_of(&TestClient::new("").caller()) }
}

/// Returns the caller that uses clients of other tests.
pub(super) fn root() -> Caller<'static> {
    static ROOT: LazyLock<Principal> = LazyLock::new(|| Principal::new("sys:0"));
    Caller { connection: 1, address: ADDRESS, principal: &ROOT, protection: Protection::None }
}

/// Where clients are unless a test says otherwise.
pub(super) const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// Returns a caller whose share does not matter.
pub(super) fn anyone() -> Caller<'static> {
    static PRINCIPAL: LazyLock<Principal> = LazyLock::new(|| Principal::new("sys:0"));
    Caller { connection: 1, address: ADDRESS, principal: &PRINCIPAL, protection: Protection::None }
}

impl World {
    pub(super) fn new() -> Self {
        Self::with(Limits::default(), boot(1, &[]))
    }

    pub(super) fn with(limits: Limits, boot: Boot) -> Self {
        Self::with_state(limits, boot, |state| state)
    }

    /// As [`World::with`], after a change of the state.
    pub(super) fn with_state(
        limits: Limits,
        boot: Boot,
        change: impl FnOnce(TestState) -> TestState,
    ) -> Self {
        let now = Duration::from_secs(1000);
        let state = change(State::new(limits, boot, now));
        Self { state: Shared::new(state), now, random: SplitMix64(0) }
    }

    /// Lets only some files be shared with other servers.
    pub(super) fn with_shared(mut self, is_shared: fn(&u32) -> bool) -> Self {
        let state = State::new(Limits::default(), boot(1, &[]), self.now);
        self.state = Shared::new(state.with_shared(is_shared));
        self
    }

    /// Returns the state for several threads, which collect the effects of their calls.
    pub(super) fn shared(&self) -> &TestState {
        &self.state
    }

    pub(super) fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    pub(super) fn random(&mut self) -> u64 {
        self.random.draw()
    }

    /// A client that has done everything up to and with RECLAIM_COMPLETE.
    pub(super) fn ready(&mut self, name: &str) -> TestClient {
        let mut client = TestClient::new(name);
        self.mount(&mut client);
        let key = self.key(&client);
        self.state.reclaim_complete(self.now, key, false).unwrap();
        client
    }

    /// Runs EXCHANGE_ID and CREATE_SESSION.
    pub(super) fn mount(&mut self, client: &mut TestClient) {
        self.exchange_id(client, 0).unwrap();
        self.create_session(client).unwrap();
    }

    pub(super) fn exchange_id(&mut self, client: &mut TestClient, flags: u32) -> Result<ExchangeIdOk> {
        let random = self.random();
        let args =
            ExchangeId { owner: &client.name, verifier: client.verifier, flags, protect: client.protect };
        let ok = self.state.exchange_id(self.now, &client.caller(), &args, random)?;
        (client.clientid, client.sequenceid) = (ok.clientid, ok.sequenceid);
        Ok(ok)
    }

    pub(super) fn create_session(&mut self, client: &mut TestClient) -> Result<CreateSessionOk> {
        let random = self.random();
        let ok = self.state.create_session(self.now, &client.caller(), &client.create_args(), random)?;
        client.sequenceid = client.sequenceid.wrapping_add(1);
        (client.sessionid, client.slot) = (ok.sessionid, 1);
        Ok(ok)
    }

    pub(super) fn sequence(&mut self, client: &TestClient, args: Sequence) -> Result<Sequenced> {
        self.state.sequence(self.now, &client.caller(), &args)
    }

    /// Begins a COMPOUND on slot 0.
    pub(super) fn begin(&mut self, client: &mut TestClient) -> Begun {
        let sequenced = self.sequence(client, client.args());
        let Ok(Sequenced::Execute(begun)) = sequenced else { panic!("refused: {sequenced:?}") };
        client.slot = client.slot.wrapping_add(1);
        begun
    }

    /// A COMPOUND of nothing but SEQUENCE: renews the lease.
    pub(super) fn renew(&mut self, client: &mut TestClient) {
        let begun = self.begin(client);
        self.state.sessions().finish(begun.token, None);
    }

    pub(super) fn key(&self, client: &TestClient) -> ClientKey {
        self.state.sessions().client_of_session(&client.sessionid).unwrap()
    }

    pub(super) fn open(
        &mut self,
        client: &TestClient,
        owner: &str,
        file: u32,
        access: u32,
        deny: u32,
    ) -> Result<Stateid4> {
        self.open_as(client, owner, file, access, deny, OpenClaim::New)
    }

    pub(super) fn open_as(
        &mut self,
        client: &TestClient,
        owner: &str,
        file: u32,
        access: u32,
        deny: u32,
        claim: OpenClaim,
    ) -> Result<Stateid4> {
        let key = self.key(client);
        let caller = client.caller();
        let request = OpenRequest {
            owner: owner.as_bytes(),
            file: &file,
            access,
            deny,
            claim,
            opener: caller,
            truncates: false,
        };
        let make_room = || {
            self.state.with(|state, effects| state.clients().make_room_for_open(self.now, &caller, effects))
        };
        let shared = (self.state.is_shared)(&file);
        let opener = Opener { caller: &caller, owner: owner.as_bytes(), claim, shared };
        while let Err(status) = self.state.opens().open_allowed(self.now, key, opener) {
            if status != Nfsstat4::NFS4ERR_NOSPC || !make_room() {
                return Err(status);
            }
        }
        let needed = self.state.open_check(self.now, key, &request)?;
        let payload = self.random();
        match self.state.open(self.now, key, &request, payload, needed)? {
            OpenOutcome::Opened(stateid) => Ok(stateid),
            OpenOutcome::Reopen(_) => panic!("opened with what open_check asked for"),
        }
    }

    pub(super) fn lock(
        &mut self,
        client: &TestClient,
        locker: Locker<'_>,
        file: u32,
        mode: LockMode,
        range: (u64, u64),
    ) -> core::result::Result<Stateid4, LockError> {
        let key = self.key(client);
        let (offset, length) = range;
        let request = Lock { file: &file, mode, waits: true, reclaim: false, offset, length, locker };
        self.state.lock(self.now, key, &request)
    }

    /// How many payloads were closed since the last call.
    pub(super) fn closed(&mut self) -> usize {
        self.state.take_closed().len()
    }

    /// Returns the changes of client records and of the grace period since the last call.
    pub(super) fn records(&mut self) -> Vec<Effect> {
        self.state.take_queued()
    }
}

impl TestClient {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.as_bytes().to_vec(),
            verifier: [1; 8],
            principal: Principal::new("sys:0"),
            protection: Protection::None,
            connection: 1,
            address: ADDRESS,
            protect: StateProtect::None,
            clientid: 0,
            sequenceid: 0,
            sessionid: [0; 16],
            slot: 1,
        }
    }

    /// A Linux client with Kerberos.
    pub(super) fn machine(name: &str) -> Self {
        let must_enforce = [41, 42, 43, 44, 57].into_iter().collect();
        let must_allow = [4, 5, 14, 38].into_iter().collect();
        Self {
            principal: Principal::new(format!("gss:host/{name}@R")),
            protection: Protection::Integrity,
            protect: StateProtect::MachCred { must_enforce, must_allow },
            ..Self::new(name)
        }
    }

    pub(super) fn caller(&self) -> Caller<'_> {
        let Self { connection, address, protection, .. } = *self;
        Caller { connection, address, principal: &self.principal, protection }
    }

    pub(super) fn create_args(&self) -> CreateSession {
        CreateSession {
            clientid: self.clientid,
            sequence: self.sequenceid,
            flags: 2,
            fore: CHANNEL,
            back: CHANNEL,
            minor_version: 1,
            callback_program: 0x4000_0000,
            callback_security: vec![CallbackSecurity::None],
        }
    }

    /// SEQUENCE on slot 0 with the next sequence id.
    pub(super) fn args(&self) -> Sequence {
        Sequence {
            sessionid: self.sessionid,
            sequenceid: self.slot,
            slotid: 0,
            highest_slotid: 0,
            cache_this: true,
            fingerprint: u64::from(self.slot),
            request_size: 200,
            operations: 3,
            reply_min: 100,
        }
    }
}
