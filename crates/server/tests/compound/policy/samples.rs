//! Sample calls of each operation, with arguments that succeed.

use super::world::{Kind, World};
use crate::helper::*;
use nfs4::Nfsstat4::*;
use nfs4::*;
use xdr::{Encode, Encoder};

/// One sample call of an operation.
pub(super) struct Sample {
    /// The encoded operation: number and arguments.
    pub bytes: Vec<u8>,
    /// The kind of the current filehandle.
    pub on: Kind,
    /// The kind of the saved filehandle, where it matters.
    pub saved: Option<Kind>,
    /// The statuses that an admitted caller may get.
    pub expect: Vec<Nfsstat4>,
    /// Whether a read-only export refuses it, although the operation as such may be used there.
    pub modifies: bool,
}

impl Sample {
    fn with(mut self, saved: Kind) -> Self {
        self.saved = Some(saved);
        self
    }

    fn or(mut self, status: Nfsstat4) -> Self {
        self.expect.push(status);
        self
    }

    fn modifies(mut self) -> Self {
        self.modifies = true;
        self
    }
}

/// The use of filehandles by an operation.
pub(super) enum Samples {
    /// It neither uses nor sets one.
    NoFilehandle,
    /// It uses or sets one, as in these samples.
    Of(Vec<Sample>),
}

fn on(on: Kind, op: Op) -> Sample {
    let mut bytes = Encoder::new();
    op.encode(&mut bytes);
    Sample { bytes: bytes.into_vec(), on, saved: None, expect: vec![NFS4_OK], modifies: false }
}

fn one(sample: Sample) -> Option<Samples> {
    Some(Samples::Of(vec![sample]))
}

/// Returns the sample of an unsupported operation, whose arguments are not read.
fn without_arguments(opnum: NfsOpnum4) -> Option<Samples> {
    let bytes = (opnum as u32).to_be_bytes().to_vec();
    let expect = vec![NFS4ERR_NOTSUPP];
    one(Sample { bytes, on: Kind::File, saved: None, expect, modifies: false })
}

