//! Builds COMPOUND requests from operations.

use nfs4::*;
use xdr::{Encode as _, Encoder};

use crate::message::{HEADROOM, Message, empty_buffer};
use crate::slots::Slot;

/// Offsets of the fields that are filled in last: minor version, operation count, and the operation
/// SEQUENCE, whose fields all have a fixed size.
const MINOR_VERSION_AT: usize = 4;
const COUNT_AT: usize = 8;
const SESSION_AT: usize = 16;

/// A COMPOUND under construction. Adding an operation encodes it, which copies its data once.
///
/// In a session SEQUENCE is the first operation automatically; callers do not add it.
#[derive(Debug)]
pub struct Compound {
    encoder: Encoder,
    operations: u32,
    in_session: bool,
    cached: bool,
    repeatable: bool,
}

impl Compound {
    /// Begins a COMPOUND for a session.
    pub fn new(minor_version: u32) -> Self {
        Self::in_buffer(Vec::new(), minor_version)
    }

    /// Begins a COMPOUND for a session in a reused buffer.
    pub(crate) fn in_buffer(buffer: Vec<u8>, minor_version: u32) -> Self {
        let mut compound = Self::sessionless_in(buffer, minor_version);
        compound.in_session = true;
        let sequence = Sequence4Args {
            sa_sessionid: [0; 16],
            sa_sequenceid: 0,
            sa_slotid: 0,
            sa_highest_slotid: 0,
            sa_cachethis: false,
        };
        compound.operation(&NfsArgop4::OP_SEQUENCE(sequence));
        compound
    }

    /// Begins a COMPOUND without SEQUENCE, for operations such as EXCHANGE_ID.
    pub fn sessionless(minor_version: u32) -> Self {
        Self::sessionless_in(Vec::new(), minor_version)
    }

    fn sessionless_in(buffer: Vec<u8>, minor_version: u32) -> Self {
        let mut encoder = Encoder::from_vec(empty_buffer(buffer));
        encoder.opaque(b"").u32(minor_version).u32(0);
        Self { encoder, operations: 0, in_session: false, cached: false, repeatable: true }
    }

    /// Adds an operation of any kind. If it modifies state, the server caches the reply, and the
    /// COMPOUND is not repeated without that cached reply.
    pub fn operation(&mut self, operation: &NfsArgop4<'_>) -> &mut Self {
        if modifies(operation.discriminant()) {
            self.cached = true;
            self.repeatable = false;
        }
        operation.encode(&mut self.encoder);
        self.operations += 1;
        self
    }

    /// Sets whether the server caches the reply (`sa_cachethis`).
    pub fn cache_this(&mut self, cached: bool) -> &mut Self {
        self.cached = cached;
        self
    }

    /// Sets a false operation count, for tests of the server.
    pub fn claim_operations(&mut self, count: u32) -> &mut Self {
        self.operations = count;
        self
    }

    /// Overrides the minor version.
    pub fn minor_version(&mut self, version: u32) -> &mut Self {
        self.encoder.patch_u32(HEADROOM + MINOR_VERSION_AT, version);
        self
    }

    /// Returns whether SEQUENCE comes first.
    pub const fn is_in_session(&self) -> bool {
        self.in_session
    }

    /// Returns whether the COMPOUND may execute twice.
    pub(crate) const fn is_repeatable(&self) -> bool {
        self.repeatable
    }

    /// Returns the length of the arguments so far, in bytes.
    pub const fn len(&self) -> usize {
        self.encoder.len() - HEADROOM
    }

    /// Returns whether no operation besides SEQUENCE has been added.
    pub const fn is_empty(&self) -> bool {
        self.operations == if self.in_session { 1 } else { 0 }
    }

    /// Returns the encoded arguments; SEQUENCE has no slot yet.
    pub fn into_arguments(mut self) -> Vec<u8> {
        self.encoder.patch_u32(HEADROOM + COUNT_AT, self.operations);
        self.encoder.into_vec().split_off(HEADROOM)
    }

