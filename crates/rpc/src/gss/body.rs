//! Protected arguments and results (RFC 2203 sections 5.3.2.2 and 5.3.2.3).
//!
//! Parsers return byte ranges of the record, so that a body is verified and decrypted in place.

use std::ops::Range;
use xdr::{Decoder, Encoder, Error};

/// Most bytes of a MIC; those of AES enctypes have at most 40.
const CHECKSUM_MAX: usize = 512;

/// Length of the sequence number in front of the data of a protected body, in bytes.
pub const SEQUENCE_LEN: usize = 4;

/// A body with integrity protection (`rpc_gss_integ_data`), as byte ranges of its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntegrityBody {
    /// The signed bytes: sequence number and data.
    pub signed: Range<usize>,
    /// The MIC over the signed bytes.
    pub checksum: Range<usize>,
}

impl IntegrityBody {
    /// Returns the range of the data, without the sequence number.
    pub const fn data(&self) -> Range<usize> {
        self.signed.start + SEQUENCE_LEN..self.signed.end
    }
}

/// Parses a body with integrity protection that begins at `at` and must end with the record.
///
/// Also returns the sequence number inside, which must equal that of the header (else
/// GARBAGE_ARGS). Do not trust it before the MIC has been verified.
///
/// # Errors
/// Any [`Error`]; answer the call with GARBAGE_ARGS.
pub fn integrity_body(record: &[u8], at: usize) -> Result<(IntegrityBody, u32), Error> {
    let mut decoder = Decoder::new(record.get(at..).unwrap_or_default());
    let signed = decoder.opaque(record.len())?;
    // The length before it takes four bytes.
    let signed_at = at.saturating_add(4);
    let sequence = Decoder::new(signed).u32()?;
    let mut rest = decoder;
    let checksum = rest.opaque(CHECKSUM_MAX)?;
    let checksum_at = at + decoder.position() + 4;
    rest.finish()?;
    let body = IntegrityBody {
        signed: signed_at..signed_at + signed.len(),
        checksum: checksum_at..checksum_at + checksum.len(),
    };
    Ok((body, sequence))
}

/// Parses a body with privacy (`rpc_gss_priv_data`) that begins at `at` and must end with the
/// record. Returns the range of the wrap token.
///
/// # Errors
/// Any [`Error`]; answer the call with GARBAGE_ARGS.
pub fn privacy_body(record: &[u8], at: usize) -> Result<Range<usize>, Error> {
    let mut decoder = Decoder::new(record.get(at..).unwrap_or_default());
    let token = decoder.opaque(record.len())?;
    let start = at.saturating_add(4);
    decoder.finish()?;
    Ok(start..start + token.len())
}

/// Splits verified or decrypted content (`rpc_gss_data_t`) into its sequence number and the range
/// of the data in the record.
///
/// # Errors
/// [`Error::Truncated`] if it is too short for the number.
pub fn protected_data(record: &[u8], content: Range<usize>) -> Result<(u32, Range<usize>), Error> {
    let bytes = record.get(content.clone()).unwrap_or_default();
    let sequence = Decoder::new(bytes).u32()?;
    Ok((sequence, content.start + SEQUENCE_LEN..content.end))
}

/// Appends a placeholder for the length of a protected body, and returns its offset for
/// [`end_body`].
pub fn begin_body(encoder: &mut Encoder) -> usize {
    let at = encoder.len();
    encoder.u32(0);
    at
}

/// Replaces the placeholder at `at` with the number of bytes that were appended since, and pads.
pub fn end_body(encoder: &mut Encoder, at: usize) {
    let length = encoder.len().saturating_sub(at + 4);
    // Replies are bounded far below 4 GiB by the session's limits.
    encoder.patch_u32(at, length as u32);
    encoder.pad(length);
}
