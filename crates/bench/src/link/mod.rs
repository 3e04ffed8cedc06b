//! A network between client and server that is not endless, as loopback is: two network namespaces,
//! a pair of virtual devices (veth) between them, and at each end a limit of the rate.
//!
//! Loopback copies bytes as fast as processors do, so that over it protection costs what its
//! processor time costs. Over a link that is slower than the processors it costs what it takes away
//! from the link, and latency.

mod network;
mod spec;

pub use network::{Link, at_server, listen};
pub use spec::LinkSpec;
