//! Adds headers, verifiers and protection to the arguments of calls, in batches.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use krb5::{MicMessage, MicToken, WRAP_HEADROOM, WrapMessage};
use nfs4::{NFS_V4, NFS4_PROGRAM};
use rpc::gss::{GssCredential, RpcGssProcT, RpcGssServiceT};
use rpc::{CallHeader, OpaqueAuth};
use xdr::{Encode as _, Encoder, padding};

use super::{Confounders, Expected, GssContext, Incoming, open};
use crate::error::Error;
use crate::message::Message;
use crate::raw::RawConnection;
use crate::reply::Body;

/// The RPC header of a call.
#[derive(Clone, Debug)]
pub struct Head {
    /// Transaction id of the call.
    pub xid: u32,
    /// Number of the remote program.
    pub program: u32,
    /// Version of the program.
    pub version: u32,
    /// Procedure of the program.
    pub procedure: u32,
    /// Credential and verifier of the call.
    pub protection: Protection,
}

/// The credential of a call, and the proof of its caller.
#[derive(Clone, Debug)]
pub enum Protection {
    /// A credential without a verifier.
    Plain {
        /// AUTH_NONE, AUTH_SYS, or RPCSEC_GSS while a context is established.
        flavor: u32,
        /// The encoded body of the credential.
        body: Arc<[u8]>,
    },
    /// A credential of an RPCSEC_GSS context.
    Gss(GssCall),
}

/// The RPCSEC_GSS fields of one call. Tests can set any field to an invalid value.
#[derive(Clone, Debug)]
pub struct GssCall {
    /// The context whose keys are used.
    pub context: Arc<GssContext>,
    /// The RPCSEC_GSS version, normally 1.
    pub gss_version: u32,
    /// RPCSEC_GSS_DATA, or RPCSEC_GSS_DESTROY to end the context.
    pub gss_procedure: RpcGssProcT,
    /// The sequence number in the credential.
    pub sequence: u32,
    /// The sequence number in the protected body, normally the same.
    pub body_sequence: u32,
    /// The service that the credential names.
    pub service: RpcGssServiceT,
    /// The service that actually protects the body.
    pub body_service: RpcGssServiceT,
    /// A handle that replaces the context's.
    pub handle: Option<Vec<u8>>,
    /// The deliberate damage, for tests.
    pub damage: Damage,
}

/// Deliberate damage to a call, for tests of servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Damage {
    /// The call is undamaged.
    #[default]
    None,
    /// Flips a bit of the verifier.
    Verifier,
    /// Flips a bit of the body's checksum or token.
    Body,
}

impl GssCall {
    /// Returns a valid call with the next sequence number of `context`.
    pub fn new(context: Arc<GssContext>, service: RpcGssServiceT) -> Self {
        let sequence = context.next_sequence();
        Self {
            context,
            gss_version: 1,
            gss_procedure: RpcGssProcT::RPCSEC_GSS_DATA,
            sequence,
            body_sequence: sequence,
            service,
            body_service: service,
            handle: None,
            damage: Damage::None,
        }
    }

    fn credential(&self, body: &mut Encoder) {
        body.truncate(0);
        let handle = self.handle.as_deref().unwrap_or(self.context.handle());
        let (procedure, sequence, service) = (self.gss_procedure, self.sequence, self.service);
        GssCredential { procedure, sequence, service, handle }.encode(body);
        body.patch_u32(0, self.gss_version);
    }
}

impl Head {
    /// Returns the header of an NFSv4 call.
    pub const fn nfs(xid: u32, procedure: u32, protection: Protection) -> Self {
        Self { xid, program: NFS4_PROGRAM, version: NFS_V4, procedure, protection }
    }

    /// Builds the whole record with its mark.
    ///
    /// # Errors
    /// Fails only if the system has no random bytes.
    pub fn record(&self, arguments: &[u8]) -> Result<Vec<u8>, Error> {
        let mut calls = [OutgoingCall { message: Message::of(arguments), head: self.clone() }];
        seal(&mut calls, &mut Confounders::default())?;
        let [call] = calls;
        Ok(call.message.record().to_vec())
    }

