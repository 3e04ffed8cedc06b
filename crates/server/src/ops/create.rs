//! CREATE: objects other than regular files (RFC 8881 section 18.4).

use crate::attr::{self, Subject};
use crate::engine::{Change, Compound, Fh, OpError, OpResult, names};
use nfs4::{Create4Args, Createtype4, Nfsstat4};
use vfs::{FileType, NewObject};
use xdr::{Decode, Decoder, Encoder};

/// Creates an object and makes it the current filehandle.
///
/// # Errors
/// NFS4ERR_BADTYPE for regular files and attribute directories, the errors of names and attributes,
/// NFS4ERR_EXIST, and the backend's.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = Create4Args::decode(args)?;
    let object = new_object(&args.objtype, c.nfs.config.symlink_max)?;
    let name = names::component(&args.objname)?;
    let directory_made = object == NewObject::Directory;
    let made = if directory_made { FileType::Directory } else { FileType::Regular };
    let mut settable = attr::decode(c, &args.createattrs, Some(made))?;
    if settable.set.size.take().is_some() {
        return Err(Nfsstat4::NFS4ERR_INVAL.into());
    }
    let directory = c.directory()?;
    if c.lookup_pseudo(c.fh()?, name)?.is_some() {
        return Err(Nfsstat4::NFS4ERR_EXIST.into());
    }
    let change = Change::before(&directory)?;
    let caller = c.caller(&directory);
    if matches!(object, NewObject::Symlink(_)) && settable.acl.is_some() {
        return Err(Nfsstat4::NFS4ERR_ATTRNOTSUPP.into());
    }
    settable.fit_acl(|| Ok(Subject { directory: directory_made, owner: Some(caller.uid), group: None }))?;
    let backend = &directory.export.backend;
    let handle = backend.create(&caller, &directory.handle, name, object, &settable.set)?;
    let object = directory.other(handle);
    c.set_current(Fh::Object(object.clone()));
    reply.value(&change.after(&directory));
    reply.value(&settable.mask);
    if settable.set.follow_the_name() {
        c.sync_before_reply(&object)?;
    }
    c.sync_before_reply(&directory)
}

fn new_object<'a>(objtype: &'a Createtype4<'_>, symlink_max: usize) -> Result<NewObject<'a>, OpError> {
    match objtype {
        Createtype4::NF4DIR => Ok(NewObject::Directory),
        Createtype4::NF4LNK(target) if target.is_empty() || target.contains(&0) => {
            Err(Nfsstat4::NFS4ERR_INVAL.into())
        }
        Createtype4::NF4LNK(target) if target.len() > symlink_max => {
            Err(Nfsstat4::NFS4ERR_NAMETOOLONG.into())
        }
        Createtype4::NF4LNK(target) => Ok(NewObject::Symlink(target)),
        Createtype4::NF4BLK(device) => Ok(NewObject::Block(device.specdata1, device.specdata2)),
        Createtype4::NF4CHR(device) => Ok(NewObject::Character(device.specdata1, device.specdata2)),
        Createtype4::NF4SOCK => Ok(NewObject::Socket),
        Createtype4::NF4FIFO => Ok(NewObject::Fifo),
        Createtype4::Default(_) => Err(Nfsstat4::NFS4ERR_BADTYPE.into()),
    }
}