/// Returns the samples of an operation; `None` for one without samples here.
pub(super) fn samples(opnum: NfsOpnum4, minor: u32, w: &World<'_>) -> Option<Samples> {
    use Kind::*;
    use NfsOpnum4::*;
    if minor == 0
        && let Some(found) = of_nfs40(opnum, w)
    {
        return Some(found);
    }
    let anonymous = Stateid4::ANONYMOUS;
    let both = (anonymous, anonymous);
    let size = |size| fattr(AttributeValues { size: Some(size), ..AttributeValues::default() });
    let hints = Bitmap4::default;
    match opnum {
        OP_ACCESS => one(on(File, NfsArgop4::OP_ACCESS(Access4Args { access: 0x3f }))),
        OP_CLOSE => one(on(File, close(w.open_stateid)).or(NFS4ERR_LOCKS_HELD)),
        OP_COMMIT => one(on(File, NfsArgop4::OP_COMMIT(Commit4Args { offset: 0, count: 0 }))),
        OP_CREATE => one(on(Directory, mkdir("new"))),
        OP_DELEGRETURN => {
            let op = NfsArgop4::OP_DELEGRETURN(Delegreturn4Args { deleg_stateid: w.open_stateid });
            one(on(File, op).or(NFS4ERR_BAD_STATEID))
        }
        OP_GETATTR => one(on(File, getattr(&[FATTR4_SIZE, FATTR4_FILEID, FATTR4_ACL]))),
        OP_GETFH => one(on(File, getfh())),
        OP_LINK => one(on(Directory, link("linked")).with(File)),
        OP_LOCK => one(on(File, lock_new(NfsLockType4::READ_LT, 10, 1, w.open_stateid, b"another"))),
        OP_LOCKT => one(on(File, lockt(NfsLockType4::WRITE_LT, 20, 1, b"third"))),
        OP_LOCKU => one(on(File, locku(w.lock_stateid, 0, 1)).or(NFS4ERR_BAD_STATEID)),
        OP_LOOKUP => one(on(Directory, lookup("secret-name"))),
        OP_LOOKUPP => one(on(Directory, NfsArgop4::OP_LOOKUPP)),
        OP_NVERIFY => one(on(File, NfsArgop4::OP_NVERIFY(Nverify4Args { obj_attributes: size(1) }))),
        OP_VERIFY => {
            let op = NfsArgop4::OP_VERIFY(Verify4Args { obj_attributes: size(super::world::SIZE) });
            one(on(File, op).or(NFS4ERR_NOT_SAME))
        }
        OP_OPEN => {
            let how = |how, claim, access| open_how(how, claim, access, 0, b"opener");
            let truncate = || Openflag4::OPEN4_CREATE(Createhow4::UNCHECKED4(size(0)));
            let exclusive = Openflag4::OPEN4_CREATE(Createhow4::EXCLUSIVE4([7; 8]));
            let current = || OpenClaim4::CLAIM_FH;
            Some(Samples::Of(vec![
                on(Directory, how(NOCREATE, by_name("secret-name"), 1)),
                on(Directory, how(NOCREATE, by_name("secret-name"), 2)).modifies(),
                on(Directory, how(NOCREATE, by_name("secret-name"), 3)).modifies(),
                on(File, how(NOCREATE, current(), 1)),
                on(File, how(NOCREATE, current(), 2)).modifies(),
                on(Directory, open_create("new", 1)).modifies(),
                on(Directory, how(exclusive, by_name("exclusive"), 1)).modifies(),
                on(Directory, how(truncate(), by_name("secret-victim"), 3)).modifies(),
            ]))
        }
        OP_OPEN_DOWNGRADE => {
            let (open_stateid, share_access) = (w.open_stateid, OPEN4_SHARE_ACCESS_BOTH);
            let args = OpenDowngrade4Args { open_stateid, seqid: 0, share_access, share_deny: 0 };
            one(on(File, NfsArgop4::OP_OPEN_DOWNGRADE(args)))
        }
        OP_PUTFH => one(on(File, put(&w.closed[File]))),
        OP_READ => one(on(File, read(anonymous, 0, 100))),
        OP_READDIR => {
            let (cookieverf, attr_request) = ([0; 8], [FATTR4_SIZE, FATTR4_FILEID].into_iter().collect());
            let args = Readdir4Args { cookie: 0, cookieverf, dircount: 0, maxcount: 4096, attr_request };
            one(on(Directory, NfsArgop4::OP_READDIR(args)))
        }
        OP_READLINK => one(on(Link, NfsArgop4::OP_READLINK)),
        OP_REMOVE => one(on(Directory, remove("secret-victim"))),
        OP_RENAME => one(on(Directory, rename("secret-victim", "moved")).with(Directory)),
        OP_RESTOREFH => one(on(Directory, NfsArgop4::OP_RESTOREFH).with(File)),
        OP_SAVEFH => one(on(File, savefh())),
        OP_SECINFO => one(on(Directory, NfsArgop4::OP_SECINFO(Secinfo4Args { name: bytes(b"secret-name") }))),
        OP_SETATTR => Some(Samples::Of(vec![
            on(File, setattr(anonymous, mode(0o600))),
            on(File, setattr(anonymous, size(3))),
        ])),
        OP_WRITE => one(on(File, write(anonymous, 0, b"overwritten"))),
        OP_GET_DIR_DELEGATION => {
            let time = || Nfstime4 { seconds: 0, nseconds: 0 };
            let op = NfsArgop4::OP_GET_DIR_DELEGATION(GetDirDelegation4Args {
                gdda_signal_deleg_avail: false,
                gdda_notification_types: hints(),
                gdda_child_attr_delay: time(),
                gdda_dir_attr_delay: time(),
                gdda_child_attributes: hints(),
                gdda_dir_attributes: hints(),
            });
            one(on(Directory, op).or(NFS4ERR_NOTSUPP))
        }
        OP_SECINFO_NO_NAME => Some(Samples::Of(
            [SecinfoStyle4::SECINFO_STYLE4_CURRENT_FH, SecinfoStyle4::SECINFO_STYLE4_PARENT]
                .map(|style| on(Directory, NfsArgop4::OP_SECINFO_NO_NAME(style)))
                .into(),
        )),
        OP_ALLOCATE => one(on(File, allocate(anonymous, 0, 10))),
        OP_DEALLOCATE => one(on(File, deallocate(anonymous, 0, 10))),
        OP_COPY => one(on(Victim, copy(both, 0, 0, 20)).with(File)),
        OP_CLONE => one(on(Victim, clone(both, 0, 0, 0)).with(File).or(NFS4ERR_NOTSUPP)),
        OP_IO_ADVISE => {
            let args =
                IoAdvise4Args { iaa_stateid: anonymous, iaa_offset: 0, iaa_count: 0, iaa_hints: hints() };
            one(on(File, NfsArgop4::OP_IO_ADVISE(args)))
        }
        OP_OFFLOAD_CANCEL => {
            let op = NfsArgop4::OP_OFFLOAD_CANCEL(OffloadCancel4Args { oca_stateid: w.open_stateid });
            one(on(File, op).or(NFS4ERR_BAD_STATEID))
        }
        OP_OFFLOAD_STATUS => {
            let op = NfsArgop4::OP_OFFLOAD_STATUS(OffloadStatus4Args { osa_stateid: w.open_stateid });
            one(on(File, op).or(NFS4ERR_BAD_STATEID))
        }
        OP_READ_PLUS => one(on(File, read_plus(anonymous, 0, 100))),
        OP_SEEK => one(on(File, seek(anonymous, 0, DataContent4::NFS4_CONTENT_DATA))),
        OP_GETXATTR => one(on(File, get_xattr(b"secret-key"))),
        OP_SETXATTR => one(on(File, set_xattr(SetxattrOption4::SETXATTR4_EITHER, b"new", b"value"))),
        OP_LISTXATTRS => one(on(File, list_xattrs(0, 4096))),
        OP_REMOVEXATTR => one(on(File, remove_xattr(b"secret-key"))),
        OP_OPENATTR | OP_GETDEVICELIST | OP_LAYOUTCOMMIT | OP_LAYOUTGET | OP_LAYOUTRETURN => {
            without_arguments(opnum)
        }
        OP_DELEGPURGE
        | OP_OPEN_CONFIRM
        | OP_PUTPUBFH
        | OP_PUTROOTFH
        | OP_RENEW
        | OP_SETCLIENTID
        | OP_SETCLIENTID_CONFIRM
        | OP_RELEASE_LOCKOWNER
        | OP_BACKCHANNEL_CTL
        | OP_BIND_CONN_TO_SESSION
        | OP_EXCHANGE_ID
        | OP_CREATE_SESSION
        | OP_DESTROY_SESSION
        | OP_FREE_STATEID
        | OP_GETDEVICEINFO
        | OP_SEQUENCE
        | OP_SET_SSV
        | OP_TEST_STATEID
        | OP_WANT_DELEGATION
        | OP_DESTROY_CLIENTID
        | OP_RECLAIM_COMPLETE
        | OP_COPY_NOTIFY
        | OP_LAYOUTERROR
        | OP_LAYOUTSTATS
        | OP_WRITE_SAME => Some(Samples::NoFilehandle),
        _ => None,
    }
}

