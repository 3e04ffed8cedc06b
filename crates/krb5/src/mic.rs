//! MIC tokens, RFC 4121 section 4.2.6.1: the checksum covers the data, then the header.

use subtle::ConstantTimeEq;

use crate::{
    ContextKeys, MicToken, TokenError,
    keys::with_suite,
    token::{mic_header, parse_mic},
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

/// Signs each message of a batch.
pub fn get_mic(batch: &mut [MicMessage<'_>]) {
    for message in batch {
        message.token = message.keys.mic(message.sequence, message.data);
    }
}

/// Checks each signature of a batch.
pub fn verify_mic(batch: &mut [VerifyMessage<'_>]) {
    for message in batch {
        message.result = message.keys.verify(message.data, message.token);
    }
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
        let (header, mac, sequence) = parse_mic(self.direction, token)?;
        let mac_len = self.enctype().mac_len();
        if mac.len() != mac_len {
            return Err(TokenError::Malformed);
        }
        let digest = with_suite!(&self.suite, keys => keys.verify.mac(&[data, header]));
        if bool::from(digest[..mac_len].ct_eq(mac)) { Ok(sequence) } else { Err(TokenError::BadIntegrity) }
    }
}
