//! ACCESS: the library checks permissions only as part of other calls.

use crate::CephBackend;
use crate::object::CephObject;
use vfs::{ACL_EXECUTE, ACL_READ, ACL_WRITE, Caller, FileType, Permissions, PosixAcl, VfsResult};

/// The permission bits for execution.
const EXECUTE: u32 = 0o111;

impl CephBackend {
    /// Returns the rights of a caller by mode and access control list, as the library checks them.
    pub(crate) fn rights(&self, caller: &Caller, object: &CephObject) -> VfsResult<Permissions> {
        let stat = self.stat(object)?;
        if caller.uid == 0 {
            let execute = object.file_type == FileType::Directory || stat.mode & EXECUTE != 0;
            return Ok(Permissions { read: true, write: true, execute });
        }
        // Without rights of the group, the mask of a list grants nothing.
        let listed =
            caller.uid != stat.uid && stat.mode & 0o070 != 0 && object.file_type != FileType::Symlink;
        let list = if listed { self.access_list(object)? } else { None };
        let list = list.unwrap_or_else(|| PosixAcl::of_mode(stat.mode));
        let rights = list.rights_of(caller, stat.uid, stat.gid);
        let has = |right: u8| rights & right != 0;
        Ok(Permissions { read: has(ACL_READ), write: has(ACL_WRITE), execute: has(ACL_EXECUTE) })
    }
}
