//! The encoding of calls, and operations with the arguments that the simulation uses.

use super::CompoundReply;
use crate::kerberos;
use nfs4::*;
use rpc::{AuthSys, CallHeader, OpaqueAuth};
use xdr::{Encode, Encoder};

/// An operation with its arguments.
pub(crate) type Op = NfsArgop4<'static>;

/// Encodes the arguments of a COMPOUND of a minor version.
pub(crate) fn arguments(minor: u32, operations: &[Op]) -> Vec<u8> {
    let mut arguments = Encoder::new();
    arguments.opaque(b"").u32(minor).array(operations);
    arguments.into_vec()
}

/// Encodes a COMPOUND call by AUTH_SYS.
pub(crate) fn sys_call(host: usize, xid: u32, arguments: &[u8]) -> Vec<u8> {
    let mut credential = Encoder::new();
    let uid = kerberos::uid(host);
    AuthSys::new(0, b"client", uid, uid, &[]).encode(&mut credential);
    let mut call = Encoder::new();
    let program = (NFS4_PROGRAM, NFS_V4, NFSPROC4_COMPOUND);
    CallHeader::encode_signed(&mut call, xid, program, &OpaqueAuth::sys(credential.as_slice()));
    OpaqueAuth::NONE.encode(&mut call);
    call.raw(arguments);
    call.into_vec()
}

/// Makes EXCHANGE_ID (RFC 8881 section 18.35) for a client's life.
pub(crate) fn exchange_id(host: usize, life: u32) -> Op {
    let mut co_verifier = [1; 8];
    co_verifier[..4].copy_from_slice(&life.to_be_bytes());
    NfsArgop4::OP_EXCHANGE_ID(ExchangeId4Args {
        eia_clientowner: ClientOwner4 {
            co_verifier,
            co_ownerid: format!("client {host}").into_bytes().into(),
        },
        eia_flags: 0,
        eia_state_protect: StateProtect4A::SP4_NONE,
        eia_client_impl_id: Vec::new(),
    })
}

/// Makes CREATE_SESSION (RFC 8881 section 18.36) with security parameters for callbacks.
pub(crate) fn create_session(
    clientid: Clientid4,
    sequence: u32,
    slots: u32,
    csa_sec_parms: Vec<CallbackSecParms4<'static>>,
) -> Op {
    let channel = |requests| ChannelAttrs4 {
        ca_headerpadsize: 0,
        ca_maxrequestsize: 1 << 16,
        ca_maxresponsesize: 1 << 16,
        ca_maxresponsesize_cached: 4096,
        ca_maxoperations: 32,
        ca_maxrequests: requests,
        ca_rdma_ird: Vec::new(),
    };
    NfsArgop4::OP_CREATE_SESSION(CreateSession4Args {
        csa_clientid: clientid,
        csa_sequence: sequence,
        csa_flags: CREATE_SESSION4_FLAG_CONN_BACK_CHAN,
        csa_fore_chan_attrs: channel(slots),
        csa_back_chan_attrs: channel(4),
        csa_cb_program: 0x4000_0000,
        csa_sec_parms,
    })
}

/// Makes PUTROOTFH and the LOOKUPs to a directory of the export.
pub(crate) fn at(path: &str) -> Vec<Op> {
    let names = ["export"].into_iter().chain(path.split('/')).filter(|name| !name.is_empty());
    [NfsArgop4::OP_PUTROOTFH].into_iter().chain(names.map(lookup)).collect()
}

/// Makes LOOKUP of a name.
pub(crate) fn lookup(name: &str) -> Op {
    NfsArgop4::OP_LOOKUP(Lookup4Args { objname: name.as_bytes().to_vec().into() })
}

/// Makes PUTFH of a filehandle.
pub(crate) fn put(handle: &[u8]) -> Op {
    NfsArgop4::OP_PUTFH(Putfh4Args { object: handle.to_vec().into() })
}

fn mode() -> Fattr4<'static> {
    let values = AttributeValues { mode: Some(0o777), ..AttributeValues::default() };
    attributes::fattr4(&values.present(), &values)
}

/// The create mode of an OPEN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Creates {
    /// Opens an existing file as well.
    Unchecked,
    /// Fails if the name exists.
    Guarded,
    /// Fails if the name exists, unless it was created with this verifier.
    Exclusive(u64),
}

/// The share_access of an OPEN, with the wanted delegation, and its share_deny.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reservation {
    /// Access bits (READ 1, WRITE 2), and the wanted delegation.
    pub access: u32,
    /// Denied access bits (READ 1, WRITE 2).
    pub deny: u32,
}

impl Reservation {
    /// Access for reading and writing, without a delegation or a denial.
    pub(crate) const PLAIN: Self = Self {
        access: OPEN4_SHARE_ACCESS_BOTH | OPEN4_SHARE_ACCESS_WANT_NO_DELEG,
        deny: OPEN4_SHARE_DENY_NONE,
    };

    /// The same for NFSv4.0, which has no wanted delegations.
    pub(crate) const V40: Self = Self { access: OPEN4_SHARE_ACCESS_BOTH, deny: OPEN4_SHARE_DENY_NONE };
}

/// The purpose of a LOCK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockClaim {
    /// A lock that the owner does not have yet.
    New,
    /// A lock from before the server's restart.
    Reclaim,
}

