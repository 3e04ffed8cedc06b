//! Flavors required for each object (RFC 8881 section 2.6.3.1).

use super::{Compound, Fh, OpError, OpResult, OpStop};
use nfs4::{NfsOpnum4, Nfsstat4, OpenClaim4};
use vfs::SecFlavor;
use xdr::{Decode, Decoder};

impl Compound<'_> {
    /// Returns the flavors with which this caller may use an object, in the export's order of
    /// preference: the server's flavors, without `sys` from a port that the export does not trust.
    /// SECINFO returns exactly these.
    ///
    /// # Errors
    /// [`OpStop::Deferred`].
    pub fn flavors(&self, fh: &Fh) -> OpResult<Vec<SecFlavor>> {
        let mut flavors = match fh {
            Fh::Object(_) if self.refuses_ticket(fh) => Vec::new(),
            Fh::Object(object) => object.rule().flavors_for(self.peer()).collect(),
            Fh::Pseudo(fileid) => self.pseudo_flavors(*fileid)?,
        };
        flavors.retain(|flavor| self.nfs.config.flavors.contains(flavor));
        Ok(flavors)
    }

    /// Returns the flavors of a pseudo directory. While the name service does not answer, exports
    /// that wait for it count with all of their rules: they must not close the way to the others.
    fn pseudo_flavors(&self, fileid: u64) -> OpResult<Vec<SecFlavor>> {
        match self.await_client(|exports, peer| exports.pseudo().flavors(fileid, peer)) {
            Err(OpStop::Failed(_)) => Ok(self.progress.exports.pseudo().flavors_at_most(fileid, self.peer())),
            known => known,
        }
    }

    /// Returns whether the call's flavor may be used on an object. The pseudo file system accepts
    /// any flavor that an export below it accepts.
    ///
    /// `sys` from an unprivileged port is a flavor that this caller may not use, and gets
    /// NFS4ERR_WRONGSEC like any other. Thus each check of flavors also checks ports, the error is
    /// one that all of them may return (NFS4ERR_ACCESS and NFS4ERR_PERM are not PUTFH's), and a
    /// client that may use another flavor learns it by SECINFO, which it would not after
    /// NFS4ERR_ACCESS.
    ///
    /// # Errors
    /// [`OpStop::Deferred`].
    pub fn flavor_allowed(&self, fh: &Fh) -> OpResult<bool> {
        let flavor = self.call.security.flavor;
        Ok(match fh {
            Fh::Object(object) => object.rule().allows(flavor, self.peer()) && !self.refuses_ticket(fh),
            Fh::Pseudo(_) if !self.nfs.config.flavors.contains(&flavor) => false,
            Fh::Pseudo(fileid) => match self.progress.exports.pseudo().allows(*fileid, flavor, self.peer()) {
                Ok(allowed) => allowed,
                Err(_) => self.pseudo_flavors(*fileid)?.contains(&flavor),
            },
        })
    }

    /// Returns whether the call's ticket was delegated, and the object's export refuses such
    /// tickets. No flavor helps then: SECINFO returns none.
    pub(super) fn refuses_ticket(&self, fh: &Fh) -> bool {
        matches!(fh, Fh::Object(object) if self.call.security.delegated && !object.export.delegated)
    }

    /// Checks the flavor for the object that LOOKUP, LOOKUPP or OPEN by name has found.
    ///
    /// # Errors
    /// NFS4ERR_WRONGSEC if the flavor is not allowed, [`OpStop::Deferred`].
    pub fn check_flavor(&self, fh: &Fh) -> OpResult {
        if self.flavor_allowed(fh)? {
            return Ok(());
        }
        self.note_wrong_flavor(fh);
        Err(Nfsstat4::NFS4ERR_WRONGSEC.into())
    }

    /// Checks the flavor for an operation that sets the filehandle; `args` stands behind it. The
    /// next operation determines whether the check counts: see `decides`.
    ///
    /// Returns whether the flavor is not the export's, so that only operations without this check
    /// may follow.
    ///
    /// # Errors
    /// NFS4ERR_WRONGSEC if the flavor is not allowed, [`OpStop::Deferred`].
    pub fn check_put(&self, fh: &Fh, args: &Decoder<'_>) -> OpResult<bool> {
        if self.flavor_allowed(fh)? {
            return Ok(false);
        }
        let left = self.progress.position.count.saturating_sub(self.progress.position.index + 1);
        match following(*args, left) {
            Some(next) if !decides(next, args) || self.machine_may(next) => Ok(true),
            // Clients ask for attributes in the COMPOUND that releases a user's state by machine
            // credential.
            Some(_) if beyond_getattr(*args, left).is_some_and(|later| self.machine_may(later)) => Ok(true),
            Some(_) => {
                self.note_wrong_flavor(fh);
                Err(Nfsstat4::NFS4ERR_WRONGSEC.into())
            }
            None => Ok(true),
        }
    }

    /// Sets the current filehandle on behalf of an operation such as PUTFH.
    ///
    /// # Errors
    /// As [`Compound::check_put`].
    pub fn put(&mut self, fh: Fh, args: &Decoder<'_>) -> OpResult {
        let restricted = self.check_put(&fh, args)?;
        self.set_current(fh);
        self.progress.restricted = restricted;
        Ok(())
    }

    /// Checks an operation on a filehandle that was set although the call's flavor is not its
    /// export's. Such a filehandle serves only to reach other objects, or for the machine
    /// credential to release state.
    ///
    /// # Errors
    /// NFS4ERR_ACCESS for any other operation.
    pub fn check_restricted(&self, operation: NfsOpnum4) -> Result<(), OpError> {
        use NfsOpnum4::*;
        let step = matches!(
            operation,
            OP_LOOKUP | OP_LOOKUPP | OP_OPEN | OP_SECINFO | OP_SECINFO_NO_NAME | OP_SAVEFH | OP_GETATTR
        );
        if !self.progress.restricted || step || self.machine_may(operation as u32) {
            return Ok(());
        }
        Err(Nfsstat4::NFS4ERR_ACCESS.into())
    }

    /// Checks that the caller may use any export at all, before the server keeps state for it. The
    /// flavor does not matter: Linux without a machine credential creates its client ID by
    /// AUTH_SYS, with any flavor of the mount.
    ///
    /// # Errors
    /// NFS4ERR_CLID_INUSE: the lists of EXCHANGE_ID, CREATE_SESSION and SETCLIENTID have nothing
    /// nearer, and Linux reports it as "Operation not permitted". And as
    /// [`Compound::await_client`].
    pub fn check_admitted(&self) -> OpResult {
        if self.await_client(|exports, peer| exports.admits(peer))? {
            Ok(())
        } else {
            self.note_wrong_address();
            Err(Nfsstat4::NFS4ERR_CLID_INUSE.into())
        }
    }

    /// Returns whether the machine credential may send the operation for any user's state
    /// (SP4_MACH_CRED).
    fn machine_may(&self, operation: u32) -> bool {
        let sender = self.sender();
        let session = self.progress.session.as_ref();
        session.is_some_and(|session| self.state().clients().machine_may(session.client, &sender, operation))
    }
}

