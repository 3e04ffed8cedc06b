//! The operations on [`State`], grouped: each handle is a reference that costs nothing to make.

use crate::State;

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident, $make:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub struct $name<'s, F, O> {
                pub(crate) state: &'s State<F, O>,
            }

            impl<F, O> Clone for $name<'_, F, O> {
                fn clone(&self) -> Self {
                    *self
                }
            }

            impl<F, O> Copy for $name<'_, F, O> {}
        )*

        impl<F, O> State<F, O> {
            $(
                $(#[$doc])*
                pub fn $make(&self) -> $name<'_, F, O> {
                    $name { state: self }
                }
            )*
        }
    };
}

handles! {
    /// Client records: EXCHANGE_ID, DESTROY_CLIENTID, state protection, and the limits of each
    /// client and tenant (RFC 8881 section 2.4).
    Clients, clients;
    /// Leases, their courtesy extension and the grace period (RFC 8881 sections 8.3 and 8.4).
    Leases, leases;
    /// Sessions, slots, the reply cache and connections (RFC 8881 section 2.10).
    Sessions, sessions;
    /// Backchannels: where and how to send a callback, and how it ended (RFC 8881 sections 2.10.3.1
    /// and 20).
    Callbacks, callbacks;
    /// Opens and share reservations, and the access that READ and WRITE have by a stateid (RFC 8881
    /// section 9).
    Opens, opens;
    /// Byte-range locks and the clients that wait for them (RFC 8881 sections 9.1 and 18.10 to
    /// 18.12).
    Locks, locks;
    /// Delegations, their recall and revocation, and CB_GETATTR (RFC 8881 section 10.4).
    Delegations, delegations;
    /// Copies that continue after the reply to COPY (RFC 7862 section 4).
    Copies, copies;
    /// Requests of NFSv4.0 clients, which have no sessions (RFC 7530).
    V40, v40;
}