    /// Finishes the COMPOUND; [`assign`] fills in the slot of SEQUENCE.
    pub(crate) fn into_message(mut self, session: &[u8; 16]) -> Message {
        self.encoder.patch_u32(HEADROOM + COUNT_AT, self.operations);
        let mut message = Message::new(self.encoder.into_vec());
        if self.in_session {
            message.patch(SESSION_AT, session);
            message.patch(SESSION_AT + 28, &u32::from(self.cached).to_be_bytes());
        }
        message
    }
}

/// Returns whether a second execution of the operation has another result than the first.
const fn modifies(operation: NfsOpnum4) -> bool {
    use NfsOpnum4::*;
    matches!(
        operation,
        OP_ALLOCATE
            | OP_CLONE
            | OP_CLOSE
            | OP_COPY
            | OP_CREATE
            | OP_DEALLOCATE
            | OP_DELEGRETURN
            | OP_FREE_STATEID
            | OP_LINK
            | OP_LOCK
            | OP_LOCKU
            | OP_OFFLOAD_CANCEL
            | OP_OPEN
            | OP_OPEN_DOWNGRADE
            | OP_RECLAIM_COMPLETE
            | OP_REMOVE
            | OP_REMOVEXATTR
            | OP_RENAME
            | OP_SETATTR
            | OP_SETXATTR
    )
}

/// Fills in the slot fields of the leading SEQUENCE.
pub(crate) fn assign(message: &mut Message, slot: &Slot) {
    message.patch(SESSION_AT + 16, &slot.sequence.to_be_bytes());
    message.patch(SESSION_AT + 20, &slot.id.to_be_bytes());
    message.patch(SESSION_AT + 24, &slot.highest.to_be_bytes());
}

/// Operations on the current filehandle.
impl Compound {
    /// Adds PUTROOTFH (RFC 8881 section 18.21).
    pub fn putrootfh(&mut self) -> &mut Self {
        self.operation(&NfsArgop4::OP_PUTROOTFH)
    }

    /// Adds PUTFH (section 18.19).
    pub fn putfh(&mut self, handle: &[u8]) -> &mut Self {
        self.operation(&NfsArgop4::OP_PUTFH(Putfh4Args { object: handle.into() }))
    }

    /// Adds GETFH (section 18.8).
    pub fn getfh(&mut self) -> &mut Self {
        self.operation(&NfsArgop4::OP_GETFH)
    }

    /// Adds SAVEFH (section 18.28).
    pub fn savefh(&mut self) -> &mut Self {
        self.operation(&NfsArgop4::OP_SAVEFH)
    }

    /// Adds LOOKUP (section 18.13).
    pub fn lookup(&mut self, name: &[u8]) -> &mut Self {
        self.operation(&NfsArgop4::OP_LOOKUP(Lookup4Args { objname: name.into() }))
    }

    /// Adds LOOKUPP (section 18.14).
    pub fn lookupp(&mut self) -> &mut Self {
        self.operation(&NfsArgop4::OP_LOOKUPP)
    }

    /// Adds a LOOKUP for each component of `path`, skipping empty ones.
    pub fn lookup_path(&mut self, path: &str) -> &mut Self {
        path.split('/')
            .filter(|part| !part.is_empty())
            .fold(self, |compound, part| compound.lookup(part.as_bytes()))
    }
}

/// Operations on attributes and access.
impl Compound {
    /// Adds GETATTR (section 18.7).
    pub fn getattr(&mut self, attributes: Bitmap4) -> &mut Self {
        self.operation(&NfsArgop4::OP_GETATTR(Getattr4Args { attr_request: attributes }))
    }

    /// Adds SETATTR (section 18.30).
    pub fn setattr(&mut self, stateid: Stateid4, attributes: Fattr4<'_>) -> &mut Self {
        self.operation(&NfsArgop4::OP_SETATTR(Setattr4Args { stateid, obj_attributes: attributes }))
    }

