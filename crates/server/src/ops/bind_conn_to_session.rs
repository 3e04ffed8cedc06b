//! BIND_CONN_TO_SESSION (RFC 8881 section 18.34).
//! Lacking: RDMA

use crate::engine::{Compound, OpResult};
use nfs4::{BindConnToSession4Args, ChannelDirFromClient4, ChannelDirFromServer4};
use state::{Bound, ChannelDirection};
use xdr::{Decode, Decoder, Encoder};

/// Binds the connection of the call to a session; never steps up to RDMA.
///
/// # Errors
/// The errors of [`state::Sessions::bind_conn_to_session`].
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = BindConnToSession4Args::decode(args)?;
    let direction = match args.bctsa_dir {
        ChannelDirFromClient4::CDFC4_FORE => ChannelDirection::Fore,
        ChannelDirFromClient4::CDFC4_BACK => ChannelDirection::Back,
        ChannelDirFromClient4::CDFC4_FORE_OR_BOTH => ChannelDirection::ForeOrBoth,
        ChannelDirFromClient4::CDFC4_BACK_OR_BOTH => ChannelDirection::BackOrBoth,
    };
    let sender = c.sender();
    let bound = c.state().sessions().bind_conn_to_session(&sender, &args.bctsa_sessid, direction)?;
    let direction = match bound {
        Bound::Fore => ChannelDirFromServer4::CDFS4_FORE,
        Bound::Back => ChannelDirFromServer4::CDFS4_BACK,
        Bound::Both => ChannelDirFromServer4::CDFS4_BOTH,
    };
    reply.opaque_fixed(&args.bctsa_sessid).u32(direction as u32).boolean(false);
    Ok(())
}
