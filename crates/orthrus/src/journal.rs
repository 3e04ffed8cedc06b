//! Entries for systemd's journal by its native protocol.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// The socket of the journal, see systemd-journald.service(8).
const JOURNAL_SOCKET: &str = "/run/systemd/journal/socket";

/// A sender of entries.
pub(crate) struct JournalSocket {
    socket: UnixDatagram,
    path: PathBuf,
}

impl JournalSocket {
    /// Makes a sender to the system's journal.
    ///
    /// # Errors
    /// No journal is there.
    pub(crate) fn open() -> io::Result<Self> {
        Self::open_at(Path::new(JOURNAL_SOCKET))
    }

    pub(crate) fn open_at(path: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        // The next entry finds a journal that was started again.
        std::fs::symlink_metadata(path)?;
        Ok(Self { socket, path: path.to_owned() })
    }

    /// Sends an entry. It waits while the journal is behind.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn send(&self, entry: &[u8]) -> io::Result<()> {
        self.socket.send_to(entry, &self.path).map(drop)
    }
}

/// Writes an entry: each field with the length of its value, which may then have any characters.
pub(crate) fn entry<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<u8> {
    let mut entry = Vec::new();
    for (name, value) in fields {
        entry.extend_from_slice(name.as_bytes());
        entry.push(b'\n');
        entry.extend_from_slice(&(value.len() as u64).to_le_bytes());
        entry.extend_from_slice(value.as_bytes());
        entry.push(b'\n');
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_with_lines_is_no_other_field() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        assert!(JournalSocket::open_at(&path).is_err());
        let reader = UnixDatagram::bind(&path).unwrap();
        let journal = JournalSocket::open_at(&path).unwrap();
        journal.send(&entry([("MESSAGE", "a\nPRIORITY=0"), ("PRIORITY", "6")])).unwrap();
        let mut entry = [0; 100];
        let length = reader.recv(&mut entry).unwrap();
        assert_eq!(
            &entry[..length],
            b"MESSAGE\n\x0c\0\0\0\0\0\0\0a\nPRIORITY=0\nPRIORITY\n\x01\0\0\0\0\0\0\x006\n"
        );
    }
}
