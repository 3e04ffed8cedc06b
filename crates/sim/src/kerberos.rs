//! Kerberos without a KDC: tickets with keys from the seed, and the messages of their RPCSEC_GSS
//! contexts (RFC 2203 section 5).
//!
//! The server runs its own acceptor, window and protection. Only the exchange of tickets is
//! simulated.

#![expect(clippy::expect_used, reason = "a simulation that cannot go on ends its seed")]

use crate::rng::Rng;
use crate::trace::digest;
use identity::{Mapped, Mapper, PrincipalError, Rules, StaticSource};
use krb5::{ContextKeys, Enctype, ProtocolKey, Role};
use nfs4::{NFS_V4, NFS4_PROGRAM, NFSPROC4_COMPOUND, NFSPROC4_NULL};
use rpc::gss::{GSS_S_FAILURE, GssCredential, RpcGssProcT, RpcGssServiceT};
use rpc::{Accepted, CallHeader, OpaqueAuth};
use rpcsec::{BodyError, Channel};
use server::rpcsec::{AcceptError, Accepted as AcceptedToken, ContextAcceptor, Identities};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use xdr::{Encode, Encoder};

/// The Kerberos realm of all simulated principals.
const REALM: &str = "SIM";

const ENCTYPES: [Enctype; 4] = [
    Enctype::Aes128CtsHmacSha1_96,
    Enctype::Aes256CtsHmacSha1_96,
    Enctype::Aes128CtsHmacSha256_128,
    Enctype::Aes256CtsHmacSha384_192,
];

/// The local account of a client, for AUTH_SYS and Kerberos alike.
pub(crate) fn uid(host: usize) -> u32 {
    1000 + u32::try_from(host).unwrap_or(0)
}

/// The user name behind that account.
fn user(host: usize) -> String {
    format!("user{host}")
}

/// The Kerberos principal of a client.
pub(crate) fn principal(host: usize) -> String {
    format!("{}@{REALM}", user(host))
}

/// Issues tickets, and accepts them at the server. Both sides derive the session key from the
/// ticket and the key of the realm.
#[derive(Clone, Debug)]
pub(crate) struct SimRealm {
    key: u64,
    lifetime: Duration,
}

impl SimRealm {
    /// Draws the key of the realm. Contexts expire `lifetime` after they are accepted.
    pub(crate) fn new(rng: &mut Rng, lifetime: Duration) -> Self {
        Self { key: rng.next(), lifetime }
    }

    /// Returns the GSS token of a ticket: its checksum, its number, and the principal. Tickets with
    /// different numbers have different session keys.
    pub(crate) fn ticket(&self, principal: &str, number: u64) -> Vec<u8> {
        let body = [&number.to_be_bytes()[..], principal.as_bytes()].concat();
        [&self.checksum(&body).to_be_bytes()[..], &body].concat()
    }

    fn checksum(&self, body: &[u8]) -> u64 {
        digest(&[&self.key.to_be_bytes()[..], body].concat())
    }

    /// Returns the principal of a genuine ticket.
    pub(crate) fn principal_of<'a>(&self, ticket: &'a [u8]) -> Option<&'a str> {
        let (checksum, body) = ticket.split_first_chunk::<8>()?;
        let (_, name) = body.split_first_chunk::<8>()?;
        let name = std::str::from_utf8(name).ok()?;
        (self.checksum(body) == u64::from_be_bytes(*checksum)).then_some(name)
    }

    /// Derives the keys of a context for one of its ends.
    pub(crate) fn keys(&self, ticket: &[u8], role: Role) -> ContextKeys {
        let mut rng = Rng::new(self.key.rotate_left(32) ^ digest(ticket));
        let enctype = ENCTYPES[rng.below(ENCTYPES.len())];
        let key: Vec<u8> = (0..4).flat_map(|_| rng.next().to_be_bytes()).collect();
        ContextKeys::new(enctype, ProtocolKey::AcceptorSubkey(&key[..enctype.key_len()]), role)
            .expect("the length fits the enctype")
    }
}

impl ContextAcceptor for SimRealm {
    fn accept(&self, token: &[u8]) -> Result<AcceptedToken, AcceptError> {
        let message = "the ticket is of another realm".to_owned();
        let refused = AcceptError { major: GSS_S_FAILURE, minor: 0, message, is_temporary: false };
        let principal = self.principal_of(token).ok_or(refused)?.to_owned();
        let keys = self.keys(token, Role::Acceptor);
        let (token, send_sequence) = (b"accepted".to_vec(), 1);
        let delegated_through = Vec::new();
        Ok(AcceptedToken {
            token,
            principal,
            delegated_through,
            keys,
            lifetime: self.lifetime,
            send_sequence,
        })
    }
}

/// The accounts of the site, mapped as the program maps them.
pub(crate) struct UserMap {
    mapper: Mapper,
    /// A deliberate fault: all principals get the account of this one, the first.
    shared: Option<Mutex<Option<String>>>,
}

impl UserMap {
    /// Makes one account for each client. `shares` builds in a fault: all principals get the
    /// account of the first one.
    pub(crate) fn new(clients: usize, shares: bool) -> Self {
        let add = |source: StaticSource, host| source.with_user(&user(host), uid(host), uid(host), &[]);
        let source = (0..clients).fold(StaticSource::default(), add);
        let mapper = Mapper::new(Rules::new("sim.example", REALM), source);
        Self { mapper, shared: shares.then(Mutex::default) }
    }
}

