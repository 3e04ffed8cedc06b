//! The RPCSEC_GSS credential (RFC 2203 section 5.1).

use crate::generated::{RPCSEC_GSS_VERS_1, RpcGssProcT, RpcGssServiceT};
use xdr::{Decoder, Encode, Encoder, Error};

/// The most bytes of a context handle: what a credential body has room for (RFC 5531 section 8.2).
pub const HANDLE_MAX: usize = 380;

/// The body of an RPCSEC_GSS credential, version 1 (`rpc_gss_cred_vers_1_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GssCredential<'a> {
    /// Data or control message.
    pub procedure: RpcGssProcT,
    /// The number that the window is asked about.
    pub sequence: u32,
    /// Protection of this call's body: it belongs to the call, not to the context (RFC 2203 section 5.3.1).
    pub service: RpcGssServiceT,
    /// The server's name for the context; empty in INIT.
    pub handle: &'a [u8],
}

/// Says why a credential cannot be worked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// Another version: AUTH_REJECTEDCRED (RFC 2203 section 5.3.3.3 with erratum 4067).
    #[error("RPCSEC_GSS version {0}")]
    Version(u32),
    /// Bytes that are no credential: AUTH_BADCRED.
    #[error("malformed RPCSEC_GSS credential: {0}")]
    Malformed(#[from] Error),
}

impl<'a> GssCredential<'a> {
    /// Reads the body of a credential, which must hold nothing else.
    ///
    /// # Errors
    /// [`CredentialError`]; the version is looked at first, because what follows depends on it.
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

/// Reads the service. In INIT and CONTINUE_INIT it has no meaning and some clients send zero
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
