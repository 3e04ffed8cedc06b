//! The identity of calls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rpc::gss::RpcGssServiceT;
use rpc::{AuthFlavor, AuthSys};
use xdr::{Encode as _, Encoder};

use super::{GssCall, GssContext, Protection, random};
use crate::error::Error;
use crate::options::{GssCredential, Security};
use crate::raw::RawConnection;

/// An identity and its security context, if established.
#[derive(Debug)]
pub(crate) enum Identity {
    /// AUTH_NONE or AUTH_SYS: the flavor and the encoded credential.
    Plain { flavor: u32, body: Arc<[u8]> },
    /// RPCSEC_GSS, and the context once there is one.
    Gss { credential: GssCredential, context: Option<Arc<GssContext>> },
}

impl Identity {
    /// Creates an identity without a context.
    pub(crate) fn new(security: &Security) -> Result<Self, Error> {
        Ok(match security {
            Security::None => Self::Plain { flavor: AuthFlavor::AUTH_NONE as u32, body: Arc::default() },
            Security::Sys(sys) => {
                let stamp = u32::from_be_bytes(random()?);
                let mut body = Encoder::new();
                AuthSys::new(stamp, sys.machine_name.as_bytes(), sys.uid, sys.gid, &sys.gids)
                    .encode(&mut body);
                Self::Plain { flavor: AuthFlavor::AUTH_SYS as u32, body: body.into_vec().into() }
            }
            Security::Gss(credential) => Self::Gss { credential: credential.clone(), context: None },
        })
    }

    /// Returns the context in use.
    pub(crate) fn context(&self) -> Option<&Arc<GssContext>> {
        match self {
            Self::Plain { .. } => None,
            Self::Gss { context, .. } => context.as_ref(),
        }
    }

    /// Returns whether a context has to be established before the next call.
    pub(crate) fn needs_context(&self) -> bool {
        matches!(self, Self::Gss { context: None, .. })
    }

    /// Returns whether the context is due for renewal.
    pub(crate) fn is_worn(&self, now: Instant) -> bool {
        self.context().is_some_and(|context| context.is_worn(now))
    }

    /// Drops `context` if it is still in use, because the server no longer knows it.
    pub(crate) fn forget(&mut self, stale: &Arc<GssContext>) {
        if let Self::Gss { context, .. } = self
            && context.as_ref().is_some_and(|current| Arc::ptr_eq(current, stale))
        {
            *context = None;
        }
    }

    /// Establishes a new context, which replaces the old one.
    pub(crate) fn renew(&mut self, connection: &mut RawConnection, timeout: Duration) -> Result<(), Error> {
        if let Self::Gss { credential, context } = self {
            *context = Some(GssContext::establish(connection, credential, timeout)?);
        }
        Ok(())
    }

    /// Returns the number of calls of this identity that may be outstanding.
    pub(crate) fn outstanding_max(&self) -> u32 {
        self.context().map_or(u32::MAX, |context| context.window().max(1))
    }

    /// Returns the protection of the next call.
    pub(crate) fn protection(&self) -> Result<Protection, Error> {
        match self {
            Self::Plain { flavor, body } => Ok(Protection::Plain { flavor: *flavor, body: body.clone() }),
            Self::Gss { context: None, .. } => Err(Error::Misuse("the identity has no security context")),
            Self::Gss { credential, context: Some(context) } => {
                Ok(Protection::Gss(GssCall::new(context.clone(), credential.service)))
            }
        }
    }

    /// Returns the protection of client and session operations: at least integrity (RFC 8881
    /// section 2.10.8.3).
    pub(crate) fn state_protection(&self) -> Result<Protection, Error> {
        match self {
            Self::Gss { credential, context: Some(context) }
                if credential.service == RpcGssServiceT::rpc_gss_svc_none =>
            {
                Ok(Protection::Gss(GssCall::new(context.clone(), RpcGssServiceT::rpc_gss_svc_integrity)))
            }
            _ => self.protection(),
        }
    }
}
