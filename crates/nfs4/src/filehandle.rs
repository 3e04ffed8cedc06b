//! This server's filehandles (RFC 8881 section 4.2): opaque to clients, not to be forged, valid for
//! as long as the key and the object exist.
//!
//! ```text
//! +---------+-----------+------------------------+----------+
//! | version | export id | handle of the backend  | checksum |
//! | 1 byte  | 4 bytes   | 0 to 96 bytes          | 8 bytes  |
//! +---------+-----------+------------------------+----------+
//! ```
//!
//! The checksum is a SipHash-2-4 of everything before it, under a key that the caller keeps.
//! Without it, a client that guesses inode numbers reaches files that no directory it may read
//! leads to.

use siphasher::sip::SipHasher24;

use crate::NFS4_FHSIZE;

/// The longest handle of a backend, in bytes.
pub const OBJECT_HANDLE_MAX: usize = 96;

const VERSION: u8 = 1;
const HEADER: usize = 1 + 4;
const CHECKSUM: usize = 8;

/// The longest filehandle that this server gives, in bytes.
pub const FILEHANDLE_MAX: usize = HEADER + OBJECT_HANDLE_MAX + CHECKSUM;

const _: () = assert!(FILEHANDLE_MAX <= NFS4_FHSIZE as usize);

/// The secret that makes filehandles hard to forge. A server that keeps it across restarts keeps
/// its filehandles valid across restarts.
#[derive(Clone)]
pub struct FilehandleKey([u8; 16]);

impl FilehandleKey {
    /// Makes a key of 16 random bytes.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    fn checksum(&self, bytes: &[u8]) -> [u8; CHECKSUM] {
        SipHasher24::new_with_key(&self.0).hash(bytes).to_be_bytes()
    }
}

impl std::fmt::Debug for FilehandleKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("FilehandleKey(..)")
    }
}

/// The reason why bytes are no filehandle of this server. A client always gets NFS4ERR_BADHANDLE,
/// so that a forger learns nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilehandleError {
    /// Too short or too long to be one.
    #[error("{0} bytes are no filehandle of this server")]
    Length(usize),
    /// Made by another version of this server.
    #[error("filehandle of unknown version {0}")]
    Version(u8),
    /// Forged, damaged, or made under another key.
    #[error("filehandle with a wrong checksum")]
    Checksum,
    /// A backend gave a handle longer than [`OBJECT_HANDLE_MAX`].
    #[error("backend handle of {0} bytes")]
    ObjectHandle(usize),
}

/// The contents of a filehandle: an export and an object in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Filehandle<'a> {
    /// Number of the export; the same after a restart.
    pub export: u32,
    /// The backend's handle of the object, at most [`OBJECT_HANDLE_MAX`] bytes.
    pub object: &'a [u8],
}

impl<'a> Filehandle<'a> {
    /// Appends the filehandle's bytes to `out`, without a length in front.
    ///
    /// # Errors
    /// [`FilehandleError::ObjectHandle`]; nothing is appended then.
    pub fn append_to(&self, key: &FilehandleKey, out: &mut Vec<u8>) -> Result<(), FilehandleError> {
        if self.object.len() > OBJECT_HANDLE_MAX {
            return Err(FilehandleError::ObjectHandle(self.object.len()));
        }
        let start = out.len();
        out.push(VERSION);
        out.extend_from_slice(&self.export.to_be_bytes());
        out.extend_from_slice(self.object);
        let checksum = key.checksum(out.get(start..).unwrap_or_default());
        out.extend_from_slice(&checksum);
        Ok(())
    }

