//! The rows of NFSv4.0 (RFC 7530 section 16): the rows of NFSv4.1 without sessions, and the
//! operations that differ.

use super::{Names, Object, Operation, Place, Records, row, size};
use crate::ops::{self, v40};
use nfs4::NfsOpnum4::{self, *};

/// The number of the last operation of NFSv4.0.
const LAST: usize = OP_RELEASE_LOCKOWNER as usize;
/// The number of the first row.
const FIRST: usize = OP_ACCESS as usize;

/// Operations that differ in NFSv4.0: owners have sequence numbers, and some operations exist only
/// there.
const OWN: [Operation; 13] = [
    row(OP_CLOSE, v40::close::run).fh().reserve(size::STATEID).waits(Names).ranges(),
    row(OP_DELEGPURGE, ops::unsupported::run),
    row(OP_LOCK, v40::lock::run).fh().reserve(size::LOCK).ranges(),
    row(OP_LOCKT, v40::lockt::run).fh().waits(Object).ranges(),
    row(OP_LOCKU, v40::locku::run).fh().reserve(size::STATEID).ranges(),
    row(OP_OPEN, v40::open::run).fh().reserve(size::OPEN).waits(Object),
    row(OP_OPEN_CONFIRM, v40::open_confirm::run).fh().reserve(size::STATEID),
    row(OP_OPEN_DOWNGRADE, v40::open_downgrade::run).fh().reserve(size::STATEID).waits(Names),
    row(OP_RENEW, v40::renew::run),
    row(OP_SETCLIENTID, v40::setclientid::run).reserve(size::SESSION).waits(Records),
    row(OP_SETCLIENTID_CONFIRM, v40::setclientid_confirm::run).reserve(size::STATUS).waits(Records),
    row(OP_RELEASE_LOCKOWNER, v40::release_lockowner::run).reserve(size::STATUS),
    row(OP_SECINFO, v40::secinfo::run).fh().waits(Object),
];

/// Operations that must not run twice and have no sequence number to detect a copy.
const ONCE: [NfsOpnum4; 7] =
    [OP_CREATE, OP_LINK, OP_REMOVE, OP_RENAME, OP_SETATTR, OP_SETCLIENTID, OP_SETCLIENTID_CONFIRM];

/// The rows from OP_ACCESS (3) on, without a gap.
pub(super) static OPERATIONS_40: [Operation; LAST - FIRST + 1] = rows();

const fn rows() -> [Operation; LAST - FIRST + 1] {
    let mut rows = [super::OPERATIONS[0]; LAST - FIRST + 1];
    let mut i = 0;
    while i < rows.len() {
        rows[i] = super::OPERATIONS[i];
        i += 1;
    }
    i = 0;
    while i < OWN.len() {
        rows[OWN[i].opnum as usize - FIRST] = OWN[i];
        i += 1;
    }
    i = 0;
    while i < rows.len() {
        rows[i].since = 0;
        rows[i].place = Place::Anywhere;
        i += 1;
    }
    i = 0;
    while i < ONCE.len() {
        rows[ONCE[i] as usize - FIRST].place = Place::Once;
        i += 1;
    }
    rows
}
