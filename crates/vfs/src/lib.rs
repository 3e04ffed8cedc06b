//! What an NFS server asks of a file system: the [`Backend`] trait, exports, the pseudo file system and a memory backend.

mod backend;
mod error;
mod types;

pub use backend::{Backend, OpenFile};
pub use error::{VfsError, VfsResult};
pub use types::*;
