//! Constructors of operations, with only the arguments that tests vary.

use super::{Op, Res};
use nfs4::*;
use std::borrow::Cow;

pub(crate) fn bytes(text: &[u8]) -> Cow<'static, [u8]> {
    Cow::Owned(text.to_vec())
}

pub(crate) fn put_root() -> Op {
    NfsArgop4::OP_PUTROOTFH
}

pub(crate) fn getfh() -> Op {
    NfsArgop4::OP_GETFH
}

pub(crate) fn savefh() -> Op {
    NfsArgop4::OP_SAVEFH
}

pub(crate) fn put(fh: &[u8]) -> Op {
    NfsArgop4::OP_PUTFH(Putfh4Args { object: bytes(fh) })
}

pub(crate) fn lookup(name: &str) -> Op {
    lookup_bytes(name.as_bytes())
}

pub(crate) fn lookup_bytes(name: &[u8]) -> Op {
    NfsArgop4::OP_LOOKUP(Lookup4Args { objname: bytes(name) })
}

pub(crate) fn getattr(attributes: &[u32]) -> Op {
    NfsArgop4::OP_GETATTR(Getattr4Args { attr_request: Bitmap4::of(attributes) })
}

pub(crate) fn fattr(values: AttributeValues<'_>) -> Fattr4<'static> {
    attributes::fattr4(&values.present(), &values)
}

pub(crate) fn mode(mode: u32) -> Fattr4<'static> {
    fattr(AttributeValues { mode: Some(mode), ..Default::default() })
}

pub(crate) fn mkdir(name: &str) -> Op {
    create(Createtype4::NF4DIR, name, mode(0o755))
}

pub(crate) fn create(objtype: Createtype4<'static>, name: &str, createattrs: Fattr4<'static>) -> Op {
    NfsArgop4::OP_CREATE(Create4Args { objtype, objname: bytes(name.as_bytes()), createattrs })
}

pub(crate) fn remove(name: &str) -> Op {
    NfsArgop4::OP_REMOVE(Remove4Args { target: bytes(name.as_bytes()) })
}

pub(crate) fn rename(from: &str, to: &str) -> Op {
    NfsArgop4::OP_RENAME(Rename4Args { oldname: bytes(from.as_bytes()), newname: bytes(to.as_bytes()) })
}

pub(crate) fn link(name: &str) -> Op {
    NfsArgop4::OP_LINK(Link4Args { newname: bytes(name.as_bytes()) })
}

pub(crate) fn open_how(
    openhow: Openflag4<'static>,
    claim: OpenClaim4<'static>,
    access: u32,
    deny: u32,
    owner: &[u8],
) -> Op {
    NfsArgop4::OP_OPEN(Open4Args {
        seqid: 0,
        share_access: access,
        share_deny: deny,
        owner: StateOwner4 { clientid: 0, owner: bytes(owner) },
        openhow,
        claim,
    })
}

pub(crate) const NOCREATE: Openflag4<'static> = Openflag4::Default(Opentype4::OPEN4_NOCREATE);

pub(crate) fn by_name(name: &str) -> OpenClaim4<'static> {
    OpenClaim4::CLAIM_NULL(bytes(name.as_bytes()))
}

pub(crate) fn open(name: &str, access: u32) -> Op {
    open_how(NOCREATE, by_name(name), access, 0, b"owner")
}

pub(crate) fn open_create(name: &str, access: u32) -> Op {
    open_how(Openflag4::OPEN4_CREATE(Createhow4::UNCHECKED4(mode(0o644))), by_name(name), access, 0, b"owner")
}

pub(crate) fn close(stateid: Stateid4) -> Op {
    NfsArgop4::OP_CLOSE(Close4Args { seqid: 0, open_stateid: stateid })
}

pub(crate) fn read(stateid: Stateid4, offset: u64, count: u32) -> Op {
    NfsArgop4::OP_READ(Read4Args { stateid, offset, count })
}

pub(crate) fn write(stateid: Stateid4, offset: u64, data: &[u8]) -> Op {
    let stable = StableHow4::UNSTABLE4;
    NfsArgop4::OP_WRITE(Write4Args { stateid, offset, stable, data: bytes(data) })
}

pub(crate) fn setattr(stateid: Stateid4, obj_attributes: Fattr4<'static>) -> Op {
    NfsArgop4::OP_SETATTR(Setattr4Args { stateid, obj_attributes })
}

pub(crate) fn reclaim_complete() -> Op {
    NfsArgop4::OP_RECLAIM_COMPLETE(ReclaimComplete4Args { rca_one_fs: false })
}

