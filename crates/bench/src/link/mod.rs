//! A network of limited rate between client and server: two network namespaces, a pair of virtual
//! devices (veth) between them, and a rate limit at each end.
//!
//! Loopback copies bytes as fast as processors do, so over it the cost of protection is its
//! processor time. Over a link that is slower than the processors, the cost is the bytes it adds to
//! the link, and latency.

mod network;
mod spec;

pub use network::{Link, at_server, listen};
pub use spec::LinkSpec;
