//! The client's side: makes calls, valid or not, and checks replies as a client would.

use crate::server::{Host, KEY, token};
use krb5::{ContextKeys, Enctype, ProtocolKey, Role, Segments, UnwrapMessage, WRAP_HEADROOM, WrapMessage};
use orthrus_server::dispatch::Engine;
use rpc::gss::{self, GssCredential, InitRes, RPCSEC_GSS_VERS_1, RpcGssProcT, RpcGssServiceT};
use rpc::{Accepted, CallHeader, Denied, OpaqueAuth, ReplyHeader};
use xdr::{Decode, Decoder, Encode, Encoder};

pub(crate) use RpcGssServiceT::{
    rpc_gss_svc_integrity as INTEGRITY, rpc_gss_svc_none as NONE, rpc_gss_svc_privacy as PRIVACY,
};

pub(crate) const SERVICES: [RpcGssServiceT; 3] = [NONE, INTEGRITY, PRIVACY];

pub(crate) const ENCTYPES: [Enctype; 4] = [
    Enctype::Aes128CtsHmacSha1_96,
    Enctype::Aes256CtsHmacSha1_96,
    Enctype::Aes128CtsHmacSha256_128,
    Enctype::Aes256CtsHmacSha384_192,
];

/// Program, version and procedure of NFSv4 COMPOUND.
pub(crate) const COMPOUND: (u32, u32, u32) = (100_003, 4, 1);

/// Program, version and procedure of NFSv4 NULL.
pub(crate) const NULL: (u32, u32, u32) = (100_003, 4, 0);

/// The parts of a call, each of which a test may falsify.
#[derive(Clone)]
pub(crate) struct CallParts {
    pub target: (u32, u32, u32),
    pub version: u32,
    pub procedure: RpcGssProcT,
    pub sequence: u32,
    /// The sequence number inside the body.
    pub body_sequence: u32,
    pub service: RpcGssServiceT,
    pub handle: Vec<u8>,
    pub arguments: Vec<u8>,
}

/// An established context at the client.
pub(crate) struct Client {
    pub keys: ContextKeys,
    pub handle: Vec<u8>,
    pub window: u32,
    pub sequence: u32,
}

pub(crate) fn encoded(value: &impl Encode) -> Vec<u8> {
    let mut encoder = Encoder::new();
    value.encode(&mut encoder);
    encoder.into_vec()
}

/// Makes a call with any credential and verifier.
pub(crate) fn plain_call(
    xid: u32,
    target: (u32, u32, u32),
    credential: &OpaqueAuth<'_>,
    verifier: &OpaqueAuth<'_>,
    arguments: &[u8],
) -> Vec<u8> {
    let mut encoder = Encoder::new();
    CallHeader::encode_signed(&mut encoder, xid, target, credential);
    verifier.encode(&mut encoder);
    encoder.raw(arguments);
    encoder.into_vec()
}

/// Makes an INIT call with this token.
pub(crate) fn init_call(token: &[u8]) -> Vec<u8> {
    let credential =
        GssCredential { procedure: RpcGssProcT::RPCSEC_GSS_INIT, sequence: 0, service: NONE, handle: &[] };
    let mut arguments = Encoder::new();
    arguments.opaque(token);
    plain_call(1, NULL, &OpaqueAuth::gss(&encoded(&credential)), &OpaqueAuth::NONE, arguments.as_slice())
}

pub(crate) fn accepted(reply: &[u8]) -> (OpaqueAuth<'_>, Accepted, &[u8]) {
    match ReplyHeader::parse(reply) {
        Ok(ReplyHeader::Accepted { verifier, status, results_at, .. }) => {
            (verifier, status, &reply[results_at..])
        }
        other => panic!("not accepted: {other:?}"),
    }
}

pub(crate) fn denied(reply: &[u8]) -> Denied {
    match ReplyHeader::parse(reply) {
        Ok(ReplyHeader::Denied { why, .. }) => why,
        other => panic!("not denied: {other:?}"),
    }
}

impl Client {
    /// Creates a context at the server and checks the reply.
    pub(crate) fn establish<E: Engine>(host: &mut Host<E>, enctype: Enctype, principal: &str) -> Self {
        let reply = host.answer(init_call(&token(enctype, principal))).expect("an answer");
        Self::from_reply(&reply, enctype)
    }

    pub(crate) fn from_reply(reply: &[u8], enctype: Enctype) -> Self {
        let keys = ContextKeys::new(
            enctype,
            ProtocolKey::AcceptorSubkey(&KEY[..enctype.key_len()]),
            Role::Initiator,
        )
        .unwrap();
        let (verifier, status, results) = accepted(reply);
        assert_eq!(status, Accepted::Success);
        let result = InitRes::decode(&mut Decoder::new(results)).unwrap();
        assert_eq!(result.gss_major, gss::GSS_S_COMPLETE);
        assert_eq!(result.gss_token, b"reply token");
        keys.verify(&result.seq_window.to_be_bytes(), verifier.body)
            .expect("the verifier is the MIC of the window");
        Self { keys, handle: result.handle.to_vec(), window: result.seq_window, sequence: 0 }
    }