    /// Sends the call and waits for the results.
    ///
    /// # Errors
    /// [`Error::Timeout`], and every error of a reply.
    pub fn call(
        &self,
        connection: &mut RawConnection,
        arguments: &[u8],
        timeout: Duration,
    ) -> Result<Body, Error> {
        let record = self.record(arguments)?;
        let record = connection.exchange(record.get(4..).unwrap_or_default(), timeout)?;
        let mut incoming = [Incoming::new(record, Expected::of(&self.protection))];
        open(&mut incoming);
        let [incoming] = incoming;
        incoming.into_body()
    }

    /// Appends the part of the header that the verifier signs; `scratch` holds the credential.
    fn signed(&self, encoder: &mut Encoder, scratch: &mut Encoder) {
        let target = (self.program, self.version, self.procedure);
        match &self.protection {
            Protection::Plain { flavor, body } => {
                let credential = OpaqueAuth { flavor: *flavor, body };
                CallHeader::encode_signed(encoder, self.xid, target, &credential);
            }
            Protection::Gss(call) => {
                call.credential(scratch);
                CallHeader::encode_signed(encoder, self.xid, target, &OpaqueAuth::gss(scratch.as_slice()));
            }
        }
    }
}

/// A call to be sealed.
#[derive(Debug)]
pub(crate) struct OutgoingCall {
    /// The arguments before sealing, the record afterwards.
    pub message: Message,
    /// The header to prepend.
    pub head: Head,
}

/// The intermediate state of one call in [`seal`].
struct SealState {
    /// Range of the call's signed header in the buffer of all headers.
    signed: Range<usize>,
    verifier: MicToken,
    checksum: MicToken,
}

/// Initial capacity for the signed part of a header, in bytes.
const HEAD_CAPACITY: usize = 128;

/// Seals calls into records. Checksums and encryption run as one batch, which costs much less than
/// call by call.
pub(crate) fn seal(calls: &mut [OutgoingCall], confounders: &mut Confounders) -> Result<(), Error> {
    let mut heads = Encoder::from_vec(Vec::with_capacity(calls.len() * HEAD_CAPACITY));
    let mut scratch = Encoder::from_vec(Vec::with_capacity(2 * HEAD_CAPACITY));
    let mut works = Vec::with_capacity(calls.len());
    works.extend(calls.iter_mut().map(|call| prepare(call, &mut heads, &mut scratch)));
    let heads = heads.into_vec();
    sign(calls, &mut works, &heads);
    encrypt(calls, &works, &heads, &mut scratch, confounders)?;
    for (call, work) in calls.iter_mut().zip(&works) {
        finish(call, work, &heads, &mut scratch);
    }
    Ok(())
}

fn prepare(call: &mut OutgoingCall, heads: &mut Encoder, scratch: &mut Encoder) -> SealState {
    let start = heads.len();
    call.head.signed(heads, scratch);
    let protected = call.head.protected().map(|gss| gss.body_sequence.to_be_bytes());
    call.message.with_prefix(protected.as_ref().map_or(&[], |sequence| sequence));
    SealState { signed: start..heads.len(), verifier: MicToken::EMPTY, checksum: MicToken::EMPTY }
}

impl SealState {
    fn signed<'a>(&self, heads: &'a [u8]) -> &'a [u8] {
        heads.get(self.signed.clone()).unwrap_or_default()
    }
}

impl Head {
    fn gss(&self) -> Option<&GssCall> {
        match &self.protection {
            Protection::Gss(call) => Some(call),
            Protection::Plain { .. } => None,
        }
    }

    /// Returns the call if its body is wrapped.
    fn protected(&self) -> Option<&GssCall> {
        self.gss().filter(|call| call.body_service != RpcGssServiceT::rpc_gss_svc_none)
    }

    fn has_service(&self, service: RpcGssServiceT) -> Option<&GssCall> {
        self.gss().filter(|call| call.body_service == service)
    }
}

