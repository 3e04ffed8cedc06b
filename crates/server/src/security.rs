//! The caller of each call and its security flavor, as the dispatch passes them to the COMPOUND
//! engine.

use state::{Principal, Protection};
use std::sync::Arc;
use vfs::{Caller, SecFlavor};

/// The verified identity of one call, after RPCSEC_GSS or AUTH_SYS has been checked (RFC 8881
/// section 2.2.1).
///
/// The service (none, integrity, privacy) belongs to the call, not to the context: there is one
/// value for each combination of context and service, shared by the calls that use it.
#[derive(Clone, Debug)]
pub struct Security {
    /// The flavor with its service, which exports allow or refuse (NFS4ERR_WRONGSEC).
    pub flavor: SecFlavor,
    /// The authenticated principal, such as `alice@REALM`; `None` for AUTH_SYS.
    pub principal: Option<Arc<str>>,
    /// Whether the principal is a machine's (`host/…`, `nfs/…`, `root/…`, or the like).
    pub machine: bool,
    /// Whether a service got the principal's ticket in its name, by constrained delegation.
    pub delegated: bool,
    /// The user whose rights the call has, before an export squashes it. `None` for a principal
    /// without account, which exports map to their anonymous user.
    pub caller: Option<Caller>,
    /// The RPCSEC_GSS context of the call, for the replay fingerprint; `None` for AUTH_SYS.
    pub context: Option<u64>,
    /// The sender in the form that sessions and client records compare.
    pub sender: Principal,
}

impl Security {
    /// Makes an AUTH_SYS caller (RFC 5531 appendix A).
    pub fn sys(caller: Caller) -> Self {
        let sender = Principal::new(format!("sys:{}", caller.uid));
        Self {
            flavor: SecFlavor::Sys,
            principal: None,
            machine: false,
            delegated: false,
            caller: Some(caller),
            context: None,
            sender,
        }
    }

    /// Makes a Kerberos caller; `caller` is `None` when the principal has no account.
    pub fn gss(
        flavor: SecFlavor,
        principal: Arc<str>,
        machine: bool,
        caller: Option<Caller>,
        context: u64,
    ) -> Self {
        let sender = Principal::new(format!("gss:{principal}"));
        let (principal, context) = (Some(principal), Some(context));
        Self { flavor, principal, machine, delegated: false, caller, context, sender }
    }

    /// Returns whether the call came by RPCSEC_GSS.
    pub fn is_gss(&self) -> bool {
        self.principal.is_some()
    }

    /// Returns the protection of the call in transit.
    pub fn protection(&self) -> Protection {
        match self.flavor {
            SecFlavor::Sys => Protection::None,
            SecFlavor::Krb5 => Protection::Authentication,
            SecFlavor::Krb5i => Protection::Integrity,
            SecFlavor::Krb5p => Protection::Privacy,
        }
    }
}