/// Returns the number of the next operation, skipping SAVEFH according to section 2.6.3.1.1.1.
fn following(mut args: Decoder<'_>, left: u32) -> Option<u32> {
    for _ in 0..left {
        match args.u32().ok()? {
            next if next == NfsOpnum4::OP_SAVEFH as u32 => {}
            next => return Some(next),
        }
    }
    None
}

/// Returns the number of the first operation that is not GETATTR.
fn beyond_getattr(mut args: Decoder<'_>, left: u32) -> Option<u32> {
    for _ in 0..left {
        match args.u32().ok()? {
            next if next == NfsOpnum4::OP_GETATTR as u32 => drop(nfs4::Getattr4Args::decode(&mut args).ok()?),
            next => return Some(next),
        }
    }
    None
}

/// Returns whether the flavor check of a put filehandle operation counts before this next
/// operation. It does not when that sets another filehandle (section 2.6.3.1.1.2), goes to another
/// object by name (2.6.3.1.1.3 and .4), or asks for the flavors (2.6.3.1.1.5).
fn decides(next: u32, args: &Decoder<'_>) -> bool {
    use NfsOpnum4::*;
    match NfsOpnum4::from_u32(next) {
        Some(OP_PUTFH | OP_PUTPUBFH | OP_PUTROOTFH | OP_RESTOREFH) => false,
        Some(OP_LOOKUP | OP_LOOKUPP | OP_SECINFO | OP_SECINFO_NO_NAME) => false,
        Some(OP_OPEN) => !opens_by_name(*args),
        _ => true,
    }
}

/// Returns whether the next operation is an OPEN that names its file by component.
fn opens_by_name(mut args: Decoder<'_>) -> bool {
    while args.u32().is_ok_and(|number| number == NfsOpnum4::OP_SAVEFH as u32) {}
    match nfs4::Open4Args::decode(&mut args) {
        Ok(open) => matches!(open.claim, OpenClaim4::CLAIM_NULL(_)),
        Err(_) => false,
    }
}
