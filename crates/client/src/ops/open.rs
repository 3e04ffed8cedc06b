//! OPEN, OPEN_DOWNGRADE and CLOSE.

use nfs4::attributes::fattr4;
use nfs4::*;

use super::{Attributes, Handle, handle_and_attributes};
use crate::client::Client;
use crate::error::Error;
use crate::reply::{Reply, Results};

/// Share access, share denial and creation mode of an open.
#[derive(Clone, Debug)]
pub struct OpenHow {
    /// OPEN4_SHARE_ACCESS bits, including the WANT bits for delegations.
    pub access: u32,
    /// OPEN4_SHARE_DENY bits of the open.
    pub deny: u32,
    /// The creation mode of the file.
    pub create: Create,
    /// The open-owner; `None` uses a new one for each open.
    pub owner: Option<Vec<u8>>,
}

/// The creation mode of OPEN.
#[derive(Clone, Debug)]
pub enum Create {
    /// The file must exist.
    No,
    /// UNCHECKED4: creates the file with these attributes if it does not exist; an existing file
    /// only takes a size of 0.
    Unchecked(Box<AttributeValues<'static>>),
    /// GUARDED4: the file must not exist.
    Guarded(Box<AttributeValues<'static>>),
    /// EXCLUSIVE4: the file must not exist, unless it was created with this verifier.
    Exclusive([u8; 8]),
    /// EXCLUSIVE4_1: the same, with attributes.
    ExclusiveWith([u8; 8], Box<AttributeValues<'static>>),
}

/// An open file and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFile {
    /// The filehandle of the file.
    pub handle: Handle,
    /// The stateid of the open.
    pub stateid: Stateid4,
    /// The attributes of the file after the open.
    pub attributes: Attributes,
    /// `rflags` of the result.
    pub flags: u32,
    /// The change of the directory by the open.
    pub change: ChangeInfo4,
    /// The delegation granted with the open.
    pub delegation: OpenDelegation4<'static>,
    /// The open-owner of the open.
    pub owner: Vec<u8>,
}

impl OpenHow {
    /// Opens an existing file for reading.
    pub const fn read() -> Self {
        Self::new(OPEN4_SHARE_ACCESS_READ)
    }

    /// Opens an existing file for reading and writing.
    pub const fn write() -> Self {
        Self::new(OPEN4_SHARE_ACCESS_BOTH)
    }

    /// Opens an existing file with these access bits, denying nothing and requesting no delegation.
    pub const fn new(access: u32) -> Self {
        let access = access | OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
        Self { access, deny: OPEN4_SHARE_DENY_NONE, create: Create::No, owner: None }
    }

    /// Opens for reading and writing; creates the file with `mode` or truncates it.
    pub fn create(mode: u32) -> Self {
        let values = AttributeValues { mode: Some(mode), size: Some(0), ..AttributeValues::default() };
        Self { create: Create::Unchecked(Box::new(values)), ..Self::write() }
    }

    /// Opens for reading and writing a file that must not exist.
    pub fn create_new(mode: u32) -> Self {
        let values = AttributeValues { mode: Some(mode), ..AttributeValues::default() };
        Self { create: Create::Guarded(Box::new(values)), ..Self::write() }
    }

    /// Denies other opens the access in `deny`.
    pub fn deny(mut self, deny: u32) -> Self {
        self.deny = deny;
        self
    }

    /// Opens with this open-owner.
    pub fn owner(mut self, owner: impl Into<Vec<u8>>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Returns the arguments of OPEN.
    pub fn arguments<'a>(&self, owner: &'a [u8], claim: OpenClaim4<'a>) -> Open4Args<'a> {
        let attributes = |values: &AttributeValues<'_>| fattr4(&values.present(), values);
        let how = match &self.create {
            Create::No => None,
            Create::Unchecked(values) => Some(Createhow4::UNCHECKED4(attributes(values))),
            Create::Guarded(values) => Some(Createhow4::GUARDED4(attributes(values))),
            Create::Exclusive(verifier) => Some(Createhow4::EXCLUSIVE4(*verifier)),
            Create::ExclusiveWith(verifier, values) => Some(Createhow4::EXCLUSIVE4_1(Creatverfattr {
                cva_verf: *verifier,
                cva_attrs: attributes(values),
            })),
        };
        Open4Args {
            seqid: 0,
            share_access: self.access,
            share_deny: self.deny,
            // The server takes the client from the session (RFC 8881 section 18.16.3).
            owner: StateOwner4 { clientid: 0, owner: owner.into() },
            openhow: how.map_or(Openflag4::Default(Opentype4::OPEN4_NOCREATE), Openflag4::OPEN4_CREATE),
            claim,
        }
    }
}

fn read_open(results: &mut Results<'_>, owner: &[u8]) -> Result<OpenFile, Error> {
    let open: Open4Resok<'_> = results.take(NfsOpnum4::OP_OPEN)?;
    let (handle, attributes) = handle_and_attributes(results)?;
    Ok(OpenFile {
        handle,
        stateid: open.stateid,
        attributes,
        flags: open.rflags,
        change: open.cinfo,
        delegation: open.delegation.into_owned(),
        owner: owner.to_vec(),
    })
}

impl Client {
    /// Returns an open-owner that this client has not used yet.
    pub fn new_owner(&mut self) -> Vec<u8> {
        self.open_owners += 1;
        format!("owner {}", self.open_owners).into_bytes()
    }

    /// Opens the file `name` in a directory.
    pub fn open(&mut self, directory: &[u8], name: &[u8], how: &OpenHow) -> Result<OpenFile, Error> {
        self.open_claiming(directory, OpenClaim4::CLAIM_NULL(name.into()), how)
    }

    /// Opens a file by its filehandle (CLAIM_FH).
    pub fn open_handle(&mut self, file: &[u8], how: &OpenHow) -> Result<OpenFile, Error> {
        self.open_claiming(file, OpenClaim4::CLAIM_FH, how)
    }

    /// Reclaims an open after a restart of the server (CLAIM_PREVIOUS).
    ///
    /// # Errors
    /// NFS4ERR_NO_GRACE after the grace period, and the other errors of OPEN.
    pub fn reclaim_open(&mut self, file: &[u8], how: &OpenHow) -> Result<OpenFile, Error> {
        let had = OpenDelegationType4::OPEN_DELEGATE_NONE;
        self.open_claiming(file, OpenClaim4::CLAIM_PREVIOUS(had), how)
    }

    /// Opens with any claim; `handle` is the current filehandle.
    pub fn open_claiming(
        &mut self,
        handle: &[u8],
        claim: OpenClaim4<'_>,
        how: &OpenHow,
    ) -> Result<OpenFile, Error> {
        let owner = match &how.owner {
            Some(owner) => owner.clone(),
            None => self.new_owner(),
        };
        self.perform(
            |compound| {
                compound.putfh(handle).open(how.arguments(&owner, claim.clone()));
                compound.getfh().getattr(Attributes::STAT)
            },
            |reply| {
                let mut results = reply.results();
                read_open(results.done(NfsOpnum4::OP_PUTFH)?, &owner)
            },
        )
    }

    /// Opens a file by path.
    pub fn open_path(&mut self, path: &str, how: &OpenHow) -> Result<OpenFile, Error> {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let (directory, _) = self.lookup_path(directory)?;
        self.open(&directory, name.as_bytes(), how)
    }

    /// Reduces the access and denial of an open, and stores the new stateid in `file`.
    pub fn open_downgrade(&mut self, file: &mut OpenFile, access: u32, deny: u32) -> Result<(), Error> {
        let operation = NfsArgop4::OP_OPEN_DOWNGRADE(OpenDowngrade4Args {
            open_stateid: file.stateid,
            seqid: 0,
            share_access: access,
            share_deny: deny,
        });
        let result: OpenDowngrade4Resok =
            self.on(&file.handle, &operation, |results, number| results.take(number))?;
        file.stateid = result.open_stateid;
        Ok(())
    }

    /// Closes an open file.
    ///
    /// # Errors
    /// NFS4ERR_LOCKS_HELD and the other errors of CLOSE.
    pub fn close_file(&mut self, file: &OpenFile) -> Result<(), Error> {
        self.perform(|compound| compound.putfh(&file.handle).close(file.stateid), Reply::check)
    }
}
