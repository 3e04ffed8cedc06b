//! Attribute lists: `fattr4` (RFC 8881 sections 3.3.7 and 5).
//!
//! A list is a bitmap and, in one opaque, the values of its members in ascending order without
//! separators: a reader that does not know one attribute cannot read the following ones.

mod table;
#[cfg(test)]
mod tests;

use xdr::{Decoder, Encoder};

pub use table::{AttributeValues, GETTABLE, KNOWN, SETTABLE, name};

use crate::*;

/// The attributes that every server has to support (RFC 8881 section 5.6).
pub const REQUIRED: Bitmap4 = Bitmap4::of(&[
    FATTR4_SUPPORTED_ATTRS,
    FATTR4_TYPE,
    FATTR4_FH_EXPIRE_TYPE,
    FATTR4_CHANGE,
    FATTR4_SIZE,
    FATTR4_LINK_SUPPORT,
    FATTR4_SYMLINK_SUPPORT,
    FATTR4_NAMED_ATTR,
    FATTR4_FSID,
    FATTR4_UNIQUE_HANDLES,
    FATTR4_LEASE_TIME,
    FATTR4_RDATTR_ERROR,
    FATTR4_FILEHANDLE,
    FATTR4_SUPPATTR_EXCLCREAT,
]);

/// The use of a received attribute list; it decides which attributes the list may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To set: arguments of SETATTR, CREATE and OPEN.
    Set,
    /// To compare: arguments of VERIFY and NVERIFY.
    Compare,
    /// To learn: results of GETATTR and READDIR, arguments of callbacks.
    Learn,
}

/// Says why a received attribute list is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttributeError {
    /// An attribute that the server does not support on this object; `None` stands for one above
    /// 127.
    #[error("attribute {} is not supported", .0.map_or("above 127", name))]
    Unsupported(Option<u32>),
    /// An attribute that can only be read is to be set (RFC 8881 section 5.5).
    #[error("attribute {} cannot be set", name(*.0))]
    GetOnly(u32),
    /// An attribute that can only be set, or that says something about a reply, is to be compared.
    #[error("attribute {} cannot be compared", name(*.0))]
    SetOnly(u32),
    /// The values do not match the bitmap.
    #[error(transparent)]
    Xdr(#[from] xdr::Error),
}

impl AttributeError {
    /// The status that tells the client (RFC 8881 sections 5.5, 18.30.3 and 18.31.3).
    pub const fn status(&self) -> Nfsstat4 {
        match self {
            Self::Unsupported(_) => Nfsstat4::NFS4ERR_ATTRNOTSUPP,
            Self::GetOnly(_) | Self::SetOnly(_) => Nfsstat4::NFS4ERR_INVAL,
            Self::Xdr(_) => Nfsstat4::NFS4ERR_BADXDR,
        }
    }
}

/// Appends a `fattr4` with the attributes that are in `mask` and have a value, and returns which
/// these were.
pub fn encode_fattr4(mask: &Bitmap4, values: &AttributeValues<'_>, encoder: &mut Encoder) -> Bitmap4 {
    let written = mask.iter().filter(|bit| values.has(*bit)).collect();
    encoder.value(&written);
    let length_at = encoder.len();
    encoder.u32(0);
    let start = encoder.len();
    for bit in &written {
        values.encode_one(bit, encoder);
    }
    let length = u32::try_from(encoder.len() - start).unwrap_or(u32::MAX);
    encoder.patch_u32(length_at, length);
    written
}

/// Returns a `fattr4` with the attributes that are in `mask` and have a value.
pub fn fattr4(mask: &Bitmap4, values: &AttributeValues<'_>) -> Fattr4<'static> {
    let mut encoder = Encoder::new();
    let attrmask: Bitmap4 = mask.iter().filter(|bit| values.has(*bit)).collect();
    for bit in &attrmask {
        values.encode_one(bit, &mut encoder);
    }
    Fattr4 { attrmask, attr_vals: encoder.into_vec().into() }
}

/// Reads the values of a received `fattr4`; see [`decode_attributes`].
///
/// # Errors
/// The errors of [`decode_attributes`].
pub fn decode_fattr4<'a>(
    fattr: &'a Fattr4<'_>,
    purpose: Purpose,
    supported: &Bitmap4,
) -> Result<AttributeValues<'a>, AttributeError> {
    decode_attributes(&fattr.attrmask, &fattr.attr_vals, purpose, supported)
}

/// Reads the values of the attributes in `mask`. A server passes the attributes that it supports on
/// the object in question, a client passes [`KNOWN`].
///
/// The text of owners and of access control lists is not checked: identity mapping refuses unknown
/// users (NFS4ERR_BADOWNER).
///
/// # Errors
/// Any [`AttributeError`]. An error of the mask alone is found before any value is read.
pub fn decode_attributes<'a>(
    mask: &Bitmap4,
    values: &'a [u8],
    purpose: Purpose,
    supported: &Bitmap4,
) -> Result<AttributeValues<'a>, AttributeError> {
    check_mask(mask, purpose, supported)?;
    let mut decoded = AttributeValues::default();
    let mut decoder = Decoder::new(values);
    for bit in mask {
        if bit == FATTR4_FILEHANDLE {
            // The alias has a bound that its Rust type does not carry; a copy of the decoder looks
            // ahead.
            let mut ahead = decoder;
            ahead.opaque(NFS4_FHSIZE as usize)?;
        }
        decoded.decode_one(bit, &mut decoder)?;
    }
    decoder.finish()?;
    Ok(decoded)
}

fn check_mask(mask: &Bitmap4, purpose: Purpose, supported: &Bitmap4) -> Result<(), AttributeError> {
    if mask.has_beyond() {
        return Err(AttributeError::Unsupported(None));
    }
    let unsupported = mask.and_not(&supported.and(&KNOWN));
    if let Some(bit) = unsupported.iter().next() {
        return Err(AttributeError::Unsupported(Some(bit)));
    }
    let refused = match purpose {
        Purpose::Set => mask.and_not(&SETTABLE).iter().next().map(AttributeError::GetOnly),
        Purpose::Compare => {
            let mut comparable = GETTABLE;
            comparable.clear(FATTR4_RDATTR_ERROR);
            mask.and_not(&comparable).iter().next().map(AttributeError::SetOnly)
        }
        Purpose::Learn => None,
    };
    refused.map_or(Ok(()), Err)
}
