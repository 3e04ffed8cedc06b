//! Blocking GETXATTR, SETXATTR, LISTXATTRS and REMOVEXATTR of NFSv4.2 (RFC 8276).

use nfs4::*;

use crate::client::Client;
use crate::error::Error;

/// The reply size that LISTXATTRS requests, in bytes of names.
const LIST_COUNT: u32 = 16 << 10;

impl Client {
    /// Reads an extended attribute.
    ///
    /// # Errors
    /// The errors of GETXATTR, such as NFS4ERR_NOXATTR.
    pub fn get_xattr(&mut self, handle: &[u8], name: &[u8]) -> Result<Vec<u8>, Error> {
        let operation = NfsArgop4::OP_GETXATTR(Getxattr4Args { gxa_name: name.into() });
        self.on(handle, &operation, |results, number| {
            Ok(results.take::<Xattrvalue4<'_>>(number)?.into_owned())
        })
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// The errors of SETXATTR, such as NFS4ERR_XATTR2BIG.
    pub fn set_xattr(
        &mut self,
        handle: &[u8],
        how: SetxattrOption4,
        name: &[u8],
        value: &[u8],
    ) -> Result<ChangeInfo4, Error> {
        let args = Setxattr4Args { sxa_option: how, sxa_key: name.into(), sxa_value: value.into() };
        let operation = NfsArgop4::OP_SETXATTR(args);
        self.on(handle, &operation, |results, number| results.take(number))
    }

    /// Lists the names of all extended attributes.
    pub fn list_xattrs(&mut self, handle: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let (mut names, mut cookie) = (Vec::new(), 0);
        loop {
            let args = Listxattrs4Args { lxa_cookie: cookie, lxa_maxcount: LIST_COUNT };
            let part = self.on(handle, &NfsArgop4::OP_LISTXATTRS(args), |results, number| {
                Ok(results.take::<Listxattrs4Resok<'_>>(number)?.into_owned())
            })?;
            // Stop if the server makes no progress.
            let stuck = part.lxr_names.is_empty();
            names.extend(part.lxr_names.into_iter().map(|name| name.into_owned()));
            if part.lxr_eof || stuck {
                return Ok(names);
            }
            cookie = part.lxr_cookie;
        }
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// The errors of REMOVEXATTR, such as NFS4ERR_NOXATTR.
    pub fn remove_xattr(&mut self, handle: &[u8], name: &[u8]) -> Result<ChangeInfo4, Error> {
        let operation = NfsArgop4::OP_REMOVEXATTR(Removexattr4Args { rxa_name: name.into() });
        self.on(handle, &operation, |results, number| results.take(number))
    }
}