impl Identities for UserMap {
    fn resolve(&self, principal: &str, now: Duration) -> Result<Mapped, PrincipalError> {
        let Some(shared) = &self.shared else { return self.mapper.principal(principal, now) };
        let mut first = shared.lock().unwrap_or_else(PoisonError::into_inner);
        self.mapper.principal(first.get_or_insert_with(|| principal.to_owned()), now)
    }
}

/// One message of a context: the keys of the end that sends or receives it, and its place.
pub(crate) struct GssMessage<'a> {
    /// The keys of this end.
    pub keys: &'a ContextKeys,
    /// The service of the body.
    pub service: RpcGssServiceT,
    /// The sequence number of the call.
    pub sequence: u32,
}

impl GssMessage<'_> {
    fn channel(&self) -> Channel<'_> {
        Channel { keys: self.keys, service: self.service, sequence: self.sequence }
    }

    /// Returns the number of a token. A message has up to two.
    fn token(&self, nth: u64) -> u64 {
        u64::from(self.sequence) << 1 | nth
    }

    /// Appends a body. Sequence numbers stand in for random confounders: they differ within a
    /// context, and contexts have different keys.
    fn body(&self, encoder: &mut Encoder, plain: &[u8]) {
        let confounder = u128::from(self.sequence).to_be_bytes();
        self.channel().seal(
            encoder,
            || self.token(1),
            confounder,
            |encoder| {
                encoder.raw(plain);
            },
        );
    }

    /// Encodes a call with its verifier (RFC 2203 section 5.3.1). Control messages use the NULL
    /// procedure and no service.
    pub(crate) fn call(&self, xid: u32, procedure: RpcGssProcT, handle: &[u8], arguments: &[u8]) -> Vec<u8> {
        let is_data = procedure == RpcGssProcT::RPCSEC_GSS_DATA;
        let target = (NFS4_PROGRAM, NFS_V4, if is_data { NFSPROC4_COMPOUND } else { NFSPROC4_NULL });
        let mut credential = Encoder::new();
        GssCredential { procedure, sequence: self.sequence, service: self.service, handle }
            .encode(&mut credential);
        let mut call = Encoder::new();
        CallHeader::encode_signed(&mut call, xid, target, &OpaqueAuth::gss(credential.as_slice()));
        let verifier = self.keys.mic(self.token(0), call.as_slice());
        OpaqueAuth::gss(&verifier).encode(&mut call);
        self.body(&mut call, arguments);
        call.into_vec()
    }

    /// Encodes a reply with its verifier (section 5.3.3.2).
    pub(crate) fn reply(&self, xid: u32, status: Accepted, results: &[u8]) -> Vec<u8> {
        let verifier = self.keys.mic(self.token(0), &self.sequence.to_be_bytes());
        let mut reply = Encoder::new();
        status.encode(&mut reply, xid, &OpaqueAuth::gss(&verifier));
        if status == Accepted::Success {
            self.body(&mut reply, results);
        }
        reply.into_vec()
    }

    /// Returns whether a reply's verifier is of this call.
    pub(crate) fn is_verified(&self, verifier: &OpaqueAuth<'_>) -> bool {
        self.keys.verify(&self.sequence.to_be_bytes(), verifier.body).is_ok()
    }

    /// Returns the plain body of a record, which begins at `at`.
    pub(crate) fn open(&self, record: &[u8], at: usize) -> Result<Vec<u8>, BodyError> {
        self.channel().open(record, at).map(|body| body.into_owned())
    }
}

/// Encodes the INIT call that brings a ticket (section 5.2.2).
pub(crate) fn init(xid: u32, ticket: &[u8]) -> Vec<u8> {
    let (procedure, service) = (RpcGssProcT::RPCSEC_GSS_INIT, RpcGssServiceT::rpc_gss_svc_none);
    let mut credential = Encoder::new();
    GssCredential { procedure, sequence: 0, service, handle: &[] }.encode(&mut credential);
    let mut call = Encoder::new();
    let target = (NFS4_PROGRAM, NFS_V4, NFSPROC4_NULL);
    CallHeader::encode_signed(&mut call, xid, target, &OpaqueAuth::gss(credential.as_slice()));
    OpaqueAuth::NONE.encode(&mut call);
    call.opaque(ticket);
    call.into_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_ticket_have_the_same_keys_and_other_tickets_have_others() {
        let realm = SimRealm::new(&mut Rng::new(1), Duration::from_secs(60));
        let ticket = realm.ticket(&principal(0), 7);
        let (initiator, acceptor) =
            (realm.keys(&ticket, Role::Initiator), realm.keys(&ticket, Role::Acceptor));
        let mic = initiator.mic(1, b"data");
        assert!(acceptor.verify(b"data", &mic).is_ok());
        let other = realm.keys(&realm.ticket(&principal(0), 8), Role::Acceptor);
        assert!(other.verify(b"data", &mic).is_err());
    }

    #[test]
    fn a_ticket_of_another_realm_or_principal_is_refused() {
        let lifetime = Duration::from_secs(60);
        let (realm, other) =
            (SimRealm::new(&mut Rng::new(1), lifetime), SimRealm::new(&mut Rng::new(2), lifetime));
        let ticket = realm.ticket(&principal(0), 7);
        assert_eq!(realm.accept(&ticket).unwrap().principal, "user0@SIM");
        assert!(other.accept(&ticket).is_err());
        let forged = [&ticket[..16], principal(1).as_bytes()].concat();
        assert!(realm.accept(&forged).is_err());
    }
}
