//! The operations of metadata loads on a folder tree.

use anyhow::Result;

/// A folder tree at the server, by paths below the endpoint's own folder: `objects/ab`.
///
/// # Errors
/// Every method fails with the error of the server.
pub trait Tree {
    /// Makes a folder below one that is there.
    fn make_folder(&mut self, path: &str) -> Result<()>;

    /// Makes an empty file and closes it, both in one request.
    fn make_file(&mut self, path: &str) -> Result<()>;

    /// Makes a file that is not there yet, writes it, and closes it.
    fn write_file(&mut self, path: &str, data: &[u8]) -> Result<()>;

    /// Opens a file, reads all of it, and closes it.
    fn read_file(&mut self, path: &str) -> Result<Vec<u8>>;

    /// Looks a file up and asks for its attributes.
    fn look_at(&mut self, path: &str) -> Result<()>;

    /// Renames a file, over another if there is one.
    fn move_file(&mut self, from: &str, to: &str) -> Result<()>;

    /// Lists a folder and returns the number of entries.
    fn list_folder(&mut self, path: &str) -> Result<usize>;

    /// Removes a file that is there.
    fn remove_file(&mut self, path: &str) -> Result<()>;

    /// Removes an empty folder.
    fn remove_folder(&mut self, path: &str) -> Result<()>;
}
