//! The bytes of calls, and operations with the arguments that matter here.

use super::Reply;
use crate::kerberos;
use nfs4::*;
use rpc::{AuthSys, CallHeader, OpaqueAuth};
use xdr::{Encode, Encoder};

/// An operation.
pub(crate) type Op = NfsArgop4<'static>;

/// Encodes the arguments of a COMPOUND of a minor version.
pub(super) fn arguments(minor: u32, operations: &[Op]) -> Vec<u8> {
    let mut arguments = Encoder::new();
    arguments.opaque(b"").u32(minor).array(operations);
    arguments.into_vec()
}

/// Encodes a COMPOUND call by AUTH_SYS.
pub(super) fn sys_call(host: usize, xid: u32, arguments: &[u8]) -> Vec<u8> {
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

/// EXCHANGE_ID (RFC 8881 section 18.35) of a client's life.
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

/// CREATE_SESSION (section 18.36).
pub(crate) fn create_session(clientid: Clientid4, sequence: u32, slots: u32) -> Op {
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
        csa_sec_parms: vec![CallbackSecParms4::AUTH_NONE],
    })
}

/// The path to a directory of the export, by PUTROOTFH and LOOKUPs.
pub(crate) fn at(path: &str) -> Vec<Op> {
    let names = ["export"].into_iter().chain(path.split('/')).filter(|name| !name.is_empty());
    [NfsArgop4::OP_PUTROOTFH].into_iter().chain(names.map(lookup)).collect()
}

/// LOOKUP.
pub(crate) fn lookup(name: &str) -> Op {
    NfsArgop4::OP_LOOKUP(Lookup4Args { objname: name.as_bytes().to_vec().into() })
}

/// PUTFH.
pub(crate) fn put(handle: &[u8]) -> Op {
    NfsArgop4::OP_PUTFH(Putfh4Args { object: handle.to_vec().into() })
}

fn mode() -> Fattr4<'static> {
    let values = AttributeValues { mode: Some(0o777), ..AttributeValues::default() };
    attributes::fattr4(&values.present(), &values)
}

/// How an OPEN creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Creates {
    /// It takes what is there.
    Unchecked,
    /// It must be new.
    Guarded,
    /// It must be new, or made with this verifier.
    Exclusive(u64),
}

/// share_access, with the delegation that the client wants, and share_deny.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reservation {
    /// READ 1, WRITE 2, and a want.
    pub access: u32,
    /// READ 1, WRITE 2.
    pub deny: u32,
}

impl Reservation {
    /// For reading and writing, without a delegation; denies nothing.
    pub(crate) const PLAIN: Self = Self {
        access: OPEN4_SHARE_ACCESS_BOTH | OPEN4_SHARE_ACCESS_WANT_NO_DELEG,
        deny: OPEN4_SHARE_DENY_NONE,
    };

    /// The same for NFSv4.0, which has no wants.
    pub(crate) const V40: Self = Self { access: OPEN4_SHARE_ACCESS_BOTH, deny: OPEN4_SHARE_DENY_NONE };
}

/// OPEN of a name (section 18.16).
pub(crate) fn open(name: &str, owner: &[u8], creates: Creates, reservation: Reservation) -> Op {
    NfsArgop4::OP_OPEN(open_of(name, owner, creates, reservation))
}

/// The arguments of OPEN of a name.
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

/// OPEN that reclaims after a restart, with the delegation if there was one.
pub(crate) fn reclaim(owner: &[u8], reservation: Reservation, delegation: OpenDelegationType4) -> Op {
    NfsArgop4::OP_OPEN(reclaim_of(owner, reservation, delegation))
}

/// The arguments of OPEN that reclaims.
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

/// MKDIR, as NFSv4 has it: CREATE (section 18.4).
pub(crate) fn mkdir(name: &str) -> Op {
    let objname = name.as_bytes().to_vec().into();
    NfsArgop4::OP_CREATE(Create4Args { objtype: Createtype4::NF4DIR, objname, createattrs: mode() })
}

/// REMOVE.
pub(crate) fn remove(name: &str) -> Op {
    NfsArgop4::OP_REMOVE(Remove4Args { target: name.as_bytes().to_vec().into() })
}

/// RENAME.
pub(crate) fn rename(from: &str, to: &str) -> Op {
    let [oldname, newname] = [from, to].map(|name| name.as_bytes().to_vec().into());
    NfsArgop4::OP_RENAME(Rename4Args { oldname, newname })
}

/// LINK.
pub(crate) fn link(name: &str) -> Op {
    NfsArgop4::OP_LINK(Link4Args { newname: name.as_bytes().to_vec().into() })
}

/// READ.
pub(crate) fn read(stateid: Stateid4, offset: u64, count: u32) -> Op {
    NfsArgop4::OP_READ(Read4Args { stateid, offset, count })
}

/// WRITE.
pub(crate) fn write(stateid: Stateid4, offset: u64, data: Vec<u8>, stable: StableHow4) -> Op {
    NfsArgop4::OP_WRITE(Write4Args { stateid, offset, stable, data: data.into() })
}

/// COMMIT of the whole file.
pub(crate) fn commit() -> Op {
    NfsArgop4::OP_COMMIT(Commit4Args { offset: 0, count: 0 })
}

/// The size that the last operation of a reply, a GETATTR, tells.
pub(crate) fn size_of(reply: &Reply) -> Option<u64> {
    match reply.results.last() {
        Some(NfsResop4::OP_GETATTR(Getattr4Res::NFS4_OK(ok))) => {
            decode_fattr4(&ok.obj_attributes, Purpose::Learn, &attributes::KNOWN).ok()?.size
        }
        _ => None,
    }
}

/// GETATTR of the size.
pub(crate) fn getattr_size() -> Op {
    NfsArgop4::OP_GETATTR(Getattr4Args { attr_request: Bitmap4::of(&[FATTR4_SIZE]) })
}
