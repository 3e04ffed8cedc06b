//! The creator of a client, and the hash of it that survives a restart.
//!
//! The right to reclaim belongs to a client owner and a principal: after a restart any peer can
//! send the name of a client owner. The record is a hash of the principal that RPCSEC_GSS proved,
//! or of the address where AUTH_SYS proves nothing. The address is a weak proof, and better than
//! none: it costs a client its opens only when the server restarts and the client's address changes
//! within one lease. The user id is left out, since any sender from that address can claim any. A
//! client with a proved principal can therefore never be replaced over AUTH_SYS, nor the other way
//! round.

use crate::clients::tenants::TenantName;
use crate::{Caller, Principal, Protection};
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;
use std::net::IpAddr;
use std::sync::Arc;

/// A hash of the principal that may reclaim a client's state, under a key that stays over restarts:
/// equal when the same principal comes again, and useless to a reader of the records who looks for
/// its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PrincipalHash(pub [u8; 16]);

impl PrincipalHash {
    /// Hashes the proved principal of a caller, or its address.
    pub fn of(key: &[u8; 16], caller: &Caller<'_>) -> Self {
        let mut hasher = SipHasher24::new_with_key(key);
        match TenantName::of(caller) {
            TenantName::Principal(name) => {
                hasher.write(b"p");
                hasher.write(&name);
            }
            TenantName::Address(IpAddr::V4(address)) => {
                hasher.write(b"4");
                hasher.write(&address.octets());
            }
            TenantName::Address(IpAddr::V6(address)) => {
                hasher.write(b"6");
                hasher.write(&address.octets());
            }
        }
        Self(hasher.finish128().as_bytes())
    }
}

/// The creator of a client, by EXCHANGE_ID or SETCLIENTID.
#[derive(Clone, Debug)]
pub(crate) struct Creator {
    pub(crate) principal: Principal,
    /// The hash that survives a restart.
    pub(crate) hash: PrincipalHash,
    /// RPCSEC_GSS proved the principal.
    pub(crate) proved: bool,
    pub(super) address: IpAddr,
}

impl Creator {
    /// Returns the name of the client's tenant.
    pub(crate) fn tenant(&self) -> TenantName {
        match self.proved {
            true => TenantName::Principal(Arc::clone(&self.principal.0)),
            false => TenantName::of_address(self.address),
        }
    }

    pub(crate) fn of(key: &[u8; 16], caller: &Caller<'_>) -> Self {
        Self {
            principal: caller.principal.clone(),
            hash: PrincipalHash::of(key, caller),
            proved: is_proved(caller),
            address: caller.address.to_canonical(),
        }
    }

    /// Returns the address that it came from.
    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// Whether the caller has the principal of the creator.
    pub(crate) fn is(&self, caller: &Caller<'_>) -> bool {
        self.principal == *caller.principal
    }

    /// Whether the caller belongs to the machine of the creator: it has the creator's principal, or
    /// comes from its address with no weaker a proof. Users of an NFSv4.0 client send their OPENs
    /// with credentials of their own.
    pub(crate) fn is_near(&self, caller: &Caller<'_>) -> bool {
        let ranks = is_proved(caller) || !self.proved;
        self.is(caller) || (ranks && self.shares_address(caller))
    }

    /// Whether the caller comes from the creator's address.
    pub(crate) fn shares_address(&self, caller: &Caller<'_>) -> bool {
        self.address == caller.address.to_canonical()
    }
}

fn is_proved(caller: &Caller<'_>) -> bool {
    caller.protection >= Protection::Authentication
}
