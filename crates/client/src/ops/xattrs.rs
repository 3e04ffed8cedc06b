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
        self.perform(
            |compound| {
                compound.putfh(handle).operation(&operation);
            },
            |reply| {
                let mut results = reply.results();
                let value: Xattrvalue4<'_> =
                    results.done(NfsOpnum4::OP_PUTFH)?.take(NfsOpnum4::OP_GETXATTR)?;
                Ok(value.into_owned())
            },
        )
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
        self.perform(
            |compound| {
                compound.putfh(handle).change(&operation);
            },
            |reply| reply.results().done(NfsOpnum4::OP_PUTFH)?.take(NfsOpnum4::OP_SETXATTR),
        )
    }

    /// Lists the names of all extended attributes.
    ///
    /// # Errors
    /// The errors of LISTXATTRS.
    pub fn list_xattrs(&mut self, handle: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let (mut names, mut cookie) = (Vec::new(), 0);
        loop {
            let args = Listxattrs4Args { lxa_cookie: cookie, lxa_maxcount: LIST_COUNT };
            let (more, next, eof) = self.perform(
                |compound| {
                    compound.putfh(handle).operation(&NfsArgop4::OP_LISTXATTRS(args));
                },
                |reply| {
                    let mut results = reply.results();
                    let part: Listxattrs4Resok<'_> =
                        results.done(NfsOpnum4::OP_PUTFH)?.take(NfsOpnum4::OP_LISTXATTRS)?;
                    let more: Vec<Vec<u8>> = part.lxr_names.iter().map(|name| name.to_vec()).collect();
                    Ok((more, part.lxr_cookie, part.lxr_eof))
                },
            )?;
            // Stop if the server makes no progress.
            let stuck = more.is_empty();
            names.extend(more);
            if eof || stuck {
                return Ok(names);
            }
            cookie = next;
        }
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// The errors of REMOVEXATTR, such as NFS4ERR_NOXATTR.
    pub fn remove_xattr(&mut self, handle: &[u8], name: &[u8]) -> Result<ChangeInfo4, Error> {
        let operation = NfsArgop4::OP_REMOVEXATTR(Removexattr4Args { rxa_name: name.into() });
        self.perform(
            |compound| {
                compound.putfh(handle).change(&operation);
            },
            |reply| reply.results().done(NfsOpnum4::OP_PUTFH)?.take(NfsOpnum4::OP_REMOVEXATTR),
        )
    }
}
