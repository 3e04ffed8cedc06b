//! The table of operations: one row each, with the conditions under which it may run.

mod v40;

use crate::engine::{Compound, OpResult};
use crate::ops;
use nfs4::NfsOpnum4;
use v40::OPERATIONS_40;
use xdr::{Decoder, Encoder};

/// Runs one operation: decodes arguments, encodes the result without the status.
pub type Run = fn(&mut Compound<'_>, &mut Decoder<'_>, &mut Encoder) -> OpResult;

/// The position of an operation relative to SEQUENCE (RFC 8881 section 2.10.2.1 and the operations'
/// own sections).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Only in a COMPOUND that begins with SEQUENCE.
    InSession,
    /// In a session, or as the only operation of a COMPOUND.
    AloneOrInSession,
    /// Only as the only operation of a COMPOUND.
    Alone,
    /// SEQUENCE itself: first in its COMPOUND.
    First,
    /// In NFSv4.0, where there are no sessions.
    Anywhere,
    /// As `Anywhere`, for an operation that must not run twice: the COMPOUND's reply is cached for
    /// a copy of the request.
    Once,
}

/// The resource that an operation may block on. Where blocking is not allowed, the COMPOUND is
/// suspended before such an operation and resumed where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// None: the operation never blocks, or decides by itself whether to defer.
    No,
    /// The current object, unless it is cached. The operation checks all other resources itself.
    Object,
    /// Names and attributes of a file system that can block, but seldom does.
    Names,
    /// A file system that can block.
    Disk,
    /// Work that takes long on any file system.
    Long,
    /// The client records, and files that are closed with their client.
    Records,
}

/// The way an operation treats objects on file systems that do not answer from memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remote {
    /// It asks the file system.
    Asks,
    /// It asks the file system, which can often answer from a cache.
    OftenCached,
    /// It asks no file system.
    Untouched,
}

/// A row of the table.
#[derive(Clone, Copy)]
pub struct Operation {
    /// The operation's number and name.
    pub opnum: NfsOpnum4,
    /// The first minor version that has it.
    pub since: u32,
    /// Its position relative to SEQUENCE.
    pub place: Place,
    /// Whether it needs a current filehandle (NFS4ERR_NOFILEHANDLE).
    pub needs_fh: bool,
    /// Whether it changes the file system of the current filehandle (NFS4ERR_ROFS).
    pub modifies: bool,
    /// Bytes that the reply must have free before the operation may run, because it cannot be
    /// undone. 0: the size of the result is checked afterwards.
    pub result_max: usize,
    /// The resource that it may block on.
    pub waits: Waits,
    /// Whether a remote file system is asked.
    pub remote: Remote,
    /// Whether it takes the longer, the more ranges of the file are locked.
    pub ranges: bool,
    /// The function that runs it.
    pub run: Run,
}

/// Result sizes of operations that cannot be undone, in bytes.
mod size {
    /// A result without a body.
    pub(super) const STATUS: usize = 8;
    /// A result with a stateid.
    pub(super) const STATEID: usize = STATUS + 16;
    /// A result with change_info4.
    pub(super) const CHANGE: usize = STATUS + 20;
    /// A result with a bitmap of three words.
    pub(super) const BITMAP: usize = STATUS + 16;
    /// Stateid, change_info4, flags, attributes set, a write delegation.
    pub(super) const OPEN: usize = STATUS + 16 + 20 + 4 + 16 + 4 + 16 + 4 + 12 + 12 + 16;
    /// A denied lock with the longest owner, or a stateid.
    pub(super) const LOCK: usize = STATUS + 8 + 8 + 4 + 8 + 4 + crate::ops::lock::DENIED_OWNER_MAX;
    /// A result with count, committed and verifier.
    pub(super) const WRITE: usize = STATUS + 4 + 4 + 8;
    /// write_response4 without a callback id, copy_requirements4.
    pub(super) const COPY: usize = STATEID + 4 + 8 + 4 + 8 + 8;
    /// The longest results of session operations, including the server's own strings.
    pub(super) const SESSION: usize = STATUS + 512;
}

const fn row(opnum: NfsOpnum4, run: Run) -> Operation {
    Operation {
        opnum,
        since: 1,
        place: Place::InSession,
        needs_fh: false,
        modifies: false,
        result_max: 0,
        waits: Waits::No,
        remote: Remote::Asks,
        ranges: false,
        run,
    }
}

impl Operation {
    const fn fh(mut self) -> Self {
        self.needs_fh = true;
        self
    }

    const fn modifies(mut self) -> Self {
        self.modifies = true;
        self
    }

