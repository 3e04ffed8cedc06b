//! Context creation messages (RFC 2203 section 5.2).

use super::credential::HANDLE_MAX;
use xdr::{Decode, Decoder, Encode, Encoder, Error};

/// The longest token accepted, in bytes: tickets with the group list of a Windows domain pass 64
/// KiB.
pub const TOKEN_SIZE_MAX: usize = 128 * 1024;

/// Major status GSS_S_COMPLETE (RFC 2744 section 3.9.1): the context is established.
pub const GSS_S_COMPLETE: u32 = 0;

/// Major status GSS_S_FAILURE (RFC 2744 section 3.9.1): the minor status has the mechanism's
/// reason.
pub const GSS_S_FAILURE: u32 = 13 << 16;

/// Decodes `rpc_gss_init_arg`: the token. Bytes behind it are an error.
///
/// # Errors
/// [`Error::TooLong`] above `token_size_max`, or any other; answer the call with GARBAGE_ARGS.
pub fn init_argument(arguments: &[u8], token_size_max: usize) -> Result<&[u8], Error> {
    let mut decoder = Decoder::new(arguments);
    let token = decoder.opaque(token_size_max)?;
    decoder.finish()?;
    Ok(token)
}

/// The result of INIT (`rpc_gss_init_res`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitRes<'a> {
    /// Handle of the new context; empty if creation failed.
    pub handle: &'a [u8],
    /// Major status of the server's GSS-API.
    pub gss_major: u32,
    /// Minor status of the server's GSS-API; has a meaning only for its mechanism.
    pub gss_minor: u32,
    /// Size of the sequence window, in numbers.
    pub seq_window: u32,
    /// Token for the client's GSS-API.
    pub gss_token: &'a [u8],
}

impl InitRes<'_> {
    /// Returns the result for a context that was not created.
    pub const fn failure(gss_major: u32, gss_minor: u32) -> Self {
        Self { handle: &[], gss_major, gss_minor, seq_window: 0, gss_token: &[] }
    }
}

impl Encode for InitRes<'_> {
    fn encode(&self, encoder: &mut Encoder) {
        encoder.opaque(self.handle).u32(self.gss_major).u32(self.gss_minor);
        encoder.u32(self.seq_window).opaque(self.gss_token);
    }
}

impl<'a> Decode<'a> for InitRes<'a> {
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self, Error> {
        Ok(Self {
            handle: decoder.opaque(HANDLE_MAX)?,
            gss_major: decoder.u32()?,
            gss_minor: decoder.u32()?,
            seq_window: decoder.u32()?,
            gss_token: decoder.opaque(TOKEN_SIZE_MAX)?,
        })
    }
}
