//! What a workload asks of a mounted export.

use anyhow::Result;
use std::time::Duration;

/// One flavor's way to the server: one file to read and write, with many requests in flight, and a
/// folder for small files.
///
/// Requests are started with a tag of the caller's choice; [`Endpoint::poll`] hands back what has
/// finished, in any order.
pub trait Endpoint {
    /// The largest number of requests that can be in flight.
    fn depth_max(&self) -> usize;

    /// The largest read, or write, in bytes.
    fn io_size_max(&self, write: bool) -> usize;

    /// Makes the folder and, in it, an empty file that reads and writes go to.
    ///
    /// # Errors
    /// Whatever the server answers, such as that the user may not write there.
    fn prepare(&mut self) -> Result<()>;

    /// Starts a read.
    ///
    /// # Errors
    /// A lost connection, or more in flight than [`Endpoint::depth_max`].
    fn start_read(&mut self, tag: usize, offset: u64, length: usize) -> Result<()>;

    /// Starts a write of data that need not be on stable storage before [`Endpoint::commit`].
    ///
    /// # Errors
    /// Those of [`Endpoint::start_read`].
    fn start_write(&mut self, tag: usize, offset: u64, data: &[u8]) -> Result<()>;

    /// Hands each request that has finished to `done`, and returns how many. Waits for the first at
    /// most `timeout`; without one it waits as long as an answer may take.
    ///
    /// # Errors
    /// A failed request, an answer that does not come, or what `done` returns.
    fn poll(
        &mut self,
        timeout: Option<Duration>,
        done: &mut dyn FnMut(usize, Finished<'_>) -> Result<()>,
    ) -> Result<usize>;

    /// Brings all that was written to stable storage.
    ///
    /// # Errors
    /// The server's.
    fn commit(&mut self) -> Result<()>;

    /// Makes an empty file in the folder and closes it.
    ///
    /// # Errors
    /// The server's.
    fn create(&mut self, name: &str) -> Result<()>;

    /// Looks a file up and asks for its attributes.
    ///
    /// # Errors
    /// The server's.
    fn stat(&mut self, name: &str) -> Result<()>;

    /// Renames a file within the folder.
    ///
    /// # Errors
    /// The server's.
    fn rename(&mut self, from: &str, to: &str) -> Result<()>;

    /// Lists the whole folder with attributes and returns the number of entries.
    ///
    /// # Errors
    /// The server's.
    fn list(&mut self) -> Result<usize>;

    /// Removes a file.
    ///
    /// # Errors
    /// The server's.
    fn remove(&mut self, name: &str) -> Result<()>;

    /// Removes the file and the folder and ends the session.
    ///
    /// # Errors
    /// The server's.
    fn finish(&mut self) -> Result<()>;
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished<'a> {
    /// A read, with what was read.
    Read(&'a [u8]),
    /// A write, with the number of bytes that were taken.
    Written(usize),
}
