//! Operations that differ in NFSv4.0 (RFC 7530 section 16): the ones that NFSv4.1 removed, and the
//! ones whose owners have sequence numbers.

pub mod close;
pub mod lock;
pub mod lockt;
pub mod locku;
pub mod open;
pub mod open_confirm;
pub mod open_downgrade;
pub mod release_lockowner;
pub mod renew;
pub mod secinfo;
mod sequenced;
pub mod setclientid;
pub mod setclientid_confirm;
