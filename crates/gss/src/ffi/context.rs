//! Context establishment, one token at a time.

use std::ptr;
use std::time::Duration;

use super::credential::Cred;
use super::lucid::Exported;
use super::name::GssName;
use super::raw;
use super::status::{Owned, check, error};
use crate::error::{GssError, Status, major};

/// A context of the library, deleted on drop.
struct LibraryContext(raw::CtxId);

// SAFETY: a context has one owner at a time, and MIT keeps no thread-local state for it.
unsafe impl Send for LibraryContext {}

impl LibraryContext {
    /// Exports the keys, which ends the context in the library.
    fn export(mut self) -> Result<Exported, GssError> {
        let mut lucid = ptr::null_mut();
        let mut minor = 0;
        // SAFETY: the context is established; on success the library frees it and sets the pointer
        // to null, so that `drop` does not delete it.
        let major = unsafe {
            raw::gss_krb5_export_lucid_sec_context(
                &raw mut minor,
                &raw mut self.0,
                raw::LUCID_VERSION,
                &raw mut lucid,
            )
        };
        check(major, minor)?;
        Exported::new(lucid)
    }

    /// Returns the name of the peer that this side (the initiator) requested, as in the ticket.
    fn target(&self) -> Result<String, GssError> {
        let mut name = GssName(ptr::null_mut());
        let mut minor = 0;
        // SAFETY: the context is established; `name` owns the returned name; unwanted outputs are
        // null.
        let major = unsafe {
            raw::gss_inquire_context(
                &raw mut minor,
                self.0,
                ptr::null_mut(),
                &raw mut name.0,
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        check(major, minor)?;
        name.display()
    }
}

impl Drop for LibraryContext {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the context is null or came from the library, and is deleted once; no token is
        // requested.
        unsafe { raw::gss_delete_sec_context(&raw mut minor, &raw mut self.0, ptr::null_mut()) };
    }
}

/// The part of a PAC that names the services of a delegation, as MIT's library names it.
const DELEGATION_INFO: &str = "urn:mspac:delegation-info";

/// The result of an acceptance: reply token, peer's principal, the services that its ticket was
/// delegated through, keys and their lifetime.
pub(crate) struct AcceptedToken {
    /// The ticket-granting ticket that the peer has forwarded, if it has.
    pub forwarded: Option<Cred>,
    pub delegated_through: Vec<String>,
    pub reply: Vec<u8>,
    pub principal: String,
    pub keys: Exported,
    pub lifetime: Duration,
}

/// Accepts a context. One step is enough for every Kerberos context without the DCE style. Takes
/// the ticket that the peer has forwarded only if `takes_forwarded`.
///
/// # Errors
/// Classified by the library's codes; `MalformedToken` for a context that would need another token.
pub(crate) fn accept(cred: &Cred, token: &[u8], takes_forwarded: bool) -> Result<AcceptedToken, GssError> {
    let input = raw::Buffer::lend(token);
    let mut context = LibraryContext(ptr::null_mut());
    let mut peer = GssName(ptr::null_mut());
    let mut reply = Owned::new();
    let mut delegated = Cred(ptr::null_mut());
    let (mut minor, mut lifetime) = (0, 0);
    // SAFETY: `input` lends bytes for the call; every output is a live local that owns its result,
    // or null where it is unwanted.
    let major = unsafe {
        raw::gss_accept_sec_context(
            &raw mut minor,
            &raw mut context.0,
            cred.0,
            &raw const input,
            ptr::null(),
            &raw mut peer.0,
            ptr::null_mut(),
            &raw mut reply.0,
            ptr::null_mut(),
            &raw mut lifetime,
            if takes_forwarded { &raw mut delegated.0 } else { ptr::null_mut() },
        )
    };
    check(major, minor)?;
    if major & major::CONTINUE_NEEDED != 0 {
        return Err(unfinished("the client asks for a third token (DCE style), which NFS does not use"));
    }
    let lifetime = remaining(lifetime)?;
    let delegation = peer.attribute(DELEGATION_INFO);
    // A delegation that cannot be read is one nevertheless.
    let unreadable = || vec!["a service whose name cannot be read".to_owned()];
    Ok(AcceptedToken {
        forwarded: (!delegated.0.is_null()).then_some(delegated),
        delegated_through: delegation
            .map_or_else(Vec::new, |info| krb5::delegated_through(&info).unwrap_or_else(unreadable)),
        reply: reply.as_slice().to_vec(),
        principal: peer.display()?,
        keys: context.export()?,
        lifetime,
    })
}

/// A context that is being initiated.
pub(crate) struct Initiation {
    context: LibraryContext,
    cred: Cred,
    target: GssName,
    /// Whether the peer gets a forwarded ticket-granting ticket.
    forwards: bool,
}

/// The result of one step of an initiation.
pub(crate) enum Advance {
    /// A token for the peer, which must answer.
    Send(Vec<u8>),
    /// The context is established.
    Done { token: Vec<u8>, principal: String, keys: Exported, lifetime: Duration },
}

impl Initiation {
    pub(crate) fn new(cred: Cred, target: GssName, forwards: bool) -> Self {
        Self { context: LibraryContext(ptr::null_mut()), cred, target, forwards }
    }

