//! One component of a path, ready for C.

use crate::{VfsError, VfsResult};
use std::ffi::CStr;

/// Longest name in bytes, NAME_MAX of Linux.
const NAME_MAX: usize = 255;

/// A checked name that ends in NUL.
#[derive(Clone, Copy, Debug)]
pub struct EntryName {
    bytes: [u8; NAME_MAX + 1],
    len: usize,
}

impl EntryName {
    /// Checks a name; a file system must never see one that leads elsewhere.
    ///
    /// # Errors
    /// `Nametoolong`, or `Badname` for "", ".", ".." and names with "/" or NUL.
    pub fn new(name: &[u8]) -> VfsResult<Self> {
        if name.len() > NAME_MAX {
            return Err(VfsError::Nametoolong);
        }
        if matches!(name, b"" | b"." | b"..") || name.iter().any(|byte| matches!(byte, b'/' | 0)) {
            return Err(VfsError::Badname);
        }
        let mut bytes = [0; NAME_MAX + 1];
        bytes.get_mut(..name.len()).ok_or(VfsError::Nametoolong)?.copy_from_slice(name);
        Ok(Self { bytes, len: name.len() })
    }

    /// Returns the name with a NUL behind it.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }

    /// Returns the name's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in [&b""[..], b".", b"..", b"a/b", b"/", b"a\0b"] {
            assert_eq!(EntryName::new(name).err(), Some(VfsError::Badname));
        }
        assert_eq!(EntryName::new(&[b'x'; 256]).err(), Some(VfsError::Nametoolong));
        assert_eq!(EntryName::new(b"...").unwrap().as_c_str(), c"...");
        assert_eq!(EntryName::new(&[b'x'; 255]).unwrap().as_bytes().len(), 255);
    }
}
