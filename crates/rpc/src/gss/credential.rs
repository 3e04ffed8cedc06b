//! The RPCSEC_GSS credential (RFC 2203 section 5.1).

use crate::generated::{RPCSEC_GSS_VERS_1, RpcGssProcT, RpcGssServiceT};
use xdr::{Decoder, Encode, Encoder, Error};

/// Most bytes of a context handle; more do not fit into a credential (RFC 5531 section 8.2).
pub const HANDLE_MAX: usize = 380;

/// The body of an RPCSEC_GSS credential, version 1 (`rpc_gss_cred_vers_1_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GssCredential<'a> {
    /// Data, or one of the control messages.
    pub procedure: RpcGssProcT,
    /// Sequence number, for the window of the context.
    pub sequence: u32,
    /// Protection of the body. Each call of a context can choose another (RFC 2203 section 5.3.1).
    pub service: RpcGssServiceT,
    /// Context handle that the server assigned; empty in INIT.
    pub handle: &'a [u8],
}

/// The reason why an RPCSEC_GSS credential is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// The version is not 1; answer AUTH_REJECTEDCRED (RFC 2203 section 5.3.3.3 with erratum 4067).
    #[error("RPCSEC_GSS version {0} is not supported")]
    Version(u32),
    /// The body does not decode; answer AUTH_BADCRED.
    #[error("malformed RPCSEC_GSS credential: {0}")]
    Malformed(#[from] Error),
}

impl<'a> GssCredential<'a> {
    /// Decodes the body of a credential. Bytes behind it are an error.
    ///
    /// # Errors
    /// [`CredentialError`]; an unknown version is reported before other errors, since the format
    /// depends on it.
    pub fn parse(body: &'a [u8]) -> Result<Self, CredentialError> {
        let mut decoder = Decoder::new(body);
        let version = decoder.u32()?;
        if version != RPCSEC_GSS_VERS_1 {
            return Err(CredentialError::Version(version));
        }
        let value = decoder.u32()?;
        let procedure =
            RpcGssProcT::from_u32(value).ok_or(Error::InvalidEnum { name: "rpc_gss_proc_t", value })?;
        let sequence = decoder.u32()?;
        let value = decoder.u32()?;
        let service = service(procedure, value)?;
        let handle = decoder.opaque(HANDLE_MAX)?;
        decoder.finish()?;
        Ok(Self { procedure, sequence, service, handle })
    }
}

/// Decodes the service. It has no meaning in INIT and CONTINUE_INIT, where some clients send zero
/// (RFC 2203 section 5.2.2).
fn service(procedure: RpcGssProcT, value: u32) -> Result<RpcGssServiceT, Error> {
    match (RpcGssServiceT::from_u32(value), procedure) {
        (Some(service), _) => Ok(service),
        (None, RpcGssProcT::RPCSEC_GSS_INIT | RpcGssProcT::RPCSEC_GSS_CONTINUE_INIT) => {
            Ok(RpcGssServiceT::rpc_gss_svc_none)
        }
        (None, _) => Err(Error::InvalidEnum { name: "rpc_gss_service_t", value }),
    }
}

impl Encode for GssCredential<'_> {
    fn encode(&self, encoder: &mut Encoder) {
        encoder.u32(RPCSEC_GSS_VERS_1).u32(self.procedure as u32).u32(self.sequence);
        encoder.u32(self.service as u32).opaque(self.handle);
    }
}