/// Returns data and eof of a READ.
#[track_caller]
pub(crate) fn data(result: &Res) -> (Vec<u8>, bool) {
    match result {
        NfsResop4::OP_READ(Read4Res::NFS4_OK(ok)) => (ok.data.to_vec(), ok.eof),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn get_xattr(name: &[u8]) -> Op {
    NfsArgop4::OP_GETXATTR(Getxattr4Args { gxa_name: bytes(name) })
}

pub(crate) fn set_xattr(sxa_option: SetxattrOption4, name: &[u8], value: &[u8]) -> Op {
    NfsArgop4::OP_SETXATTR(Setxattr4Args { sxa_option, sxa_key: bytes(name), sxa_value: bytes(value) })
}

pub(crate) fn list_xattrs(lxa_cookie: u64, lxa_maxcount: u32) -> Op {
    NfsArgop4::OP_LISTXATTRS(Listxattrs4Args { lxa_cookie, lxa_maxcount })
}

pub(crate) fn remove_xattr(name: &[u8]) -> Op {
    NfsArgop4::OP_REMOVEXATTR(Removexattr4Args { rxa_name: bytes(name) })
}

/// Makes a READ_PLUS of this range.
pub(crate) fn read_plus(rpa_stateid: Stateid4, rpa_offset: u64, rpa_count: u32) -> Op {
    NfsArgop4::OP_READ_PLUS(ReadPlus4Args { rpa_stateid, rpa_offset, rpa_count })
}

/// Returns segments and eof of a READ_PLUS.
#[track_caller]
pub(crate) fn segments(result: &Res) -> (Vec<ReadPlusContent<'static>>, bool) {
    match result {
        NfsResop4::OP_READ_PLUS(ReadPlus4Res::NFS4_OK(ok)) => {
            (ok.clone().into_owned().rpr_contents, ok.rpr_eof)
        }
        other => panic!("{other:?}"),
    }
}

pub(crate) fn allocate(aa_stateid: Stateid4, aa_offset: u64, aa_length: u64) -> Op {
    NfsArgop4::OP_ALLOCATE(Allocate4Args { aa_stateid, aa_offset, aa_length })
}

pub(crate) fn deallocate(da_stateid: Stateid4, da_offset: u64, da_length: u64) -> Op {
    NfsArgop4::OP_DEALLOCATE(Deallocate4Args { da_stateid, da_offset, da_length })
}

pub(crate) fn seek(sa_stateid: Stateid4, sa_offset: u64, sa_what: DataContent4) -> Op {
    NfsArgop4::OP_SEEK(Seek4Args { sa_stateid, sa_offset, sa_what })
}

pub(crate) fn clone(
    stateids: (Stateid4, Stateid4),
    cl_src_offset: u64,
    cl_dst_offset: u64,
    cl_count: u64,
) -> Op {
    let (cl_src_stateid, cl_dst_stateid) = stateids;
    NfsArgop4::OP_CLONE(Clone4Args { cl_src_stateid, cl_dst_stateid, cl_src_offset, cl_dst_offset, cl_count })
}

pub(crate) fn copy_args(
    stateids: (Stateid4, Stateid4),
    from: u64,
    to: u64,
    count: u64,
) -> Copy4Args<'static> {
    Copy4Args {
        ca_src_stateid: stateids.0,
        ca_dst_stateid: stateids.1,
        ca_src_offset: from,
        ca_dst_offset: to,
        ca_count: count,
        ca_consecutive: true,
        ca_synchronous: false,
        ca_source_server: Vec::new(),
    }
}

pub(crate) fn copy(stateids: (Stateid4, Stateid4), from: u64, to: u64, count: u64) -> Op {
    NfsArgop4::OP_COPY(copy_args(stateids, from, to, count))
}

pub(crate) fn lock_new(locktype: NfsLockType4, offset: u64, length: u64, open: Stateid4, owner: &[u8]) -> Op {
    let lock_owner = StateOwner4 { clientid: 0, owner: bytes(owner) };
    let locker =
        Locker4::TRUE(OpenToLockOwner4 { open_seqid: 0, open_stateid: open, lock_seqid: 0, lock_owner });
    NfsArgop4::OP_LOCK(Lock4Args { locktype, reclaim: false, offset, length, locker })
}

pub(crate) fn lockt(locktype: NfsLockType4, offset: u64, length: u64, owner: &[u8]) -> Op {
    let owner = StateOwner4 { clientid: 0, owner: bytes(owner) };
    NfsArgop4::OP_LOCKT(Lockt4Args { locktype, offset, length, owner })
}

pub(crate) fn locku(stateid: Stateid4, offset: u64, length: u64) -> Op {
    NfsArgop4::OP_LOCKU(Locku4Args {
        locktype: NfsLockType4::WRITE_LT,
        seqid: 0,
        lock_stateid: stateid,
        offset,
        length,
    })
}

pub(crate) fn locked(reply: &super::Reply) -> Stateid4 {
    match reply.last() {
        NfsResop4::OP_LOCK(Lock4Res::NFS4_OK(ok)) => ok.lock_stateid,
        other => panic!("{other:?}"),
    }
}
