//! Images of the checks that answers to callbacks in flight have to pass.

use super::{GssProof, Proof};
use crate::callback::CallbackQueue;
use image::{ImageError, SharedBytes};
use minicbor::{Decode, Encode};
use rpc::gss::RpcGssServiceT;
use std::time::Duration;

/// The authentication of one callback.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) enum ProofImage {
    /// The flavor AUTH_NONE, without credentials.
    #[n(0)]
    None,
    /// AUTH_SYS, with the body of the credential.
    #[n(1)]
    Sys(#[n(0)] SharedBytes),
    /// RPCSEC_GSS: the server's handle of the context, the service, the client's handle, and the
    /// sequence number.
    #[n(2)]
    Gss(#[n(0)] SharedBytes, #[n(1)] u32, #[n(2)] SharedBytes, #[n(3)] u32),
}

impl Proof {
    pub(crate) fn image(&self) -> ProofImage {
        match self {
            Self::None => ProofImage::None,
            Self::Sys(body) => ProofImage::Sys(SharedBytes::from(&**body)),
            Self::Gss(GssProof { context, service, handle, sequence }) => {
                let own = SharedBytes::from(&context.handle().as_bytes()[..]);
                ProofImage::Gss(own, *service as u32, SharedBytes::from(&**handle), *sequence)
            }
        }
    }
}

impl CallbackQueue {
    /// Restores a check; `None` where its context is gone.
    pub(crate) fn restore_proof(
        &self,
        image: ProofImage,
        now: Duration,
    ) -> Result<Option<Proof>, ImageError> {
        Ok(match image {
            ProofImage::None => Some(Proof::None),
            ProofImage::Sys(body) => Some(Proof::Sys(body.0.to_vec())),
            ProofImage::Gss(own, service, handle, sequence) => {
                let service = RpcGssServiceT::from_u32(service);
                let service = service.ok_or(ImageError::Inconsistent("the service of a callback"))?;
                self.context(&own.0, now).map(|context| {
                    Proof::Gss(GssProof { context, service, handle: handle.0.to_vec(), sequence })
                })
            }
        })
    }
}
