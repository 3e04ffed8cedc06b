//! Entries in their wire form, with users and groups by name.

use super::{Ace, Who};
use crate::engine::{Compound, OpResult};
use nfs4::{
    ACE4_ACCESS_ALLOWED_ACE_TYPE, ACE4_ACCESS_DENIED_ACE_TYPE, ACE4_FAILED_ACCESS_ACE_FLAG,
    ACE4_IDENTIFIER_GROUP, ACE4_INHERITED_ACE, ACE4_SUCCESSFUL_ACCESS_ACE_FLAG, Nfsace4, Nfsstat4,
};
use vfs::ACL_ENTRIES_MAX;
use xdr::Encoder;

/// Bits of aceflag4 that do not change the effect of an entry here.
const IDLE: u32 = ACE4_IDENTIFIER_GROUP
    | ACE4_INHERITED_ACE
    | ACE4_SUCCESSFUL_ACCESS_ACE_FLAG
    | ACE4_FAILED_ACCESS_ACE_FLAG;

/// Decodes a list of entries.
///
/// # Errors
/// NFS4ERR_ATTRNOTSUPP for AUDIT and ALARM, NFS4ERR_BADOWNER, NFS4ERR_INVAL for a malformed entry,
/// NFS4ERR_NOSPC for more entries than any file system keeps, NFS4ERR_DELAY while names cannot be
/// looked up.
pub fn decode(c: &Compound<'_>, list: &[Nfsace4<'_>]) -> OpResult<Vec<Ace>> {
    if list.len() > ACL_ENTRIES_MAX {
        return Err(Nfsstat4::NFS4ERR_NOSPC.into());
    }
    list.iter().map(|ace| one(c, ace)).collect()
}

fn one(c: &Compound<'_>, ace: &Nfsace4<'_>) -> OpResult<Ace> {
    let allow = match ace.r#type {
        ACE4_ACCESS_ALLOWED_ACE_TYPE => true,
        ACE4_ACCESS_DENIED_ACE_TYPE => false,
        _ => return Err(Nfsstat4::NFS4ERR_ATTRNOTSUPP.into()),
    };
    let who = match &*ace.who {
        b"OWNER@" => Who::Owner,
        b"GROUP@" => Who::Group,
        b"EVERYONE@" => Who::Everyone,
        name if ace.flag & ACE4_IDENTIFIER_GROUP != 0 => Who::NamedGroup(c.gid_of(name)?),
        name => Who::User(c.uid_of(name)?),
    };
    Ok(Ace { who, allow, mask: ace.access_mask, flag: ace.flag & !IDLE })
}

/// Encodes a list as fattr4_acl.
///
/// # Errors
/// [`OpStop::Deferred`] for names that are not in a cache.
pub fn encode(c: &Compound<'_>, aces: &[Ace], reply: &mut Encoder) -> OpResult {
    reply.array_len(aces.len());
    for ace in aces {
        let number = if ace.allow { ACE4_ACCESS_ALLOWED_ACE_TYPE } else { ACE4_ACCESS_DENIED_ACE_TYPE };
        let group = matches!(ace.who, Who::Group | Who::NamedGroup(_));
        let flag = ace.flag | if group { ACE4_IDENTIFIER_GROUP } else { 0 };
        reply.u32(number).u32(flag).u32(ace.mask);
        match ace.who {
            Who::Owner => reply.opaque(b"OWNER@"),
            Who::Group => reply.opaque(b"GROUP@"),
            Who::Everyone => reply.opaque(b"EVERYONE@"),
            Who::User(uid) => reply.opaque(c.owner(uid)?.as_bytes()),
            Who::NamedGroup(gid) => reply.opaque(c.owner_group(gid)?.as_bytes()),
        };
    }
    Ok(())
}
