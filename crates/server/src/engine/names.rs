//! Valid file names (RFC 8881 section 14).
//!
//! A component is a string of bytes, as on the exported file system. It should be UTF-8, but need
//! not be, which fs_charset_cap tells clients (section 14.4). The bytes are kept: case and
//! normalisation matter. "." and "..", "/" and NUL are NFS4ERR_BADNAME.

use super::OpError;
use nfs4::Nfsstat4;

/// Longest component of a path, in bytes.
pub const NAME_MAX: usize = 255;

/// Checks one component of a path.
///
/// # Errors
/// NFS4ERR_INVAL for an empty name, NFS4ERR_NAMETOOLONG, NFS4ERR_BADNAME.
pub fn component(name: &[u8]) -> Result<&[u8], OpError> {
    if name.is_empty() {
        return Err(Nfsstat4::NFS4ERR_INVAL.into());
    }
    if name.len() > NAME_MAX {
        return Err(Nfsstat4::NFS4ERR_NAMETOOLONG.into());
    }
    if matches!(name, b"." | b"..") || name.iter().any(|byte| matches!(byte, b'/' | 0)) {
        return Err(Nfsstat4::NFS4ERR_BADNAME.into());
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(name: &[u8]) -> Option<Nfsstat4> {
        component(name).err().map(|error| error.status)
    }

    #[test]
    fn names_that_cannot_be_are_refused() // RFC 8881 section 14.5
    {
        assert_eq!(status(b"a"), None);
        assert_eq!(status("gr\u{fc}n \u{1f600}".as_bytes()), None);
        assert_eq!(status(b""), Some(Nfsstat4::NFS4ERR_INVAL));
        assert_eq!(status(b"gr\xfcn"), None, "ISO 8859-1");
        assert_eq!(status(b"."), Some(Nfsstat4::NFS4ERR_BADNAME));
        assert_eq!(status(b".."), Some(Nfsstat4::NFS4ERR_BADNAME));
        assert_eq!(status(b"..."), None);
        assert_eq!(status(b"a/b"), Some(Nfsstat4::NFS4ERR_BADNAME));
        assert_eq!(status(b"a\0b"), Some(Nfsstat4::NFS4ERR_BADNAME));
        assert_eq!(status(&[b'n'; 255]), None);
        assert_eq!(status(&[b'n'; 256]), Some(Nfsstat4::NFS4ERR_NAMETOOLONG));
    }
}
