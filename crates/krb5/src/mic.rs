//! MIC tokens, RFC 4121 section 4.2.6.1: the checksum covers the data, then the header.

use crate::{
    ContextKeys, MicToken, Run, TokenError,
    hash::{Hash, Sha1, Sha256, Sha384},
    hmac::HmacKey,
    keys::{AnySuite, with_suite},
    mac_each::{Message, With, mac_each},
    token::{Header, mic_header, parse_mic, same},
};

/// Data to sign.
#[derive(Debug)]
pub struct MicMessage<'a> {
    /// The context's keys.
    pub keys: &'a ContextKeys,
    /// The sequence number of the token, the sender's next.
    pub sequence: u64,
    /// What is signed.
    pub data: &'a [u8],
    /// The result.
    pub token: MicToken,
}

/// A signature of the peer to check.
#[derive(Debug)]
pub struct VerifyMessage<'a> {
    /// The context's keys.
    pub keys: &'a ContextKeys,
    /// What was signed.
    pub data: &'a [u8],
    /// The token of the peer.
    pub token: &'a [u8],
    /// The result: the token's sequence number.
    pub result: Result<u64, TokenError>,
}

/// Up to so many bytes a message that is alone goes by the libraries: lanes cost more to set up
/// than they win.
const ALONE_BYTES: usize = 4 << 10;

/// Signs each message of a batch; those of one hash together.
pub fn get_mic(batch: &mut [MicMessage<'_>]) {
    get_mic_with(&mut Run::default(), batch);
}

/// Signs each message of a batch as [`get_mic`] does, with the instructions and the pauses of
/// `run`.
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

/// Checks each signature of a batch; those of one hash together.
pub fn verify_mic(batch: &mut [VerifyMessage<'_>]) {
    verify_mic_with(&mut Run::default(), batch);
}

/// Checks each signature of a batch as [`verify_mic`] does, with the instructions and the pauses of
/// `run`.
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

/// The keys of a suite for signing, if its hash is this one.
trait SignKeys: Hash + Sized {
    fn of(suite: &AnySuite) -> Option<SignPair<'_, Self>>;
}

/// The keys to sign with and to check the peer's signatures with.
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
        let key = H::of(&message.keys.suite)?.sign;
        let header = mic_header(message.keys.direction, message.sequence);
        let covered =
            Message { key, start: None, prefix: &[], from: 0, len: message.data.len(), suffix: Some(header) };
        Some((
            covered,
            With { data: message.data, with: (header, message.keys.enctype().mac_len(), &mut message.token) },
        ))
    });
    mac_each(run, messages, |signed, digest| {
        let (header, mac_len, token) = signed.with;
        token.put(&header, digest, mac_len);
    });
}

fn verify<H: SignKeys>(run: &mut Run<'_>, batch: &mut [VerifyMessage<'_>]) {
    let messages = batch.iter_mut().filter_map(|message| {
        let key = H::of(&message.keys.suite)?.verify;
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
    mac_each(run, messages, |signed, digest| {
        let (mac, result) = signed.with;
        if !same(&digest[..mac.len()], mac) {
            *result = Err(TokenError::BadIntegrity);
        }
    });
}

impl ContextKeys {
    /// Signs one message: the MIC token of [`ContextKeys::mic_len`] bytes.
    pub fn mic(&self, sequence: u64, data: &[u8]) -> MicToken {
        let header = mic_header(self.direction, sequence);
        let digest = with_suite!(&self.suite, keys => keys.sign.mac(&[data, &header]));
        let mut token = MicToken::EMPTY;
        token.put(&header, &digest, self.enctype().mac_len());
        token
    }

    /// Checks one signature of the peer and returns its sequence number.
    ///
    /// # Errors
    /// [`TokenError`], see there.
    pub fn verify(&self, data: &[u8], token: &[u8]) -> Result<u64, TokenError> {
        let (header, mac, sequence) = self.parse(token)?;
        let digest = with_suite!(&self.suite, keys => keys.verify.mac(&[data, header]));
        if same(&digest[..mac.len()], mac) { Ok(sequence) } else { Err(TokenError::BadIntegrity) }
    }

    /// Takes a token of the peer apart; its checksum has the right length.
    fn parse<'t>(&self, token: &'t [u8]) -> Result<(&'t Header, &'t [u8], u64), TokenError> {
        if token.len() != self.mic_len() {
            return Err(TokenError::Malformed);
        }
        parse_mic(self.direction, token)
    }
}
