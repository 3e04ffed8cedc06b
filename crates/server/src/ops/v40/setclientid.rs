//! SETCLIENTID (RFC 7530 section 16.33).

use crate::engine::{Compound, OpError, OpResult, OpStop};
use nfs4::{Nfsstat4, Setclientid4Args};
use state::v40::Setclientid;
use xdr::{Decode, Decoder, Encoder};

/// Registers the client, which has to confirm its client ID. The callback is not stored, since
/// there are no delegations to recall.
///
/// # Errors
/// NFS4ERR_CLID_INUSE, with an empty client_using, so that the other client's address does not
/// leak; and the errors of [`state::V40::setclientid`].
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = Setclientid4Args::decode(args)?;
    let request = Setclientid { id: &args.client.id, verifier: args.client.verifier };
    let (sender, random) = (c.sender(), c.nfs.random());
    let set = match c.check_admitted() {
        Ok(()) => c.with_effects(|state, effects| {
            state.v40().setclientid(c.now(), &sender, &request, random, effects)
        }),
        Err(OpStop::Failed(error)) => Err(error.status),
        Err(deferred) => return Err(deferred),
    };
    match set {
        Ok(ok) => {
            reply.u64(ok.clientid).opaque_fixed(&ok.confirm);
            Ok(())
        }
        Err(status @ Nfsstat4::NFS4ERR_CLID_INUSE) => {
            c.note_refused_client(status, request.id);
            reply.opaque(b"").opaque(b"");
            Err(OpError::with_body(Nfsstat4::NFS4ERR_CLID_INUSE).into())
        }
        Err(status) => Err(status.into()),
    }
}
