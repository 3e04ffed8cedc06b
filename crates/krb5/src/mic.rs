//! MIC tokens, RFC 4121 section 4.2.6.1: the checksum covers the data, then the header.

use subtle::ConstantTimeEq;

use crate::{
    ContextKeys, MicToken, TokenError,
    cipher::{Aes128Sha1, Aes128Sha256, Aes256Sha1, Aes256Sha384, Suite},
    hmac::{Message, mac_each},
    keys::with_suite,
    token::{Header, mic_header, parse_mic},
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

/// Signs each message of a batch; those of one enctype together.
pub fn get_mic(batch: &mut [MicMessage<'_>]) {
    sign::<Aes128Sha1>(batch);
    sign::<Aes256Sha1>(batch);
    sign::<Aes128Sha256>(batch);
    sign::<Aes256Sha384>(batch);
}

/// Checks each signature of a batch; those of one enctype together.
pub fn verify_mic(batch: &mut [VerifyMessage<'_>]) {
    for message in batch.iter_mut() {
        message.result = message.keys.parse(message.token).map(|(_, _, sequence)| sequence);
    }
    verify::<Aes128Sha1>(batch);
    verify::<Aes256Sha1>(batch);
    verify::<Aes128Sha256>(batch);
    verify::<Aes256Sha384>(batch);
}

fn sign<S: Suite>(batch: &mut [MicMessage<'_>]) {
    let messages = batch.iter_mut().filter_map(|message| {
        let keys = S::of(&message.keys.suite)?;
        let header = mic_header(message.keys.direction, message.sequence);
        let covered = Message { key: &keys.sign, prefix: &[], data: message.data, suffix: Some(header) };
        Some((covered, (header, &mut message.token)))
    });
    mac_each(messages, |(header, token), digest| {
        *token = MicToken::new(&header, &digest[..S::ENCTYPE.mac_len()]);
    });
}

fn verify<S: Suite>(batch: &mut [VerifyMessage<'_>]) {
    let messages = batch.iter_mut().filter_map(|message| {
        let keys = S::of(&message.keys.suite)?;
        let (header, mac, _) = message.keys.parse(message.token).ok()?;
        let covered = Message { key: &keys.verify, prefix: &[], data: message.data, suffix: Some(*header) };
        Some((covered, (mac, &mut message.result)))
    });
    mac_each(messages, |(mac, result), digest| {
        if !bool::from(digest[..mac.len()].ct_eq(mac)) {
            *result = Err(TokenError::BadIntegrity);
        }
    });
}

impl ContextKeys {
    /// Signs one message: the MIC token of [`ContextKeys::mic_len`] bytes.
    pub fn mic(&self, sequence: u64, data: &[u8]) -> MicToken {
        let header = mic_header(self.direction, sequence);
        let digest = with_suite!(&self.suite, keys => keys.sign.mac(&[data, &header]));
        MicToken::new(&header, &digest[..self.enctype().mac_len()])
    }

    /// Checks one signature of the peer and returns its sequence number.
    ///
    /// # Errors
    /// [`TokenError`], see there.
    pub fn verify(&self, data: &[u8], token: &[u8]) -> Result<u64, TokenError> {
        let (header, mac, sequence) = self.parse(token)?;
        let digest = with_suite!(&self.suite, keys => keys.verify.mac(&[data, header]));
        if bool::from(digest[..mac.len()].ct_eq(mac)) { Ok(sequence) } else { Err(TokenError::BadIntegrity) }
    }

    /// Takes a token of the peer apart; its checksum has the right length.
    fn parse<'t>(&self, token: &'t [u8]) -> Result<(&'t Header, &'t [u8], u64), TokenError> {
        if token.len() != self.mic_len() {
            return Err(TokenError::Malformed);
        }
        parse_mic(self.direction, token)
    }
}
