//! An RPCSEC_GSS context (RFC 2203): established, shared by all connections and threads, destroyed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gss::{Established, Initiator, Step};
use krb5::ContextKeys;
use nfs4::{NFS_V4, NFS4_PROGRAM, NFSPROC4_NULL};
use rpc::gss::{GSS_S_COMPLETE, GssCredential as WireCredential, InitRes, RpcGssProcT, RpcGssServiceT};
use rpc::{AuthFlavor, MAXSEQ, OpaqueAuth, ReplyHeader};
use xdr::{Decode as _, Decoder, Encode as _, Encoder};

use super::{GssCall, Head, Protection, random};
use crate::error::{Error, ProtectionError, RpcError};
use crate::options::GssCredential;
use crate::raw::RawConnection;

/// GSS_S_CONTINUE_NEEDED (RFC 2744 section 3.9.1).
const GSS_S_CONTINUE_NEEDED: u32 = 1;

/// A context is renewed when fewer sequence numbers are left, so that calls in flight still fit.
const SEQUENCES_LEFT_MIN: u32 = 1 << 16;

/// A context is renewed this long before it expires, or when half of a shorter life is over: a new
/// context expires with the same ticket.
const RENEW_BEFORE: Duration = Duration::from_secs(30);

/// A context lives at least this long, even if its ticket expires at once.
const LIFE_MIN: Duration = Duration::from_secs(1);

/// An established RPCSEC_GSS context.
pub struct GssContext {
    keys: ContextKeys,
    handle: Vec<u8>,
    window: u32,
    principal: String,
    next_sequence: AtomicU32,
    next_token: AtomicU64,
    expires: Option<Instant>,
    /// The time of the renewal, because the life ends.
    renew_at: Option<Instant>,
}

impl std::fmt::Debug for GssContext {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("GssContext")
            .field("principal", &self.principal)
            .field("window", &self.window)
            .finish_non_exhaustive()
    }
}

impl GssContext {
    /// Establishes a context with RPCSEC_GSS_INIT and as many RPCSEC_GSS_CONTINUE_INIT as
    /// necessary.
    ///
    /// # Errors
    /// [`Error::Gss`] if Kerberos fails on this side, [`Error::Protection`] if the server refuses
    /// or its verifier is wrong, and any transport error.
    pub fn establish(
        connection: &mut RawConnection,
        credential: &GssCredential,
        timeout: Duration,
    ) -> Result<Arc<Self>, Error> {
        GssInitiation::new(credential)?.establish(connection, timeout)
    }

    /// Checks that the verifier of the last reply is the MIC of the window (RFC 2203 section
    /// 5.2.3.1).
    fn finish(established: Established, verifier: &[u8], result: &InitRes<'_>) -> Result<Self, Error> {
        let window = result.seq_window.to_be_bytes();
        established.keys.verify(&window, verifier).map_err(|_| ProtectionError::Verifier)?;
        Ok(Self::new(established, result.handle.to_vec(), result.seq_window))
    }

    /// Returns a context whose token exchange was completed elsewhere.
    pub fn new(established: Established, handle: Vec<u8>, window: u32) -> Self {
        let (now, lifetime) = (Instant::now(), established.lifetime);
        let life = lifetime - RENEW_BEFORE.min(lifetime / 2);
        Self {
            keys: established.keys,
            handle,
            window,
            principal: established.principal,
            next_sequence: AtomicU32::new(1),
            next_token: AtomicU64::new(established.send_sequence),
            expires: now.checked_add(lifetime),
            renew_at: now.checked_add(life.max(LIFE_MIN)),
        }
    }

    /// Destroys the context at the server with RPCSEC_GSS_DESTROY (RFC 2203 section 5.4).
    ///
    /// # Errors
    /// The server's refusal and any transport error.
    pub fn destroy(self: &Arc<Self>, connection: &mut RawConnection, timeout: Duration) -> Result<(), Error> {
        let mut call = GssCall::new(self.clone(), RpcGssServiceT::rpc_gss_svc_none);
        call.gss_procedure = RpcGssProcT::RPCSEC_GSS_DESTROY;
        let head = Head::nfs(u32::from_be_bytes(random()?), NFSPROC4_NULL, Protection::Gss(call));
        head.call(connection, &[], timeout).map(drop)
    }

    /// Returns the keys of both directions.
    pub const fn keys(&self) -> &ContextKeys {
        &self.keys
    }

    /// Returns the server's handle of the context.
    pub fn handle(&self) -> &[u8] {
        &self.handle
    }

    /// Returns the number of sequence numbers that may be outstanding.
    pub const fn window(&self) -> u32 {
        self.window
    }

    /// Returns the server's principal.
    pub fn principal(&self) -> &str {
        &self.principal
    }

