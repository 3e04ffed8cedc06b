//! The runtime: builds a server and decides where its calls run.
//!
//! [`Builder`] wires a server from its parts. A shard runs calls until one would wait.
//! [`NfsService`] defers such a call: brief ones to the end of the tick, others to a pool, or until
//! a client answers a callback. Calls that changed names wait for stable storage in groups. An
//! [`Executor`] runs the pools: [`Threads`] in the program, [`Deterministic`] in the simulator.

mod builder;
mod counts;
mod executor;
mod group_commit;
pub mod housekeeping;
mod image;
mod lane_times;
mod parked;
mod pool;
mod quiet;
mod service;

pub use builder::Builder;
pub use counts::{CommitCounts, PoolCounts, ServiceCounts};
pub use executor::{Deterministic, Executor, StepPool, TaskPool, Threads};
pub use image::ServerImage;
/// The interface of the service, for callers that simulate the network layer.
pub use net::{Action, CompletionEvent, CompletionSender, Reply, Request, Service};
pub use pool::{Pool, PoolLimits, QueueKey};
pub use quiet::{Gate, Inside};
pub use service::{CallStep, Callbacks, NfsService, ShardMemory};
