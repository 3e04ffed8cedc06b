//! Admits connections from local programs of root or of the server's own user only.
//!
//! Servers of trials and benchmarks belong to the program that starts them. AUTH_SYS proves
//! nothing, and any local user reaches loopback, but the kernel knows the owner of the peer's
//! socket.

use net::Admission;
use nix::unistd::geteuid;

/// The rule, for a listener of this process.
pub(super) fn admission() -> Box<Admission> {
    let me = geteuid().as_raw();
    Box::new(move |peer, own| match net::owner(peer, own) {
        Ok(Some(user)) if user == me || user == 0 => true,
        Ok(user) => {
            tracing::debug!(
                "connection from {peer} closed: it is of user {user:?}, and --same-user admits {me}"
            );
            false
        }
        Err(error) => {
            tracing::debug!("connection from {peer} closed: the kernel does not say whose it is: {error}");
            false
        }
    })
}
