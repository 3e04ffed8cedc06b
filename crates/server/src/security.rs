//! Who calls, and by which security flavor: what the dispatch hands to the COMPOUND engine with each call.

use std::sync::Arc;
use vfs::{Caller, SecFlavor};

/// The verified identity of one call, after RPCSEC_GSS or AUTH_SYS has been checked (RFC 8881 section 2.2.1).
///
/// The service (none, integrity, privacy) belongs to the call, not to the context: a value is made for each
/// combination of context and service and shared by the calls that use it.
#[derive(Clone, Debug)]
pub struct Security {
    /// The flavor with its service: what exports allow or refuse (NFS4ERR_WRONGSEC).
    pub flavor: SecFlavor,
    /// The authenticated principal, such as `alice@REALM`; `None` for AUTH_SYS.
    pub principal: Option<Arc<str>>,
    /// Whether the principal is a machine's (`host/…`, `nfs/…`, `root/…`, or the like).
    pub machine: bool,
    /// The user whose rights the call has, before an export squashes it; `None` for a principal without
    /// account, whom exports treat as their anonymous user.
    pub caller: Option<Caller>,
    /// The RPCSEC_GSS context of the call, for the replay fingerprint; `None` for AUTH_SYS.
    pub context: Option<u64>,
}

impl Security {
    /// Returns an AUTH_SYS caller (RFC 5531 section 14).
    pub fn sys(caller: Caller) -> Self {
        Self { flavor: SecFlavor::Sys, principal: None, machine: false, caller: Some(caller), context: None }
    }

    /// Whether the call came by RPCSEC_GSS.
    pub fn is_gss(&self) -> bool {
        self.principal.is_some()
    }
}