/// Returns the samples that differ in NFSv4.0: owners have sequence numbers.
fn of_nfs40(opnum: NfsOpnum4, w: &World<'_>) -> Option<Samples> {
    use Kind::*;
    use NfsOpnum4::*;
    let client = w.old();
    match opnum {
        OP_CLOSE => one(on(File, client.close_op(w.open_stateid)).or(NFS4ERR_LOCKS_HELD)),
        OP_LOCK => one(on(File, client.lock_op(w.lock_stateid, 10, 1)).or(NFS4ERR_BAD_STATEID)),
        OP_LOCKT => {
            let owner = StateOwner4 { clientid: client.clientid, owner: bytes(b"third") };
            let args = Lockt4Args { locktype: NfsLockType4::WRITE_LT, offset: 20, length: 1, owner };
            one(on(File, NfsArgop4::OP_LOCKT(args)))
        }
        OP_LOCKU => one(on(File, client.unlock_op(w.lock_stateid, 0, 1)).or(NFS4ERR_BAD_STATEID)),
        OP_OPEN => {
            let create = |attributes| Openflag4::OPEN4_CREATE(Createhow4::UNCHECKED4(attributes));
            let empty = || fattr(AttributeValues { size: Some(0), ..AttributeValues::default() });
            let open =
                |owner: &[u8], how, name, access| client.open_as(owner, 1, how, by_name(name), access, 0);
            Some(Samples::Of(vec![
                on(Directory, open(b"one", NOCREATE, "secret-name", 1)),
                on(Directory, open(b"two", NOCREATE, "secret-name", 3)).modifies(),
                on(Directory, open(b"three", create(mode(0o644)), "new", 1)).modifies(),
                on(Directory, open(b"four", create(empty()), "secret-victim", 3)).modifies(),
            ]))
        }
        // There is nothing left to confirm.
        OP_OPEN_CONFIRM => one(on(File, client.confirm_op(w.open_stateid)).or(NFS4ERR_BAD_STATEID)),
        OP_OPEN_DOWNGRADE => {
            let (open_stateid, share_access) = (w.open_stateid, OPEN4_SHARE_ACCESS_BOTH);
            let seqid = client.next_open();
            let args = OpenDowngrade4Args { open_stateid, seqid, share_access, share_deny: 0 };
            one(on(File, NfsArgop4::OP_OPEN_DOWNGRADE(args)))
        }
        _ => None,
    }
}
