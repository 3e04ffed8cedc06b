//! change_info4: the change attribute of a directory before and after an operation (RFC 8881
//! section 3.3.5).

use super::{Object, OpError};
use nfs4::ChangeInfo4;

/// The change attribute of a directory before an operation.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    before: u64,
}

impl Change {
    /// Reads the attribute before the operation.
    ///
    /// # Errors
    /// The error of the backend.
    pub fn before(directory: &Object) -> Result<Self, OpError> {
        Ok(Self { before: directory.export.backend.change_before(&directory.handle)? })
    }

    /// Reads the attribute after the operation. It is never atomic: other processes may have
    /// changed the directory in between, and the operation stays done even if this read fails.
    pub fn after(self, directory: &Object) -> ChangeInfo4 {
        let after = directory.export.backend.change_after(&directory.handle, self.before);
        let after = after.unwrap_or(self.before.wrapping_add(1));
        ChangeInfo4 { atomic: false, before: self.before, after }
    }
}
