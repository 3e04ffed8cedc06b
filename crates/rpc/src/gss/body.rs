//! The frames around protected arguments and results (RFC 2203 sections 5.3.2.2 and 5.3.2.3).
//!
//! Everything is said in positions within the record, so that a body can be checked and decrypted where it
//! was received.

use std::ops::Range;
use xdr::{Decoder, Encoder, Error};

/// The most bytes of a checksum: far above the 40 of any AES enctype.
const CHECKSUM_MAX: usize = 512;

/// Length of the sequence number before the data of a protected body, in bytes.
pub const SEQUENCE_LEN: usize = 4;

/// A body with integrity (`rpc_gss_integ_data`), as positions in its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntegrityBody {
    /// What is signed: the sequence number, then the data.
    pub signed: Range<usize>,
    /// The MIC.
    pub checksum: Range<usize>,
}

impl IntegrityBody {
    /// Where the data is, behind its sequence number.
    pub const fn data(&self) -> Range<usize> {
        self.signed.start + SEQUENCE_LEN..self.signed.end
    }
}

/// Reads the frame of a body with integrity that begins at `at` and must end with the record.
///
/// Also returns the sequence number inside, which must equal the header's (else GARBAGE_ARGS). It is not to
/// be trusted before the MIC has been verified.
///
/// # Errors
/// Any [`Error`].
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

/// Reads the frame of a body with privacy (`rpc_gss_priv_data`) that begins at `at` and must end with the
/// record, and returns where the token is.
///
/// # Errors
/// Any [`Error`].
pub fn privacy_body(record: &[u8], at: usize) -> Result<Range<usize>, Error> {
    let mut decoder = Decoder::new(record.get(at..).unwrap_or_default());
    let token = decoder.opaque(record.len())?;
    let start = at.saturating_add(4);
    decoder.finish()?;
    Ok(start..start + token.len())
}

/// Splits decrypted or verified content (`rpc_gss_data_t`) into its sequence number and the position of the
/// data within the record.
///
/// # Errors
/// [`Error::Truncated`] when it does not even hold the number.
pub fn protected_data(record: &[u8], content: Range<usize>) -> Result<(u32, Range<usize>), Error> {
    let bytes = record.get(content.clone()).unwrap_or_default();
    let sequence = Decoder::new(bytes).u32()?;
    Ok((sequence, content.start + SEQUENCE_LEN..content.end))
}

/// Appends the length of a protected body, to be patched when it is known, and returns where it stands.
pub fn begin_body(encoder: &mut Encoder) -> usize {
    let at = encoder.len();
    encoder.u32(0);
    at
}

/// Patches the length at `at`, where [`begin_body`] put it, to count what was appended behind it, and pads.
pub fn end_body(encoder: &mut Encoder, at: usize) {
    let length = encoder.len().saturating_sub(at + 4);
    // Replies are bounded far below 4 GiB by the session's limits.
    encoder.patch_u32(at, length as u32);
    encoder.pad(length);
}