    /// Makes the parts of a valid call with the next sequence number.
    pub(crate) fn parts(&mut self, service: RpcGssServiceT, arguments: &[u8]) -> CallParts {
        self.sequence += 1;
        CallParts {
            target: COMPOUND,
            version: RPCSEC_GSS_VERS_1,
            procedure: RpcGssProcT::RPCSEC_GSS_DATA,
            sequence: self.sequence,
            body_sequence: self.sequence,
            service,
            handle: self.handle.clone(),
            arguments: arguments.to_vec(),
        }
    }

    pub(crate) fn call(&mut self, service: RpcGssServiceT, arguments: &[u8]) -> Vec<u8> {
        let parts = self.parts(service, arguments);
        self.sign(&parts)
    }

    pub(crate) fn destroy(&mut self) -> CallParts {
        CallParts { target: NULL, procedure: RpcGssProcT::RPCSEC_GSS_DESTROY, ..self.parts(NONE, &[]) }
    }

    /// Encodes a call: signed, its body protected according to its service.
    pub(crate) fn sign(&self, parts: &CallParts) -> Vec<u8> {
        let credential = GssCredential {
            procedure: parts.procedure,
            sequence: parts.sequence,
            service: parts.service,
            handle: &parts.handle,
        };
        let mut credential = encoded(&credential);
        credential[..4].copy_from_slice(&parts.version.to_be_bytes());
        let mut encoder = Encoder::new();
        CallHeader::encode_signed(&mut encoder, parts.sequence, parts.target, &OpaqueAuth::gss(&credential));
        let mic = self.keys.mic(77, encoder.as_slice());
        OpaqueAuth::gss(&mic).encode(&mut encoder);
        self.protect(parts, &mut encoder);
        encoder.into_vec()
    }

    fn protect(&self, parts: &CallParts, encoder: &mut Encoder) {
        if parts.procedure != RpcGssProcT::RPCSEC_GSS_DATA || parts.service == NONE {
            encoder.raw(&parts.arguments);
            return;
        }
        let content = [&parts.body_sequence.to_be_bytes()[..], &parts.arguments].concat();
        if parts.service == INTEGRITY {
            let mic = self.keys.mic(78, &content);
            encoder.opaque(&content).opaque(&mic);
        } else {
            encoder.opaque(&self.wrap(&content));
        }
    }

    pub(crate) fn wrap(&self, content: &[u8]) -> Vec<u8> {
        let (keys, confounder) = (&self.keys, [3; 16]);
        let mut buffer = [&[0; WRAP_HEADROOM], content, &vec![0; keys.wrap_trailer_len()]].concat();
        let token = Segments::from(&mut buffer);
        krb5::wrap(&mut [WrapMessage { keys, sequence: 79, confounder, token }]);
        buffer
    }

    /// Checks a successful reply to a call and returns its results.
    pub(crate) fn open(&self, reply: &[u8], sequence: u32, service: RpcGssServiceT) -> Vec<u8> {
        let (verifier, status, results) = accepted(reply);
        assert_eq!(status, Accepted::Success);
        self.check_verifier(&verifier, sequence);
        let content = match service {
            NONE => return results.to_vec(),
            INTEGRITY => {
                let (body, _) = gss::integrity_body(reply, reply.len() - results.len()).unwrap();
                self.keys.verify(&reply[body.signed.clone()], &reply[body.checksum]).expect("the body's MIC");
                reply[body.signed].to_vec()
            }
            PRIVACY => {
                let place = gss::privacy_body(reply, reply.len() - results.len()).unwrap();
                let mut token = reply[place].to_vec();
                let result = Err(krb5::TokenError::Malformed);
                let mut batch =
                    [UnwrapMessage { keys: &self.keys, token: Segments::from(&mut token), result }];
                krb5::unwrap(&mut batch);
                let [UnwrapMessage { result, .. }] = batch;
                token[result.expect("the body's token").plain].to_vec()
            }
        };
        let (inner, data) = content.split_first_chunk::<4>().expect("a sequence number");
        assert_eq!(u32::from_be_bytes(*inner), sequence);
        data.to_vec()
    }

    /// Checks that the reply's verifier is the MIC of the call's sequence number (RFC 2203 section
    /// 5.3.3.2).
    pub(crate) fn check_verifier(&self, verifier: &OpaqueAuth<'_>, sequence: u32) {
        self.keys.verify(&sequence.to_be_bytes(), verifier.body).expect("the reply's verifier");
    }

    /// Makes a valid call that must succeed.
    pub(crate) fn exchange(&mut self, host: &mut Host, service: RpcGssServiceT, arguments: &[u8]) {
        let record = self.call(service, arguments);
        let reply = host.answer(record).expect("an answer");
        assert_eq!(self.open(&reply, self.sequence, service), arguments);
    }
}
