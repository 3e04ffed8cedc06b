//! GETXATTR, SETXATTR, LISTXATTRS and REMOVEXATTR (RFC 8276 section 8.4).
//!
//! There is one name space, `user.` on Linux, and its prefix is not on the wire. Names are UTF-8,
//! like file names, but may contain slashes.

use crate::engine::{Change, Compound, Object, OpError, OpResult};
use nfs4::{Getxattr4Args, Listxattrs4Args, Nfsstat4, Removexattr4Args, Setxattr4Args, SetxattrOption4};
use vfs::{Caller, XATTR_NAME_MAX, XATTR_SIZE_MAX, XattrHow};
use xdr::{Decode, Decoder, Encoder};

/// Bytes of LISTXATTRS4resok besides the names: cookie, number of names, eof.
const LIST_OVERHEAD: usize = 16;

/// Returns the value of an attribute.
///
/// # Errors
/// NFS4ERR_NOXATTR, the errors of names, NFS4ERR_NOTSUPP, and the backend's.
pub fn get(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = Getxattr4Args::decode(args)?;
    let (object, caller) = subject(c)?;
    let value = object.export.backend.get_xattr(&caller, &object.handle, checked(&args.gxa_name)?)?;
    reply.opaque(&value);
    Ok(())
}

/// Sets a value and returns the object's change attribute before and after.
///
/// # Errors
/// NFS4ERR_EXIST, NFS4ERR_NOXATTR, NFS4ERR_XATTR2BIG, the errors of names, NFS4ERR_NOTSUPP, and the
/// backend's.
pub fn set(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = Setxattr4Args::decode(args)?;
    let (object, caller) = subject(c)?;
    let how = match args.sxa_option {
        SetxattrOption4::SETXATTR4_EITHER => XattrHow::Either,
        SetxattrOption4::SETXATTR4_CREATE => XattrHow::Create,
        SetxattrOption4::SETXATTR4_REPLACE => XattrHow::Replace,
    };
    let name = checked(&args.sxa_key)?;
    if args.sxa_value.len() > XATTR_SIZE_MAX {
        return Err(Nfsstat4::NFS4ERR_XATTR2BIG.into());
    }
    c.begin_change(&object)?;
    let change = Change::before(&object)?;
    object.export.backend.set_xattr(&caller, &object.handle, name, &args.sxa_value, how)?;
    reply.value(&change.after(&object));
    c.sync_before_reply(&object)
}

/// Returns as many names as fit. A cookie is the number of names before it in their order: a name
/// that is set or removed in between may shift others, as with any list that is read in parts.
///
/// # Errors
/// NFS4ERR_TOOSMALL when not even one fits, NFS4ERR_BAD_COOKIE, NFS4ERR_NOTSUPP, and the backend's.
pub fn list(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = Listxattrs4Args::decode(args)?;
    let (object, caller) = subject(c)?;
    let mut names = object.export.backend.list_xattrs(&caller, &object.handle)?;
    names.retain(|name| std::str::from_utf8(name).is_ok());
    let first = usize::try_from(args.lxa_cookie).unwrap_or(usize::MAX);
    let rest = names.get(first..).ok_or(Nfsstat4::NFS4ERR_BAD_COOKIE)?;
    let most = usize::try_from(args.lxa_maxcount).unwrap_or(usize::MAX).min(c.room(reply));
    let mut room = most.checked_sub(LIST_OVERHEAD).ok_or(Nfsstat4::NFS4ERR_TOOSMALL)?;
    let fits = |name: &&Vec<u8>| {
        let left = room.checked_sub(4 + name.len().next_multiple_of(4));
        room = left.unwrap_or(0);
        left.is_some()
    };
    let count = rest.iter().take_while(fits).count();
    if count == 0 && !rest.is_empty() {
        return Err(Nfsstat4::NFS4ERR_TOOSMALL.into());
    }
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    reply.u64(number(first + count).into()).u32(number(count));
    for name in rest.iter().take(count) {
        reply.opaque(name);
    }
    reply.boolean(count == rest.len());
    Ok(())
}

/// Removes an attribute and returns the object's change attribute before and after.
///
/// # Errors
/// As [`get`].
pub fn remove(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = Removexattr4Args::decode(args)?;
    let (object, caller) = subject(c)?;
    let name = checked(&args.rxa_name)?;
    c.begin_change(&object)?;
    let change = Change::before(&object)?;
    object.export.backend.remove_xattr(&caller, &object.handle, name)?;
    reply.value(&change.after(&object));
    c.sync_before_reply(&object)
}

/// Returns the current object, if its file system has extended attributes, and the caller.
fn subject(c: &Compound<'_>) -> OpResult<(Object, Caller)> {
    let object = c.object(Nfsstat4::NFS4ERR_NOTSUPP)?.clone();
    if !object.export.backend.features_of(&object.handle).xattrs {
        return Err(Nfsstat4::NFS4ERR_NOTSUPP.into());
    }
    let caller = c.caller(&object);
    Ok((object, caller))
}

/// Checks the name of an attribute.
fn checked(name: &[u8]) -> Result<&[u8], OpError> {
    if name.is_empty() || std::str::from_utf8(name).is_err() {
        return Err(Nfsstat4::NFS4ERR_INVAL.into());
    }
    if name.contains(&0) {
        return Err(Nfsstat4::NFS4ERR_BADCHAR.into());
    }
    if name.len() > XATTR_NAME_MAX {
        return Err(Nfsstat4::NFS4ERR_NAMETOOLONG.into());
    }
    Ok(name)
}
