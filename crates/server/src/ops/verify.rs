//! VERIFY and NVERIFY (RFC 8881 sections 18.31 and 18.15).

use crate::attr;
use crate::engine::{Compound, Fh, Object, OpResult};
use nfs4::{Fattr4, Nfsstat4, Purpose, decode_fattr4};
use xdr::{Decode, Decoder, Encoder};

/// Succeeds if the attributes are the same.
///
/// # Errors
/// NFS4ERR_NOT_SAME, NFS4ERR_ATTRNOTSUPP, NFS4ERR_INVAL for attributes that cannot be compared,
/// NFS4ERR_MOVED for attributes that an absent file system has not, and the backend's.
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
    if let Fh::Object(object) = fh
        && fh.is_absent()
    {
        return same_absent(c, object, &theirs);
    }
    let supported = attr::supported_of(c.progress.minor, fh);
    decode_fattr4(&theirs, Purpose::Compare, &supported).map_err(|error| error.status())?;
    let mut ours = Encoder::new();
    attr::encode(c, fh, &c.attributes_with(fh, &theirs.attrmask)?, &theirs.attrmask, &mut ours)?;
    Ok(ours.as_slice() == encoded(&theirs).as_slice())
}

/// As [`same`] in an absent file system. An attribute that is not available there is an error, too
/// (RFC 8881 section 11.4.1).
fn same_absent(c: &Compound<'_>, object: &Object, theirs: &Fattr4<'_>) -> OpResult<bool> {
    let supported = attr::supported_absent(object);
    if !attr::asks_locations(c.progress.minor, &theirs.attrmask) || !theirs.attrmask.is_subset_of(&supported)
    {
        return Err(Nfsstat4::NFS4ERR_MOVED.into());
    }
    decode_fattr4(theirs, Purpose::Compare, &supported).map_err(|error| error.status())?;
    let mut ours = Encoder::new();
    attr::encode_absent(c, object, &theirs.attrmask, Nfsstat4::NFS4_OK, &mut ours);
    Ok(ours.as_slice() == encoded(theirs).as_slice())
}

fn encoded(fattr: &Fattr4<'_>) -> Encoder {
    let mut encoder = Encoder::new();
    encoder.value(fattr);
    encoder
}
