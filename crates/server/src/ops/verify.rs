//! VERIFY and NVERIFY (RFC 8881 sections 18.31 and 18.15).

use crate::attr;
use crate::engine::{Compound, OpResult};
use nfs4::{Fattr4, Nfsstat4, Purpose, decode_fattr4};
use xdr::{Decode, Decoder, Encoder};

/// Succeeds if the attributes are the same.
///
/// # Errors
/// NFS4ERR_NOT_SAME, NFS4ERR_ATTRNOTSUPP, NFS4ERR_INVAL for attributes that cannot be compared, and
/// the backend's.
pub fn verify(c: &mut Compound<'_>, args: &mut Decoder<'_>, _: &mut Encoder) -> OpResult {
    if same(c, args)? { Ok(()) } else { Err(Nfsstat4::NFS4ERR_NOT_SAME.into()) }
}

/// Succeeds if the attributes are not the same.
///
/// # Errors
/// NFS4ERR_SAME, and as [`verify`].
pub fn nverify(c: &mut Compound<'_>, args: &mut Decoder<'_>, _: &mut Encoder) -> OpResult {
    if same(c, args)? { Err(Nfsstat4::NFS4ERR_SAME.into()) } else { Ok(()) }
}

/// Returns whether the object's attributes, encoded as fattr4, equal the client's.
fn same(c: &Compound<'_>, args: &mut Decoder<'_>) -> OpResult<bool> {
    let theirs = Fattr4::decode(args)?;
    let fh = c.fh()?;
    let supported = attr::supported(c.progress.minor, attr::features(fh));
    decode_fattr4(&theirs, Purpose::Compare, &supported).map_err(|error| error.status())?;
    let mut ours = Encoder::new();
    attr::encode(c, fh, &c.attributes_with(fh, &theirs.attrmask)?, &theirs.attrmask, &mut ours)?;
    let mut sent = Encoder::new();
    sent.value(&theirs);
    Ok(ours.as_slice() == sent.as_slice())
}
