//! Tests without a socket: time is moved by hand, and a test reads like a client's actions.

mod callbacks;
mod checks;
mod connections;
mod copies;
mod create_session;
mod delegations;
mod exchange_id;
mod grace;
mod images;
mod leases;
mod limits;
mod listing;
mod locks;
mod mach_cred;
mod opens;
mod quotas;
mod random;
mod revocation;
mod sequence;
mod shared;
mod statuses;
mod tenants;
mod threads;
mod v40;
mod world;
