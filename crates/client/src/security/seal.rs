//! Puts heads, proofs and protection around the arguments of calls, many at a time.

use std::sync::Arc;
use std::time::Duration;

use krb5::{MicMessage, MicToken, WRAP_HEADROOM, WrapMessage};
use nfs4::{NFS_V4, NFS4_PROGRAM};
use rpc::gss::{GssCredential, RpcGssProcT, RpcGssServiceT};
use rpc::{CallHeader, OpaqueAuth};
use xdr::{Encode as _, Encoder, padding};

use super::{Expected, GssContext, Incoming, fill_random, open};
use crate::error::Error;
use crate::message::Message;
use crate::raw::RawConnection;
use crate::reply::Body;

/// The head of a call.
#[derive(Clone, Debug)]
pub struct Head {
    /// Transaction.
    pub xid: u32,
    /// Remote program.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// Its procedure.
    pub procedure: u32,
    /// Credential and proof.
    pub protection: Protection,
}

/// How a call proves who makes it.
#[derive(Clone, Debug)]
pub enum Protection {
    /// A credential that needs no proof.
    Plain {
        /// AUTH_NONE, AUTH_SYS, or RPCSEC_GSS while a context is made.
        flavor: u32,
        /// The encoded credential.
        body: Arc<[u8]>,
    },
    /// A context.
    Gss(GssCall),
}

/// What RPCSEC_GSS says about one call. Every field can be set to something wrong.
#[derive(Clone, Debug)]
pub struct GssCall {
    /// The context whose keys are used.
    pub context: Arc<GssContext>,
    /// 1.
    pub gss_version: u32,
    /// RPCSEC_GSS_DATA, or RPCSEC_GSS_DESTROY.
    pub gss_procedure: RpcGssProcT,
    /// The sequence number in the credential.
    pub sequence: u32,
    /// The sequence number in the protected body, which should be the same.
    pub body_sequence: u32,
    /// The service that the credential names.
    pub service: RpcGssServiceT,
    /// The service that the body really has.
    pub body_service: RpcGssServiceT,
    /// Another handle than the context's.
    pub handle: Option<Vec<u8>>,
    /// What is broken on purpose.
    pub damage: Damage,
}

/// What is broken on purpose, for tests of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Damage {
    /// Nothing.
    #[default]
    None,
    /// A bit of the verifier.
    Verifier,
    /// A bit of the body's checksum or token.
    Body,
}

impl GssCall {
    /// A sound call with the next sequence number of `context`.
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

    fn credential(&self) -> Vec<u8> {
        let mut body = Encoder::new();
        let handle = self.handle.as_deref().unwrap_or(self.context.handle());
        let (procedure, sequence, service) = (self.gss_procedure, self.sequence, self.service);
        GssCredential { procedure, sequence, service, handle }.encode(&mut body);
        body.patch_u32(0, self.gss_version);
        body.into_vec()
    }
}

impl Head {
    /// The head of a call of NFSv4.
    pub const fn nfs(xid: u32, procedure: u32, protection: Protection) -> Self {
        Self { xid, program: NFS4_PROGRAM, version: NFS_V4, procedure, protection }
    }

    /// The whole record with its mark.
    ///
    /// # Errors
    /// Only when the system has no random bytes.
    pub fn record(&self, arguments: &[u8]) -> Result<Vec<u8>, Error> {
        let mut message = Message::of(arguments);
        seal(&mut [Outgoing { message: &mut message, head: self }])?;
        Ok(message.record().to_vec())
    }

    /// Makes the call and waits for the results.
    ///
    /// # Errors
    /// [`Error::Timeout`], and all that can be wrong with a reply.
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

    /// The part of the head that the verifier signs.
    fn signed(&self, encoder: &mut Encoder) {
        let target = (self.program, self.version, self.procedure);
        match &self.protection {
            Protection::Plain { flavor, body } => {
                let credential = OpaqueAuth { flavor: *flavor, body };
                CallHeader::encode_signed(encoder, self.xid, target, &credential);
            }
            Protection::Gss(call) => {
                let credential = call.credential();
                CallHeader::encode_signed(encoder, self.xid, target, &OpaqueAuth::gss(&credential));
            }
        }
    }
}

/// A call to be sent.
#[derive(Debug)]
pub struct Outgoing<'a> {
    /// The arguments; afterwards the record.
    pub message: &'a mut Message,
    /// What to put in front.
    pub head: &'a Head,
}

/// What is known of a call on the way through [`seal`].
struct Work {
    signed: Vec<u8>,
    verifier: MicToken,
    checksum: MicToken,
}