fn sign(calls: &[OutgoingCall], works: &mut [SealState], heads: &[u8]) {
    if !calls.iter().any(|call| call.head.gss().is_some()) {
        return;
    }
    let mut batch = Vec::with_capacity(calls.len() * 2);
    for (call, work) in calls.iter().zip(works.iter()) {
        let Some(gss) = call.head.gss() else { continue };
        let keys = gss.context.keys();
        let mic =
            |data| MicMessage { keys, sequence: gss.context.next_token(), data, token: MicToken::EMPTY };
        batch.push(mic(work.signed(heads)));
        if call.head.has_service(RpcGssServiceT::rpc_gss_svc_integrity).is_some() {
            batch.push(mic(call.message.body()));
        }
    }
    krb5::get_mic(&mut batch);
    let mut tokens = batch.into_iter().map(|message| message.token);
    for (call, work) in calls.iter().zip(works) {
        if call.head.gss().is_none() {
            continue;
        }
        work.verifier = tokens.next().unwrap_or_default();
        if call.head.has_service(RpcGssServiceT::rpc_gss_svc_integrity).is_some() {
            work.checksum = tokens.next().unwrap_or_default();
        }
    }
}

fn encrypt(
    calls: &mut [OutgoingCall],
    works: &[SealState],
    heads: &[u8],
    scratch: &mut Encoder,
    confounders: &mut Confounders,
) -> Result<(), Error> {
    let mut batch = Vec::with_capacity(calls.len());
    for (call, work) in calls.iter_mut().zip(works) {
        let Some(gss) = call.head.has_service(RpcGssServiceT::rpc_gss_svc_privacy) else { continue };
        let keys = gss.context.keys();
        scratch.truncate(0);
        scratch.raw(work.signed(heads));
        verifier(&call.head, &work.verifier, scratch);
        let spare = keys.wrap_trailer_len() + 4;
        let (buffer, at) = call.message.begin_encrypted(scratch.as_slice(), 4 + WRAP_HEADROOM, spare);
        let sequence = gss.context.next_token();
        buffer.resize(buffer.len() + keys.wrap_trailer_len(), 0);
        let (front, token) = buffer.split_at_mut(at + 4);
        // XDR prefixes the token with its length.
        if let Some(length) = front.last_chunk_mut() {
            *length = (token.len() as u32).to_be_bytes();
        }
        batch.push(WrapMessage { keys, sequence, confounder: confounders.next()?, token: token.into() });
    }
    if batch.is_empty() {
        return Ok(());
    }
    krb5::wrap(&mut batch);
    for call in calls.iter_mut() {
        if call.head.has_service(RpcGssServiceT::rpc_gss_svc_privacy).is_some() {
            call.message.pad_encrypted();
        }
    }
    Ok(())
}

/// Appends the verifier of a call.
fn verifier(head: &Head, verifier: &MicToken, encoder: &mut Encoder) {
    let Some(call) = head.gss() else { return OpaqueAuth::NONE.encode(encoder) };
    if call.damage == Damage::Verifier {
        let mut bytes = verifier.to_vec();
        flip_last_bit(&mut bytes);
        return OpaqueAuth::gss(&bytes).encode(encoder);
    }
    OpaqueAuth::gss(verifier).encode(encoder);
}

fn flip_last_bit(bytes: &mut [u8]) {
    if let Some(last) = bytes.last_mut() {
        *last ^= 1;
    }
}

fn finish(call: &mut OutgoingCall, work: &SealState, heads: &[u8], scratch: &mut Encoder) {
    let damaged = call.head.gss().is_some_and(|gss| gss.damage == Damage::Body);
    if call.head.has_service(RpcGssServiceT::rpc_gss_svc_privacy).is_some() {
        if damaged {
            flip_last_bit(call.message.encrypted_mut());
        }
        call.message.finish();
        return;
    }
    if call.head.has_service(RpcGssServiceT::rpc_gss_svc_integrity).is_some() {
        let length = call.message.body().len();
        scratch.truncate(0);
        scratch.raw(&[0; 3][..padding(length)]).opaque(&work.checksum);
        if damaged {
            // A token is a whole number of XDR units, so its last bit is not padding.
            flip_last_bit(scratch.as_mut_vec());
        }
        call.message.append(scratch.as_slice());
        call.message.prepend(&(length as u32).to_be_bytes());
    }
    scratch.truncate(0);
    verifier(&call.head, &work.verifier, scratch);
    call.message.prepend(scratch.as_slice());
    call.message.prepend(work.signed(heads));
    call.message.finish();
}