    /// Takes the next sequence number.
    pub fn next_sequence(&self) -> u32 {
        self.next_sequence.fetch_add(1, Ordering::Relaxed)
    }

    /// Sets the next sequence number, for tests of the server's window.
    pub fn set_next_sequence(&self, next: u32) {
        self.next_sequence.store(next, Ordering::Relaxed);
    }

    /// Takes the next sequence number of tokens (RFC 4121 section 4.2.1).
    pub(crate) fn next_token(&self) -> u64 {
        self.next_token.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns whether a new context should replace this one, because its sequence numbers or its
    /// lifetime are nearly exhausted.
    pub fn is_worn(&self, now: Instant) -> bool {
        let next = self.next_sequence.load(Ordering::Relaxed);
        next >= MAXSEQ - SEQUENCES_LEFT_MIN || self.renew_at.is_some_and(|renew_at| now >= renew_at)
    }

    /// Returns the expiry time; `None` if it is beyond the range of the clock.
    pub const fn expires(&self) -> Option<Instant> {
        self.expires
    }
}

/// A context before its first message to the server.
pub(crate) struct GssInitiation {
    initiator: Initiator,
    token: Vec<u8>,
    service: RpcGssServiceT,
}

impl GssInitiation {
    /// Makes the first token, which needs a valid ticket.
    pub(crate) fn new(credential: &GssCredential) -> Result<Self, Error> {
        let mut initiator = Initiator::new(&credential.target, &credential.credential)?;
        let Step::Send(token) = initiator.step(None)? else {
            return Err(ProtectionError::OutOfStep.into());
        };
        Ok(Self { initiator, token, service: credential.service })
    }

    /// Exchanges tokens with the server until there is a context.
    pub(crate) fn establish(
        self,
        connection: &mut RawConnection,
        timeout: Duration,
    ) -> Result<Arc<GssContext>, Error> {
        let Self { mut initiator, mut token, service } = self;
        let mut handle = Vec::new();
        loop {
            let procedure = if handle.is_empty() {
                RpcGssProcT::RPCSEC_GSS_INIT
            } else {
                RpcGssProcT::RPCSEC_GSS_CONTINUE_INIT
            };
            let reply = exchange_token(connection, procedure, service, &handle, &token, timeout)?;
            let (verifier, result) = read_result(&reply)?;
            match (result.gss_major, initiator.step(Some(result.gss_token))?) {
                (GSS_S_COMPLETE, Step::Done(established)) => {
                    return GssContext::finish(*established, &verifier, &result).map(Arc::new);
                }
                (GSS_S_CONTINUE_NEEDED, Step::Send(next)) => {
                    token = next;
                    handle = result.handle.to_vec();
                }
                _ => return Err(ProtectionError::OutOfStep.into()),
            }
        }
    }
}

/// Sends one token in the arguments of a NULL call (RFC 2203 section 5.2.2).
fn exchange_token(
    connection: &mut RawConnection,
    procedure: RpcGssProcT,
    service: RpcGssServiceT,
    handle: &[u8],
    token: &[u8],
    timeout: Duration,
) -> Result<Vec<u8>, Error> {
    let mut body = Encoder::new();
    WireCredential { procedure, sequence: 0, service, handle }.encode(&mut body);
    let protection =
        Protection::Plain { flavor: AuthFlavor::RPCSEC_GSS as u32, body: body.into_vec().into() };
    let mut arguments = Encoder::new();
    arguments.opaque(token);
    let xid = u32::from_be_bytes(random()?);
    let head = Head { xid, program: NFS4_PROGRAM, version: NFS_V4, procedure: NFSPROC4_NULL, protection };
    let record = head.record(arguments.as_slice())?;
    connection.exchange(record.get(4..).unwrap_or_default(), timeout)
}

/// Extracts the verifier and the result from a reply to INIT; a refusal becomes an error.
fn read_result(reply: &[u8]) -> Result<(Vec<u8>, InitRes<'_>), Error> {
    let (verifier, results_at) = match ReplyHeader::parse(reply).map_err(RpcError::from)? {
        ReplyHeader::Denied { why, .. } => return Err(RpcError::from(why).into()),
        ReplyHeader::Accepted { verifier, status: rpc::Accepted::Success, results_at, .. } => {
            (verifier, results_at)
        }
        ReplyHeader::Accepted { status, .. } => return Err(RpcError::NotExecuted(status.status()).into()),
    };
    let OpaqueAuth { body, .. } = verifier;
    let mut decoder = Decoder::new(reply.get(results_at..).unwrap_or_default());
    let result = InitRes::decode(&mut decoder)?;
    if !matches!(result.gss_major, GSS_S_COMPLETE | GSS_S_CONTINUE_NEEDED) {
        let (major, minor) = (result.gss_major, result.gss_minor);
        return Err(ProtectionError::Refused { major, minor }.into());
    }
    Ok((body.to_vec(), result))
}