    /// Takes the peer's token (`None` in the first step) and makes the next one.
    ///
    /// Requests mutual authentication, integrity and confidentiality. Does not request replay and
    /// sequence detection: RFC 2203 section 5.2.2 requires them off, because RPCSEC_GSS has its own
    /// sequence window, and threads that share a context send in any order.
    pub(crate) fn step(&mut self, token: Option<&[u8]>) -> Result<Advance, GssError> {
        let input = token.map_or(raw::Buffer::empty(), raw::Buffer::lend);
        let mut output = Owned::new();
        let (mut minor, mut lifetime, mut flags) = (0, 0, 0);
        let forwarding = if self.forwards { raw::C_DELEG_FLAG } else { 0 };
        // SAFETY: credential, target and context are live and owned; `input` lends bytes for the
        // call; outputs are live locals that own their results.
        let major = unsafe {
            raw::gss_init_sec_context(
                &raw mut minor,
                self.cred.0,
                &raw mut self.context.0,
                self.target.0,
                raw::gss_mech_krb5,
                raw::C_MUTUAL_FLAG | raw::C_CONF_FLAG | raw::C_INTEG_FLAG | forwarding,
                0,
                ptr::null(),
                &raw const input,
                ptr::null_mut(),
                &raw mut output.0,
                &raw mut flags,
                &raw mut lifetime,
            )
        };
        if major & (major::ROUTINE_MASK | major::CALLING_MASK) != 0 {
            return Err(error(major, minor));
        }
        if flags & forwarding != forwarding {
            return Err(unfinished("the KDC forwards no ticket: get a forwardable one by `kinit -f -r 7d`"));
        }
        let token = output.as_slice().to_vec();
        if major & major::CONTINUE_NEEDED != 0 {
            return Ok(Advance::Send(token));
        }
        if flags & raw::C_MUTUAL_FLAG == 0 {
            return Err(unfinished("the server did not prove who it is (no mutual authentication)"));
        }
        let context = std::mem::replace(&mut self.context, LibraryContext(ptr::null_mut()));
        let principal = context.target()?;
        Ok(Advance::Done { token, principal, keys: context.export()?, lifetime: remaining(lifetime)? })
    }
}

/// Returns the time that a ticket has left, from seconds of the library.
///
/// MIT's library up to 1.20 computes a signed number and returns its bits: a ticket that has ended
/// since the library checked it has the lifetime -1. GSS_C_INDEFINITE has the same bits, but no
/// ticket lacks an end (RFC 4120 section 5.3).
///
/// # Errors
/// `TicketExpired` if there is no time left.
fn remaining(lifetime: u32) -> Result<Duration, GssError> {
    match u64::try_from(lifetime.cast_signed()) {
        Ok(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds)),
        _ => {
            let text = "the ticket has expired at this moment".to_owned();
            Err(GssError::TicketExpired(Status { major: major::CREDENTIALS_EXPIRED, minor: 0, text }))
        }
    }
}

fn unfinished(text: &str) -> GssError {
    GssError::MalformedToken(Status { major: major::DEFECTIVE_TOKEN, minor: 0, text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_that_ends_while_it_is_accepted_has_expired() {
        assert_eq!(remaining(300), Ok(Duration::from_secs(300)));
        for ended in [0, u32::MAX, u32::MAX - 299] {
            assert!(matches!(remaining(ended), Err(GssError::TicketExpired(_))), "{ended:#x}");
        }
    }
}
