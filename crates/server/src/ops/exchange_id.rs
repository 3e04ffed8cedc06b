//! EXCHANGE_ID: a client owner gets a client id (RFC 8881 section 18.35).
//! Lacking: SP4_SSV

use crate::engine::{Compound, OpResult};
use nfs4::{
    Bitmap4, EXCHGID4_FLAG_SUPP_FENCE_OPS, ExchangeId4Args, Nfsstat4, StateProtect4A, StateProtectHow4,
};
use state::{ExchangeId, OpSet, StateProtect};
use xdr::{Decode, Decoder, Encode, Encoder};

/// eir_server_impl_id: names the implementation for readers of packet captures.
const IMPLEMENTATION_DOMAIN: &[u8] = b"orthrus.invalid";
const IMPLEMENTATION_NAME: &[u8] = concat!("Orthrus ", env!("CARGO_PKG_VERSION")).as_bytes();

/// Registers the client owner.
///
/// # Errors
/// NFS4ERR_INVAL for a flag of 4.2 in 4.1 (RFC 7862 section 14.1), NFS4ERR_ENCR_ALG_UNSUPP for
/// SP4_SSV, NFS4ERR_CLID_INUSE from an address that no export admits, and the errors of
/// [`state::Clients::exchange_id`].
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = ExchangeId4Args::decode(args)?;
    if c.progress.minor < 2 && args.eia_flags & EXCHGID4_FLAG_SUPP_FENCE_OPS != 0 {
        return Err(Nfsstat4::NFS4ERR_INVAL.into());
    }
    let protect = match &args.eia_state_protect {
        StateProtect4A::SP4_NONE => StateProtect::None,
        StateProtect4A::SP4_MACH_CRED(ops) => StateProtect::MachCred {
            must_enforce: ops.spo_must_enforce.iter().collect::<OpSet>(),
            must_allow: ops.spo_must_allow.iter().collect::<OpSet>(),
        },
        StateProtect4A::SP4_SSV(_) => return Err(Nfsstat4::NFS4ERR_ENCR_ALG_UNSUPP.into()),
    };
    c.check_admitted()?;
    let request = ExchangeId {
        owner: &args.eia_clientowner.co_ownerid,
        verifier: args.eia_clientowner.co_verifier,
        flags: args.eia_flags,
        protect,
    };
    let (sender, random) = (c.sender(), c.nfs.random());
    let made = c.with_effects(|state, effects| {
        state.clients().exchange_id(c.now(), &sender, &request, random, effects)
    });
    let ok = made.inspect_err(|status| c.note_refused_client(*status, request.owner))?;
    reply.u64(ok.clientid).u32(ok.sequenceid).u32(ok.flags);
    encode_protect(&ok.protect, reply);
    let owner = &c.nfs.config.server_owner;
    let scope = c.nfs.config.server_scope.as_ref().unwrap_or(owner);
    reply.u64(0).opaque(owner).opaque(scope);
    reply.u32(1).opaque(IMPLEMENTATION_DOMAIN).opaque(IMPLEMENTATION_NAME).i64(0).u32(0);
    Ok(())
}

/// Encodes the reply's eir_state_protect.
fn encode_protect(protect: &StateProtect, reply: &mut Encoder) {
    match protect {
        StateProtect::None => {
            reply.u32(StateProtectHow4::SP4_NONE as u32);
        }
        StateProtect::MachCred { must_enforce, must_allow } => {
            reply.u32(StateProtectHow4::SP4_MACH_CRED as u32);
            bitmap(*must_enforce).encode(reply);
            bitmap(*must_allow).encode(reply);
        }
    }
}

fn bitmap(operations: OpSet) -> Bitmap4 {
    (0..128).filter(|operation| operations.contains(*operation)).collect()
}
