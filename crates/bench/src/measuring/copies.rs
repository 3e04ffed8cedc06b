//! Loads of whole files: copies to the server, and reads with caches in a stated condition.

use serde::{Deserialize, Serialize};

/// Files that are copied to the server, one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyLoad {
    /// Number of files of one copy.
    pub files: u64,
    /// Bytes of each file.
    pub size: u64,
    /// Whether they hold zeros, or else random bytes.
    pub zeros: bool,
    /// How often they are copied in one repetition; more than once where one copy is too short to
    /// be timed.
    pub times: u32,
}

impl CopyLoad {
    /// Returns the bytes of all files once.
    pub fn bytes(&self) -> u64 {
        self.files.saturating_mul(self.size)
    }
}

/// A file that is read from the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetch {
    /// Size of the file in bytes.
    pub size: u64,
    /// Whether the client forgets it before each time. The project's client keeps nothing in any
    /// case.
    pub client_cold: bool,
    /// Whether the server's system forgets it before each time, and so has to read its disk.
    pub server_cold: bool,
}
