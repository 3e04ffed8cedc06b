//! Counters of calls and operations, and the times of calls. The other modules write them; the
//! program's metrics page and log read them.
//!
//! A counter on the path of a call is an atomic of its own cache line or shard, or is updated once
//! a tick.

mod counters;
pub(crate) mod errno;
mod lags;
mod outcomes;
mod places;
mod served;
mod subject;
mod times;

pub use counters::{Denials, Metrics};
pub(crate) use counters::{Reports, Trouble};
pub use lags::Lags;
pub(crate) use lags::TickLags;
pub use outcomes::Outcomes;
pub use served::{BatchSeries, CryptoStep, RequestSeries, ServedCounters, ServedRequests};
pub(crate) use served::{LentCounters, ServedCall, TimeClasses};
pub use subject::RequestSubject;
pub use times::{Kind, Stage, Times};
pub(crate) use times::{TickWatch, Work, only};