    const fn place(mut self, place: Place) -> Self {
        self.place = place;
        self
    }

    const fn reserve(mut self, bytes: usize) -> Self {
        self.result_max = bytes;
        self
    }

    const fn waits(mut self, waits: Waits) -> Self {
        self.waits = waits;
        self
    }

    const fn often_cached(mut self) -> Self {
        self.remote = Remote::OftenCached;
        self
    }

    const fn untouched(mut self) -> Self {
        self.remote = Remote::Untouched;
        self
    }

    const fn ranges(mut self) -> Self {
        self.ranges = true;
        self
    }

    const fn v42(mut self) -> Self {
        self.since = 2;
        self
    }
}

use NfsOpnum4::*;
use Place::{Alone, AloneOrInSession, First};
use Waits::{Disk, Long, Names, Object, Records};

/// The rows from OP_ACCESS (3) on, without a gap: the number is the index.
const OPERATIONS: [Operation; 73] = [
    row(OP_ACCESS, ops::access::run).fh().often_cached().waits(Object),
    row(OP_CLOSE, ops::close::run).fh().reserve(size::STATEID).waits(Names).ranges(),
    row(OP_COMMIT, ops::commit::run).fh().waits(Disk),
    row(OP_CREATE, ops::create::run).fh().modifies().reserve(size::CHANGE + size::BITMAP).waits(Names),
    row(OP_DELEGPURGE, ops::unsupported::run),
    row(OP_DELEGRETURN, ops::delegreturn::run).fh().reserve(size::STATUS).waits(Names),
    row(OP_GETATTR, ops::getattr::run).fh().often_cached().waits(Object),
    row(OP_GETFH, ops::getfh::run).fh().untouched(),
    row(OP_LINK, ops::link::run).fh().modifies().reserve(size::CHANGE).waits(Names),
    row(OP_LOCK, ops::lock::run).fh().reserve(size::LOCK).ranges(),
    row(OP_LOCKT, ops::lockt::run).fh().waits(Object).ranges(),
    row(OP_LOCKU, ops::locku::run).fh().reserve(size::STATEID).ranges(),
    row(OP_LOOKUP, ops::lookup::run).fh().often_cached().waits(Object),
    row(OP_LOOKUPP, ops::lookupp::run).fh().waits(Disk),
    row(OP_NVERIFY, ops::verify::nverify).fh().often_cached().waits(Object),
    row(OP_OPEN, ops::open::run).fh().reserve(size::OPEN).waits(Object),
    row(OP_OPENATTR, ops::unsupported::run).fh(),
    row(OP_OPEN_CONFIRM, ops::unsupported::run),
    row(OP_OPEN_DOWNGRADE, ops::open_downgrade::run).fh().reserve(size::STATEID).waits(Names),
    row(OP_PUTFH, ops::putfh::run),
    row(OP_PUTPUBFH, ops::putrootfh::run),
    row(OP_PUTROOTFH, ops::putrootfh::run),
    row(OP_READ, ops::read::run).fh().often_cached(),
    row(OP_READDIR, ops::readdir::run).fh().waits(Disk),
    row(OP_READLINK, ops::readlink::run).fh().often_cached().waits(Names),
    row(OP_REMOVE, ops::remove::run).fh().modifies().reserve(size::CHANGE).waits(Names),
    row(OP_RENAME, ops::rename::run).fh().modifies().reserve(2 * size::CHANGE).waits(Names),
    row(OP_RENEW, ops::unsupported::run),
    row(OP_RESTOREFH, ops::restorefh::run),
    row(OP_SAVEFH, ops::savefh::run).fh().untouched(),
    row(OP_SECINFO, ops::secinfo::run).fh().waits(Object),
    row(OP_SETATTR, ops::setattr::run).fh().modifies().reserve(size::BITMAP).waits(Names),
    row(OP_SETCLIENTID, ops::unsupported::run),
    row(OP_SETCLIENTID_CONFIRM, ops::unsupported::run),
    row(OP_VERIFY, ops::verify::verify).fh().often_cached().waits(Object),
    row(OP_WRITE, ops::write::run).fh().often_cached().modifies().reserve(size::WRITE).waits(Disk),
    row(OP_RELEASE_LOCKOWNER, ops::unsupported::run),
    row(OP_BACKCHANNEL_CTL, ops::backchannel_ctl::run).reserve(size::STATUS),
    row(OP_BIND_CONN_TO_SESSION, ops::bind_conn_to_session::run).place(Alone).reserve(size::SESSION),
    row(OP_EXCHANGE_ID, ops::exchange_id::run).place(AloneOrInSession).reserve(size::SESSION).waits(Records),
    row(OP_CREATE_SESSION, ops::create_session::run)
        .place(AloneOrInSession)
        .reserve(size::SESSION)
        .waits(Records),
    row(OP_DESTROY_SESSION, ops::destroy_session::run).place(AloneOrInSession).reserve(size::STATUS),
    row(OP_FREE_STATEID, ops::free_stateid::run).reserve(size::STATUS).waits(Records),
    row(OP_GET_DIR_DELEGATION, ops::get_dir_delegation::run).fh(),
    row(OP_GETDEVICEINFO, ops::unsupported::run),
    row(OP_GETDEVICELIST, ops::unsupported::run).fh(),
    row(OP_LAYOUTCOMMIT, ops::unsupported::run).fh(),
    row(OP_LAYOUTGET, ops::unsupported::run).fh(),
    row(OP_LAYOUTRETURN, ops::unsupported::run).fh(),
    row(OP_SECINFO_NO_NAME, ops::secinfo_no_name::run).fh().waits(Disk),
    row(OP_SEQUENCE, ops::sequence::run).place(First),
    row(OP_SET_SSV, ops::set_ssv::run),
    row(OP_TEST_STATEID, ops::test_stateid::run),
    row(OP_WANT_DELEGATION, ops::unsupported::run),
    row(OP_DESTROY_CLIENTID, ops::destroy_clientid::run)
        .place(AloneOrInSession)
        .reserve(size::STATUS)
        .waits(Records),
    row(OP_RECLAIM_COMPLETE, ops::reclaim_complete::run).reserve(size::STATUS).waits(Records),
    row(OP_ALLOCATE, ops::allocate::allocate).fh().modifies().reserve(size::STATUS).waits(Long).v42(),
    row(OP_COPY, ops::copy::run).fh().modifies().reserve(size::COPY).waits(Long).v42(),
    row(OP_COPY_NOTIFY, ops::unsupported::run).v42(),
    row(OP_DEALLOCATE, ops::allocate::deallocate).fh().modifies().reserve(size::STATUS).waits(Long).v42(),
    row(OP_IO_ADVISE, ops::io_advise::run).fh().waits(Disk).v42(),
    row(OP_LAYOUTERROR, ops::unsupported::run).v42(),
    row(OP_LAYOUTSTATS, ops::unsupported::run).v42(),
    row(OP_OFFLOAD_CANCEL, ops::offload::cancel).fh().v42(),
    row(OP_OFFLOAD_STATUS, ops::offload::status).fh().v42(),
    row(OP_READ_PLUS, ops::read_plus::run).fh().often_cached().v42(),
    row(OP_SEEK, ops::seek::run).fh().waits(Disk).v42(),
    row(OP_WRITE_SAME, ops::unsupported::run).v42(),
    row(OP_CLONE, ops::clone::run).fh().modifies().reserve(size::STATUS).waits(Long).v42(),
    row(OP_GETXATTR, ops::xattr::get).fh().waits(Disk).v42(),
    row(OP_SETXATTR, ops::xattr::set).fh().modifies().reserve(size::CHANGE).waits(Names).v42(),
    row(OP_LISTXATTRS, ops::xattr::list).fh().waits(Disk).v42(),
    row(OP_REMOVEXATTR, ops::xattr::remove).fh().modifies().reserve(size::CHANGE).waits(Names).v42(),
];

/// The rows of NFSv4.1 and NFSv4.2.
static LATER: [Operation; 73] = OPERATIONS;

/// Finds an operation's row. `None` means OP_ILLEGAL: the number does not exist in this minor
/// version.
pub fn find(number: u32, minor: u32) -> Option<&'static Operation> {
    let index = usize::try_from(number.checked_sub(NfsOpnum4::OP_ACCESS as u32)?).ok()?;
    let rows: &'static [Operation] = if minor == 0 { &OPERATIONS_40 } else { &LATER };
    rows.get(index).filter(|operation| operation.since <= minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_stands_at_its_number() {
        for (index, operation) in OPERATIONS.iter().enumerate() {
            assert_eq!(operation.opnum as usize, index + 3, "{}", operation.opnum.name());
        }
    }

    #[test]
    fn an_operation_of_a_later_minor_version_is_illegal() // RFC 8881 section 15.1.3.4
    {
        assert!(find(NfsOpnum4::OP_SEEK as u32, 1).is_none());
        assert!(find(NfsOpnum4::OP_SEEK as u32, 2).is_some());
        assert!(find(2, 2).is_none());
        assert!(find(76, 2).is_none());
        assert!(find(u32::MAX, 2).is_none());
    }
}
