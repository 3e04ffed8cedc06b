//! Access control lists: conversion between NFSv4 lists (RFC 8881 section 6) and POSIX lists.
//!
//! The rules are in docs/acls.md. The mapping identifies users and groups by number; [`wire`] has
//! their names.

mod from_posix;
#[cfg(test)]
mod tests;
mod to_posix;
pub mod wire;

pub use from_posix::from_posix;
pub use to_posix::{Unfit, to_posix};

use nfs4::{
    ACE4_APPEND_DATA, ACE4_DELETE_CHILD, ACE4_DIRECTORY_INHERIT_ACE, ACE4_EXECUTE, ACE4_FILE_INHERIT_ACE,
    ACE4_READ_ACL, ACE4_READ_ATTRIBUTES, ACE4_READ_DATA, ACE4_SYNCHRONIZE, ACE4_WRITE_ACL,
    ACE4_WRITE_ATTRIBUTES, ACE4_WRITE_DATA,
};
use vfs::{ACL_EXECUTE, ACL_READ, ACL_WRITE};

/// The subject of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Who {
    /// OWNER@: the owner of the object.
    Owner,
    /// GROUP@: the owning group.
    Group,
    /// EVERYONE@, the owner and the group included.
    Everyone,
    /// A user by number.
    User(u32),
    /// A group by number.
    NamedGroup(u32),
}

/// One entry of an NFSv4 list that allows or denies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ace {
    /// The subject: user, group or special identifier.
    pub who: Who,
    /// Whether it allows, or else denies.
    pub allow: bool,
    /// The rights, as acemask4.
    pub mask: u32,
    /// The inheritance bits of aceflag4.
    pub flag: u32,
}

/// Both inheritance flags: POSIX does not distinguish between files and directories.
const INHERIT: u32 = ACE4_FILE_INHERIT_ACE | ACE4_DIRECTORY_INHERIT_ACE;
/// Rights of every caller that can reach the object.
const ANYBODYS: u32 = ACE4_READ_ATTRIBUTES | ACE4_READ_ACL | ACE4_SYNCHRONIZE;
/// Rights that an owner always has.
const OWNERS: u32 = ACE4_WRITE_ATTRIBUTES | ACE4_WRITE_ACL;

/// Returns the bits of acemask4 for writing.
fn write_bits(directory: bool) -> u32 {
    let bits = ACE4_WRITE_DATA | ACE4_APPEND_DATA;
    if directory { bits | ACE4_DELETE_CHILD } else { bits }
}

/// Converts rights to acemask4.
fn mask_of(rights: u8, directory: bool) -> u32 {
    let pairs = [(ACL_READ, ACE4_READ_DATA), (ACL_WRITE, write_bits(directory)), (ACL_EXECUTE, ACE4_EXECUTE)];
    pairs.into_iter().filter(|(right, _)| rights & right != 0).fold(0, |mask, (_, bits)| mask | bits)
}

/// Returns the rights that an entry decides. Allowing to write takes all bits of writing, denying
/// it takes one.
fn rights_of(ace: &Ace, directory: bool) -> u8 {
    let writing = ace.mask & write_bits(directory);
    let writes = if ace.allow { writing == write_bits(directory) } else { writing != 0 };
    let mut rights = if writes { ACL_WRITE } else { 0 };
    if ace.mask & ACE4_READ_DATA != 0 {
        rights |= ACL_READ;
    }
    if ace.mask & ACE4_EXECUTE != 0 {
        rights |= ACL_EXECUTE;
    }
    rights
}