    /// Adds ACCESS (section 18.1).
    pub fn access(&mut self, access: u32) -> &mut Self {
        self.operation(&NfsArgop4::OP_ACCESS(Access4Args { access }))
    }

    /// Adds SECINFO (section 18.29).
    pub fn secinfo(&mut self, name: &[u8]) -> &mut Self {
        self.operation(&NfsArgop4::OP_SECINFO(Secinfo4Args { name: name.into() }))
    }

    /// Adds SECINFO_NO_NAME (section 18.45).
    pub fn secinfo_no_name(&mut self, style: SecinfoStyle4) -> &mut Self {
        self.operation(&NfsArgop4::OP_SECINFO_NO_NAME(style))
    }
}

/// Operations on files and directories.
impl Compound {
    /// Adds OPEN (section 18.16).
    pub fn open(&mut self, arguments: Open4Args<'_>) -> &mut Self {
        self.operation(&NfsArgop4::OP_OPEN(arguments))
    }

    /// Adds CLOSE (section 18.2).
    pub fn close(&mut self, stateid: Stateid4) -> &mut Self {
        self.operation(&NfsArgop4::OP_CLOSE(Close4Args { seqid: 0, open_stateid: stateid }))
    }

    /// Adds OPEN_DOWNGRADE (section 18.18).
    pub fn open_downgrade(&mut self, stateid: Stateid4, access: u32, deny: u32) -> &mut Self {
        self.operation(&NfsArgop4::OP_OPEN_DOWNGRADE(OpenDowngrade4Args {
            open_stateid: stateid,
            seqid: 0,
            share_access: access,
            share_deny: deny,
        }))
    }

    /// Adds READ (section 18.22).
    pub fn read(&mut self, stateid: Stateid4, offset: u64, count: u32) -> &mut Self {
        self.operation(&NfsArgop4::OP_READ(Read4Args { stateid, offset, count }))
    }

    /// Adds WRITE (section 18.32).
    pub fn write(&mut self, stateid: Stateid4, offset: u64, stable: StableHow4, data: &[u8]) -> &mut Self {
        rpc::memory::reserve(self.encoder.as_mut_vec(), data.len() + 64);
        self.operation(&NfsArgop4::OP_WRITE(Write4Args { stateid, offset, stable, data: data.into() }))
    }

    /// Adds COMMIT (section 18.3); a `count` of 0 commits to the end of the file.
    pub fn commit(&mut self, offset: u64, count: u32) -> &mut Self {
        self.operation(&NfsArgop4::OP_COMMIT(Commit4Args { offset, count }))
    }

    /// Adds CREATE (section 18.4) of an object other than a regular file.
    pub fn create(&mut self, kind: Createtype4<'_>, name: &[u8], attributes: Fattr4<'_>) -> &mut Self {
        self.operation(&NfsArgop4::OP_CREATE(Create4Args {
            objtype: kind,
            objname: name.into(),
            createattrs: attributes,
        }))
    }

    /// Adds REMOVE (section 18.25).
    pub fn remove(&mut self, name: &[u8]) -> &mut Self {
        self.operation(&NfsArgop4::OP_REMOVE(Remove4Args { target: name.into() }))
    }

    /// Adds RENAME (section 18.26): the saved filehandle is the source directory, the current one
    /// the target.
    pub fn rename(&mut self, old: &[u8], new: &[u8]) -> &mut Self {
        self.operation(&NfsArgop4::OP_RENAME(Rename4Args { oldname: old.into(), newname: new.into() }))
    }

    /// Adds LINK (section 18.9): the saved filehandle is the file, the current one the directory.
    pub fn link(&mut self, name: &[u8]) -> &mut Self {
        self.operation(&NfsArgop4::OP_LINK(Link4Args { newname: name.into() }))
    }

    /// Adds READLINK (section 18.24).
    pub fn readlink(&mut self) -> &mut Self {
        self.operation(&NfsArgop4::OP_READLINK)
    }

