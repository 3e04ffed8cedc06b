//! IO_ADVISE (RFC 7862 section 15.5).

use crate::engine::{Compound, OpResult};
use nfs4::{Bitmap4, IoAdvise4Args, IoAdviseType4};
use vfs::Advice;
use xdr::{Decode, Decoder, Encoder};

/// The hints that the kernel supports as well.
const KNOWN: [(IoAdviseType4, Advice); 6] = [
    (IoAdviseType4::IO_ADVISE4_NORMAL, Advice::Normal),
    (IoAdviseType4::IO_ADVISE4_SEQUENTIAL, Advice::Sequential),
    (IoAdviseType4::IO_ADVISE4_RANDOM, Advice::Random),
    (IoAdviseType4::IO_ADVISE4_WILLNEED, Advice::WillNeed),
    (IoAdviseType4::IO_ADVISE4_DONTNEED, Advice::DontNeed),
    (IoAdviseType4::IO_ADVISE4_NOREUSE, Advice::NoReuse),
];

/// Passes on the hints that the backend follows, and returns these; others are not an error.
///
/// # Errors
/// The errors of stateids, NFS4ERR_ISDIR and its kin, NFS4ERR_LOCKED.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = IoAdvise4Args::decode(args)?;
    let file = c.file_to_advise(args.iaa_stateid)?;
    let wanted = KNOWN.iter().filter(|(hint, _)| args.iaa_hints.contains(*hint as u32));
    let followed = wanted.filter(|(_, advice)| file.advise(*advice, args.iaa_offset, args.iaa_count));
    let followed: Bitmap4 = followed.map(|(hint, _)| *hint as u32).collect();
    reply.value(&followed);
    Ok(())
}