/// Makes LOCK of a range (RFC 8881 section 18.10): whether it is for writing, the first byte, and
/// the number of bytes.
pub(crate) fn lock_range(
    (write, start, length): (bool, usize, usize),
    claim: LockClaim,
    locker: Locker4<'static>,
) -> Op {
    let locktype = if write { NfsLockType4::WRITE_LT } else { NfsLockType4::READ_LT };
    let (reclaim, offset, length) = (claim == LockClaim::Reclaim, start as u64, length as u64);
    NfsArgop4::OP_LOCK(Lock4Args { locktype, reclaim, offset, length, locker })
}

/// Makes OPEN of a name (RFC 8881 section 18.16).
pub(crate) fn open(name: &str, owner: &[u8], creates: Creates, reservation: Reservation) -> Op {
    NfsArgop4::OP_OPEN(open_of(name, owner, creates, reservation))
}

/// Makes the arguments of OPEN of a name.
pub(crate) fn open_of(
    name: &str,
    owner: &[u8],
    creates: Creates,
    reservation: Reservation,
) -> Open4Args<'static> {
    let how = match creates {
        Creates::Unchecked => Createhow4::UNCHECKED4(mode()),
        Creates::Guarded => Createhow4::GUARDED4(mode()),
        Creates::Exclusive(verifier) => {
            Createhow4::EXCLUSIVE4_1(Creatverfattr { cva_verf: verifier.to_be_bytes(), cva_attrs: mode() })
        }
    };
    let claim = OpenClaim4::CLAIM_NULL(name.as_bytes().to_vec().into());
    open_with(owner, Openflag4::OPEN4_CREATE(how), claim, reservation)
}

/// Makes an OPEN that reclaims after a restart, with the type of its delegation.
pub(crate) fn reclaim(owner: &[u8], reservation: Reservation, delegation: OpenDelegationType4) -> Op {
    NfsArgop4::OP_OPEN(reclaim_of(owner, reservation, delegation))
}

/// Makes the arguments of an OPEN that reclaims.
pub(crate) fn reclaim_of(
    owner: &[u8],
    reservation: Reservation,
    delegation: OpenDelegationType4,
) -> Open4Args<'static> {
    let claim = OpenClaim4::CLAIM_PREVIOUS(delegation);
    open_with(owner, Openflag4::Default(Opentype4::OPEN4_NOCREATE), claim, reservation)
}

fn open_with(
    owner: &[u8],
    openhow: Openflag4<'static>,
    claim: OpenClaim4<'static>,
    reservation: Reservation,
) -> Open4Args<'static> {
    Open4Args {
        seqid: 0,
        share_access: reservation.access,
        share_deny: reservation.deny,
        owner: StateOwner4 { clientid: 0, owner: owner.to_vec().into() },
        openhow,
        claim,
    }
}

/// Makes CREATE of a directory (RFC 8881 section 18.4).
pub(crate) fn mkdir(name: &str) -> Op {
    let objname = name.as_bytes().to_vec().into();
    NfsArgop4::OP_CREATE(Create4Args { objtype: Createtype4::NF4DIR, objname, createattrs: mode() })
}

/// Makes REMOVE of a name.
pub(crate) fn remove(name: &str) -> Op {
    NfsArgop4::OP_REMOVE(Remove4Args { target: name.as_bytes().to_vec().into() })
}

/// Makes RENAME from the saved to the current directory.
pub(crate) fn rename(from: &str, to: &str) -> Op {
    let [oldname, newname] = [from, to].map(|name| name.as_bytes().to_vec().into());
    NfsArgop4::OP_RENAME(Rename4Args { oldname, newname })
}

/// Makes LINK of the saved object.
pub(crate) fn link(name: &str) -> Op {
    NfsArgop4::OP_LINK(Link4Args { newname: name.as_bytes().to_vec().into() })
}

/// Makes READ of a range.
pub(crate) fn read(stateid: Stateid4, offset: u64, count: u32) -> Op {
    NfsArgop4::OP_READ(Read4Args { stateid, offset, count })
}

/// Makes WRITE of data.
pub(crate) fn write(stateid: Stateid4, offset: u64, data: Vec<u8>, stable: StableHow4) -> Op {
    NfsArgop4::OP_WRITE(Write4Args { stateid, offset, stable, data: data.into() })
}

/// Makes COMMIT of the whole file.
pub(crate) fn commit() -> Op {
    NfsArgop4::OP_COMMIT(Commit4Args { offset: 0, count: 0 })
}

/// Returns the size in the result of GETATTR, the last operation of a reply.
pub(crate) fn size_of(reply: &CompoundReply) -> Option<u64> {
    match reply.results.last() {
        Some(NfsResop4::OP_GETATTR(Getattr4Res::NFS4_OK(ok))) => {
            decode_fattr4(&ok.obj_attributes, Purpose::Learn, &attributes::KNOWN).ok()?.size
        }
        _ => None,
    }
}

/// Makes GETATTR of the size.
pub(crate) fn getattr_size() -> Op {
    NfsArgop4::OP_GETATTR(Getattr4Args { attr_request: Bitmap4::of(&[FATTR4_SIZE]) })
}