    /// Adds READDIR (section 18.23).
    pub fn readdir(&mut self, arguments: Readdir4Args) -> &mut Self {
        self.operation(&NfsArgop4::OP_READDIR(arguments))
    }
}

/// Operations on locks and stateids.
impl Compound {
    /// Adds LOCK (section 18.10).
    pub fn lock(&mut self, arguments: Lock4Args<'_>) -> &mut Self {
        self.operation(&NfsArgop4::OP_LOCK(arguments))
    }

    /// Adds LOCKU (section 18.12).
    pub fn locku(&mut self, arguments: Locku4Args) -> &mut Self {
        self.operation(&NfsArgop4::OP_LOCKU(arguments))
    }

    /// Adds DELEGRETURN (section 18.6).
    pub fn delegreturn(&mut self, stateid: Stateid4) -> &mut Self {
        self.operation(&NfsArgop4::OP_DELEGRETURN(Delegreturn4Args { deleg_stateid: stateid }))
    }

    /// Adds FREE_STATEID (section 18.38).
    pub fn free_stateid(&mut self, stateid: Stateid4) -> &mut Self {
        self.operation(&NfsArgop4::OP_FREE_STATEID(FreeStateid4Args { fsa_stateid: stateid }))
    }

    /// Adds RECLAIM_COMPLETE (section 18.51) for all file systems.
    pub fn reclaim_complete(&mut self) -> &mut Self {
        self.operation(&NfsArgop4::OP_RECLAIM_COMPLETE(ReclaimComplete4Args { rca_one_fs: false }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xdr::{Decode as _, Decoder};

    #[test]
    fn a_compound_of_a_session_begins_with_sequence() {
        // RFC 8881 section 2.10.2.1
        let mut compound = Compound::new(1);
        compound.putfh(b"fh").read(Stateid4::ANONYMOUS, 4096, 512).cache_this(true);
        let mut message = compound.into_message(&[9; 16]);
        assign(&mut message, &Slot { id: 3, sequence: 77, highest: 5 });
        let arguments = Compound4Args::decode(&mut Decoder::new(message.arguments())).expect("well formed");
        let sequence = Sequence4Args {
            sa_sessionid: [9; 16],
            sa_sequenceid: 77,
            sa_slotid: 3,
            sa_highest_slotid: 5,
            sa_cachethis: true,
        };
        let read = Read4Args { stateid: Stateid4::ANONYMOUS, offset: 4096, count: 512 };
        let expected = [
            NfsArgop4::OP_SEQUENCE(sequence),
            NfsArgop4::OP_PUTFH(Putfh4Args { object: b"fh"[..].into() }),
            NfsArgop4::OP_READ(read),
        ];
        assert_eq!((arguments.minorversion, &arguments.argarray[..]), (1, &expected[..]));
    }

    #[test]
    fn a_compound_without_a_session_holds_only_what_was_added() {
        // RFC 8881 section 2.10.2.1
        let mut compound = Compound::sessionless(2);
        assert!(compound.is_empty());
        compound.lookup_path("/a//b/");
        let bytes = compound.into_arguments();
        let arguments = Compound4Args::decode(&mut Decoder::new(&bytes)).expect("well formed");
        let names: Vec<_> = arguments.argarray.iter().map(NfsArgop4::discriminant).collect();
        assert_eq!((arguments.minorversion, names), (2, vec![NfsOpnum4::OP_LOOKUP; 2]));
    }

    #[test]
    fn replies_to_changes_are_cached_and_changes_are_not_repeated() {
        // RFC 8881 section 2.10.6.1.3
        let mut compound = Compound::new(1);
        compound.putrootfh().getattr(Bitmap4::EMPTY);
        assert!(compound.is_repeatable() && !compound.cached);
        compound.remove(b"name");
        assert!(!compound.is_repeatable() && compound.cached);
    }
}
