//! MIC tokens, RFC 4121 section 4.2.6.1: the checksum covers the data, then the header.

use crate::{
    ContextKeys, MicToken, Run, TokenError,
    batch_hmac::{Message, With, batch_hmac},
    hash::{Hash, Sha1, Sha256, Sha384},
    hmac::HmacKey,
    keys::{AnySuite, with_suite},
    token::{Header, begins_with, mic_header, parse_mic},
};

/// One message to sign.
#[derive(Debug)]
pub struct MicMessage<'a> {
    /// The keys of the context.
    pub keys: &'a ContextKeys,
    /// The sequence number of the token: the sender's next.
    pub sequence: u64,
    /// The data that the signature covers.
    pub data: &'a [u8],
    /// The MIC token, set by [`get_mic`].
    pub token: MicToken,
}

/// One signature of the peer to verify.
#[derive(Debug)]
pub struct VerifyMessage<'a> {
    /// The keys of the context.
    pub keys: &'a ContextKeys,
    /// The data that the signature covers.
    pub data: &'a [u8],
    /// The token of the peer.
    pub token: &'a [u8],
    /// The token's sequence number, set by [`verify_mic`].
    pub result: Result<u64, TokenError>,
}

/// The longest single message, in bytes, that is hashed without lanes, which cost more to set up
/// than they gain here.
const ALONE_BYTES: usize = 4 << 10;

/// Signs each message of a batch. Messages with the same hash are processed together.
pub fn get_mic(batch: &mut [MicMessage<'_>]) {
    get_mic_with(&mut Run::default(), batch);
}

/// Signs each message of a batch as [`get_mic`] does, with the settings of `run`.
pub fn get_mic_with(run: &mut Run<'_>, batch: &mut [MicMessage<'_>]) {
    if let [MicMessage { keys, sequence, data, token }] = batch
        && data.len() <= ALONE_BYTES
    {
        *token = keys.mic(*sequence, data);
        return run.worked(data.len());
    }
    sign::<Sha1>(run, batch);
    sign::<Sha256>(run, batch);
    sign::<Sha384>(run, batch);
}

/// Verifies each signature of a batch. Signatures with the same hash are processed together.
pub fn verify_mic(batch: &mut [VerifyMessage<'_>]) {
    verify_mic_with(&mut Run::default(), batch);
}

/// Verifies each signature of a batch as [`verify_mic`] does, with the settings of `run`.
pub fn verify_mic_with(run: &mut Run<'_>, batch: &mut [VerifyMessage<'_>]) {
    if let [VerifyMessage { keys, data, token, result }] = batch
        && data.len() <= ALONE_BYTES
    {
        *result = keys.verify(data, token);
        return run.worked(data.len());
    }
    for message in batch.iter_mut() {
        message.result = message.keys.parse(message.token).map(|(_, _, sequence)| sequence);
    }
    verify::<Sha1>(run, batch);
    verify::<Sha256>(run, batch);
    verify::<Sha384>(run, batch);
}

/// Selects the signing keys of a suite that uses this hash.
trait SignKeys: Hash + Sized {
    fn of(suite: &AnySuite) -> Option<SignPair<'_, Self>>;
}

/// The keys for signing and for verifying the peer's signatures.
struct SignPair<'a, H: Hash> {
    sign: &'a HmacKey<H>,
    verify: &'a HmacKey<H>,
}

macro_rules! sign_keys {
    ($hash:ident, $($suite:ident)|+) => {
        impl SignKeys for $hash {
            fn of(suite: &AnySuite) -> Option<SignPair<'_, Self>> {
                match suite {
                    $(AnySuite::$suite(keys) => Some(SignPair { sign: &keys.sign, verify: &keys.verify }),)+
                    _ => None,
                }
            }
        }
    };
}

sign_keys!(Sha1, Aes128Sha1 | Aes256Sha1);
sign_keys!(Sha256, Aes128Sha256);
sign_keys!(Sha384, Aes256Sha384);

fn sign<H: SignKeys>(run: &mut Run<'_>, batch: &mut [MicMessage<'_>]) {
    let messages = batch.iter_mut().filter_map(|message| {
        let key = H::of(message.keys.suite())?.sign;
        let header = mic_header(message.keys.direction, message.sequence);
        let covered =
            Message { key, start: None, prefix: &[], from: 0, len: message.data.len(), suffix: Some(header) };
        Some((
            covered,
            With { data: message.data, with: (header, message.keys.enctype().mac_len(), &mut message.token) },
        ))
    });
    batch_hmac(run, messages, |signed, digest| {
        let (header, mac_len, token) = signed.with;
        token.put(&header, digest, mac_len);
    });
}

fn verify<H: SignKeys>(run: &mut Run<'_>, batch: &mut [VerifyMessage<'_>]) {
    let messages = batch.iter_mut().filter_map(|message| {
        let key = H::of(message.keys.suite())?.verify;
        let (header, mac, _) = message.keys.parse(message.token).ok()?;
        let covered = Message {
            key,
            start: None,
            prefix: &[],
            from: 0,
            len: message.data.len(),
            suffix: Some(*header),
        };
        Some((covered, With { data: message.data, with: (mac, &mut message.result) }))
    });
    batch_hmac(run, messages, |signed, digest| {
        let (mac, result) = signed.with;
        if !begins_with(digest, mac) {
            *result = Err(TokenError::BadIntegrity);
        }
    });
}

impl ContextKeys {
    /// Signs one message. Returns a MIC token of [`ContextKeys::mic_len`] bytes.
    pub fn mic(&self, sequence: u64, data: &[u8]) -> MicToken {
        let header = mic_header(self.direction, sequence);
        let digest = with_suite!(self.suite(), keys => keys.sign.mac(&[data, &header]));
        let mut token = MicToken::EMPTY;
        token.put(&header, &digest, self.enctype().mac_len());
        token
    }

    /// Verifies one signature of the peer and returns its sequence number.
    ///
    /// # Errors
    /// [`TokenError`] says why the token is refused.
    pub fn verify(&self, data: &[u8], token: &[u8]) -> Result<u64, TokenError> {
        let (header, mac, sequence) = self.parse(token)?;
        let digest = with_suite!(self.suite(), keys => keys.verify.mac(&[data, header]));
        if begins_with(&digest, mac) { Ok(sequence) } else { Err(TokenError::BadIntegrity) }
    }

    /// Splits a token of the peer into header, checksum and sequence number. Checks the token's
    /// length.
    fn parse<'t>(&self, token: &'t [u8]) -> Result<(&'t Header, &'t [u8], u64), TokenError> {
        if token.len() != self.mic_len() {
            return Err(TokenError::Malformed);
        }
        parse_mic(self.direction, token)
    }
}