/// Makes records of calls. Checksums are computed and bodies encrypted as one batch, because many at once
/// cost much less than one after the other.
pub fn seal(calls: &mut [Outgoing<'_>]) -> Result<(), Error> {
    let mut works: Vec<_> = calls.iter_mut().map(|call| prepare(call)).collect();
    sign(calls, &mut works);
    encrypt(calls, &works)?;
    for (call, work) in calls.iter_mut().zip(&works) {
        finish(call, work);
    }
    Ok(())
}

fn prepare(call: &mut Outgoing<'_>) -> Work {
    let mut signed = Encoder::new();
    call.head.signed(&mut signed);
    let protected = call.head.protected().map(|gss| gss.body_sequence.to_be_bytes());
    call.message.with_prefix(protected.as_ref().map_or(&[], |sequence| sequence));
    Work { signed: signed.into_vec(), verifier: MicToken::EMPTY, checksum: MicToken::EMPTY }
}

impl Head {
    fn gss(&self) -> Option<&GssCall> {
        match &self.protection {
            Protection::Gss(call) => Some(call),
            Protection::Plain { .. } => None,
        }
    }

    /// The call, if its body has a frame.
    fn protected(&self) -> Option<&GssCall> {
        self.gss().filter(|call| call.body_service != RpcGssServiceT::rpc_gss_svc_none)
    }

    fn has_service(&self, service: RpcGssServiceT) -> Option<&GssCall> {
        self.gss().filter(|call| call.body_service == service)
    }
}

fn sign(calls: &[Outgoing<'_>], works: &mut [Work]) {
    let mut batch = Vec::with_capacity(calls.len() * 2);
    for (call, work) in calls.iter().zip(works.iter()) {
        let Some(gss) = call.head.gss() else { continue };
        let keys = gss.context.keys();
        let mic =
            |data| MicMessage { keys, sequence: gss.context.next_token(), data, token: MicToken::EMPTY };
        batch.push(mic(&work.signed));
        if call.head.has_service(RpcGssServiceT::rpc_gss_svc_integrity).is_some() {
            batch.push(mic(call.message.body()));
        }
    }
    krb5::get_mic(&mut batch);
    let tokens: Vec<_> = batch.into_iter().map(|message| message.token).collect();
    let mut tokens = tokens.into_iter();
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

fn encrypt(calls: &mut [Outgoing<'_>], works: &[Work]) -> Result<(), Error> {
    let mut batch = Vec::new();
    for (call, work) in calls.iter_mut().zip(works) {
        let Some(gss) = call.head.has_service(RpcGssServiceT::rpc_gss_svc_privacy) else { continue };
        let keys = gss.context.keys();
        let head = with_verifier(&work.signed, call.head, &work.verifier);
        let spare = keys.wrap_trailer_len() + 4;
        let (buffer, at) = call.message.begin_encrypted(&head, 4 + WRAP_HEADROOM, spare);
        let sequence = gss.context.next_token();
        batch.push(WrapMessage { keys, sequence, confounder: [0; 16], buffer, start: at + 4 });
    }
    if batch.is_empty() {
        return Ok(());
    }
    let mut random = vec![0; batch.len() * 16];
    fill_random(&mut random)?;
    for (message, bytes) in batch.iter_mut().zip(random.as_chunks().0) {
        message.confounder = *bytes;
    }
    krb5::wrap(&mut batch);
    for message in batch {
        let length = message.buffer.len() - message.start;
        let at = message.start - 4;
        let mut encoder = Encoder::from_vec(std::mem::take(message.buffer));
        encoder.patch_u32(at, length as u32);
        encoder.pad(length);
        *message.buffer = encoder.into_vec();
    }
    Ok(())
}

/// The head up to the arguments.
fn with_verifier(signed: &[u8], head: &Head, verifier: &MicToken) -> Vec<u8> {
    let mut encoder = Encoder::from_vec(Vec::with_capacity(signed.len() + 64));
    encoder.raw(signed);
    match head.gss() {
        None => OpaqueAuth::NONE.encode(&mut encoder),
        Some(call) => {
            let mut bytes = verifier.to_vec();
            if call.damage == Damage::Verifier {
                flip_last_bit(&mut bytes);
            }
            OpaqueAuth::gss(&bytes).encode(&mut encoder);
        }
    }
    encoder.into_vec()
}

fn flip_last_bit(bytes: &mut [u8]) {
    if let Some(last) = bytes.last_mut() {
        *last ^= 1;
    }
}

fn finish(call: &mut Outgoing<'_>, work: &Work) {
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
        let mut checksum = work.checksum.to_vec();
        if damaged {
            flip_last_bit(&mut checksum);
        }
        let mut trailer = Encoder::from_vec(Vec::with_capacity(64));
        trailer.raw(&[0; 3][..padding(length)]).opaque(&checksum);
        call.message.append(trailer.as_slice());
        call.message.prepend(&(length as u32).to_be_bytes());
    }
    let head = with_verifier(&work.signed, call.head, &work.verifier);
    call.message.prepend(&head);
    call.message.finish();
}