    /// Returns the filehandle's bytes.
    ///
    /// # Errors
    /// [`FilehandleError::ObjectHandle`].
    pub fn encode(&self, key: &FilehandleKey) -> Result<Vec<u8>, FilehandleError> {
        let mut bytes = Vec::with_capacity(HEADER + self.object.len() + CHECKSUM);
        self.append_to(key, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns the number of the export that a filehandle claims to belong to, before its checksum
    /// is verified: exports can have keys of their own.
    pub fn claimed_export(bytes: &[u8]) -> Option<u32> {
        let (_, rest) = bytes.split_first()?;
        rest.first_chunk().map(|export| u32::from_be_bytes(*export))
    }

    /// Reads a filehandle that a client sent.
    ///
    /// # Errors
    /// Any [`FilehandleError`] but `ObjectHandle`: NFS4ERR_BADHANDLE (RFC 8881 section 15.1.2.1).
    pub fn decode(key: &FilehandleKey, bytes: &'a [u8]) -> Result<Self, FilehandleError> {
        if bytes.len() > FILEHANDLE_MAX {
            return Err(FilehandleError::Length(bytes.len()));
        }
        let length = FilehandleError::Length(bytes.len());
        let (covered, checksum) = bytes.split_last_chunk::<CHECKSUM>().ok_or(length)?;
        let (version, rest) = covered.split_first().ok_or(length)?;
        let (export, object) = rest.split_first_chunk::<4>().ok_or(length)?;
        if *version != VERSION {
            return Err(FilehandleError::Version(*version));
        }
        // Compared as one integer: there is no early end from which a forger learns byte after
        // byte.
        if u64::from_be_bytes(*checksum) != u64::from_be_bytes(key.checksum(covered)) {
            return Err(FilehandleError::Checksum);
        }
        Ok(Self { export: u32::from_be_bytes(*export), object })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: FilehandleKey = FilehandleKey::new(*b"sixteen bytes...");

    fn encoded(export: u32, object: &[u8]) -> Vec<u8> {
        Filehandle { export, object }.encode(&KEY).unwrap_or_default()
    }

    #[test]
    fn a_filehandle_of_every_length_comes_back_as_it_was() {
        // RFC 8881 section 4.2.2
        let object: Vec<u8> = (0..OBJECT_HANDLE_MAX as u8).collect();
        for length in 0..=OBJECT_HANDLE_MAX {
            let bytes = encoded(7 << 24, &object[..length]);
            assert!(bytes.len() <= NFS4_FHSIZE as usize);
            let filehandle = Filehandle { export: 7 << 24, object: &object[..length] };
            assert_eq!(Filehandle::decode(&KEY, &bytes), Ok(filehandle));
        }
    }

    #[test]
    fn a_filehandle_with_any_bit_changed_is_refused() {
        // RFC 8881 section 15.1.2.1
        let bytes = encoded(1, b"an inode and a generation");
        for bit in 0..bytes.len() * 8 {
            let mut forged = bytes.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert!(Filehandle::decode(&KEY, &forged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_truncated_or_extended_filehandle_is_refused() {
        // RFC 8881 section 15.1.2.1
        let bytes = encoded(1, b"an inode and a generation");
        for length in 0..bytes.len() {
            assert!(Filehandle::decode(&KEY, &bytes[..length]).is_err(), "{length} bytes");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(Filehandle::decode(&KEY, &longer), Err(FilehandleError::Checksum));
        assert_eq!(Filehandle::decode(&KEY, &[1; 128]), Err(FilehandleError::Length(128)));
    }

    #[test]
    fn a_filehandle_made_under_another_key_is_refused() {
        let bytes = encoded(1, b"object");
        let other = FilehandleKey::new([0; 16]);
        assert_eq!(Filehandle::decode(&other, &bytes), Err(FilehandleError::Checksum));
    }

    #[test]
    fn a_handle_too_long_for_a_filehandle_is_refused_when_it_is_made() {
        let filehandle = Filehandle { export: 0, object: &[0; OBJECT_HANDLE_MAX + 1] };
        assert_eq!(filehandle.encode(&KEY), Err(FilehandleError::ObjectHandle(97)));
    }

    #[test]
    fn the_key_is_not_printed() {
        assert_eq!(format!("{KEY:?}"), "FilehandleKey(..)");
    }
}
