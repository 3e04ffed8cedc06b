//! Whole COMPOUNDs in, whole COMPOUNDs out, against the memory backend at a given time.

mod acls;
mod attributes;
mod callbacks;
mod copies;
mod delegations;
mod grace;
mod helper;
mod io;
mod limits;
mod local;
mod local_locks;
mod locks;
mod metadata;
mod minor2;
mod namespace;
mod open;
mod races;
mod random;
mod read_plus;
mod readdir;
mod recalls;
mod security;
mod sessions;
mod v40;
mod waiting;
mod xattrs;
