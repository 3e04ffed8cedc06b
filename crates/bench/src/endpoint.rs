//! The operations that workloads need from a mounted export.

use crate::Tree;
use anyhow::Result;
use std::time::Duration;

/// One flavor's access to the server: one file to read and write, with many requests in flight, and
/// a folder for the files of a [`Tree`].
///
/// The caller chooses a tag for each request; [`Endpoint::poll`] returns completed requests in any
/// order.
///
/// # Errors
/// Every method fails with the error of the server.
pub trait Endpoint: Tree {
    /// The largest number of requests that can be in flight.
    fn depth_max(&self) -> usize;

    /// The largest read in bytes.
    fn read_size_max(&self) -> usize;

    /// The largest write in bytes.
    fn write_size_max(&self) -> usize;

    /// Makes the folder and, in it, an empty file for reads and writes.
    ///
    /// # Errors
    /// Any error of the server, for example because the user may not write there.
    fn prepare(&mut self) -> Result<()>;

    /// Starts a read.
    ///
    /// # Errors
    /// A lost connection, or more in flight than [`Endpoint::depth_max`].
    fn start_read(&mut self, tag: usize, offset: u64, length: usize) -> Result<()>;

    /// Starts a write of data that need not be on stable storage before [`Endpoint::commit`].
    ///
    /// # Errors
    /// The errors of [`Endpoint::start_read`].
    fn start_write(&mut self, tag: usize, offset: u64, data: &[u8]) -> Result<()>;

    /// Passes each completed request to `done`, and returns their number. Waits for the first for
    /// at most `timeout`, or for as long as an answer may take.
    ///
    /// # Errors
    /// A failed request, a missing answer, or the error of `done`.
    fn poll(
        &mut self,
        timeout: Option<Duration>,
        done: &mut dyn FnMut(usize, Finished<'_>) -> Result<()>,
    ) -> Result<usize>;

    /// Brings all that was written to stable storage.
    fn commit(&mut self) -> Result<()>;

    /// Removes the file and the folder and ends the session.
    fn finish(&mut self) -> Result<()>;
}

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished<'a> {
    /// A read, with its data.
    Read(&'a [u8]),
    /// A write, with the number of bytes that were taken.
    Written(usize),
    /// The server has done nothing, and asks to try later.
    Delayed,
}
